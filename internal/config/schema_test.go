package config

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/setting"
)

// validator compiles the schema of the test's kinds.
func validator(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := Schema(testRegistry())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(schemaID, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(schemaID)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fileAsJSON reads YAML as an editor's schema check sees it.
func fileAsJSON(t *testing.T, path string) any {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := yaml.Load(text, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestSchemaTakesWhatLoads(t *testing.T) {
	s := validator(t)
	for _, c := range good(t).Files {
		if err := s.Validate(fileAsJSON(t, c)); err != nil {
			t.Errorf("%s: %v", c, err)
		}
	}
	// Mistakes that only the loader can see are no business of the schema.
	for _, name := range []string{"cycle", "unknown-names", "names-twice", "listeners", "spans", "group-members-named"} {
		if err := s.Validate(fileAsJSON(t, filepath.Join("testdata", "mistakes", name+".yaml"))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	s := validator(t)
	for _, name := range []string{
		"unknown-key", "unknown-key-in-destination", "unknown-key-nested", "unknown-key-of-later-work", "wrong-types",
		"bad-values", "unknown-type", "lists-wrong", "breaker-wrong", "dead-letter", "not-a-mapping",
		"group-member-settings", "group-keys-elsewhere", "groups", "hedge", "batch", "stores", "dedupe", "notify",
	} {
		if err := s.Validate(fileAsJSON(t, filepath.Join("testdata", "mistakes", name+".yaml"))); err == nil {
			t.Errorf("%s passes the schema", name)
		}
	}
}

// TestKeysAgree holds decoder, schema and reference to one list of keys.
func TestKeysAgree(t *testing.T) {
	schema, err := Schema(testRegistry())
	if err != nil {
		t.Fatal(err)
	}
	if !jsontext.Value(schema).IsValid() {
		t.Fatal("the schema is no JSON")
	}
	reference := string(Reference(testRegistry()))
	var walk func(typ reflect.Type)
	walk = func(typ reflect.Type) {
		for _, f := range fieldsOf(typ) {
			if !strings.Contains(string(schema), `"`+f.key+`": `) {
				t.Errorf("the schema lacks %s", f.key)
			}
			if !strings.Contains(reference, f.key+"` |") {
				t.Errorf("the reference lacks %s", f.key)
			}
			if f.tags.doc == "" {
				t.Errorf("%s.%s has no doc", typ.Name(), f.key)
			}
			if inner, _ := below(f); inner != nil {
				walk(inner)
			}
		}
	}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[written](), reflect.TypeFor[writtenGroup](), reflect.TypeFor[writtenMember](),
	} {
		walk(typ)
	}
}

func TestGenerated(t *testing.T) {
	schema, err := Schema(testRegistry())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("testdata", "schema.golden.json"), schema)
	golden(t, filepath.Join("testdata", "reference.golden.md"), Reference(testRegistry()))
	again, _ := Schema(testRegistry())
	if !bytes.Equal(schema, again) || !bytes.Equal(Reference(testRegistry()), Reference(testRegistry())) {
		t.Error("two runs differ")
	}
}

// TestDefaultsAgree holds the defaults that the tags tell of to those in force.
func TestDefaultsAgree(t *testing.T) {
	compare := func(v reflect.Value) {
		for _, f := range fieldsOf(v.Type()) {
			value := v.FieldByIndex(f.index)
			if f.tags.standard == "" || value.IsZero() || f.typ.Kind() == reflect.Pointer {
				continue
			}
			if got := standardOf(f, value); got != f.tags.standard {
				t.Errorf("%s: the tag says %s, the value is %s", f.key, f.tags.standard, got)
			}
		}
	}
	w := defaultWritten()
	for _, v := range []any{w, w.Jobs, w.Jobs.Retention, w.HTTP, w.Secrets, w.Log, w.Telemetry.Traces, w.DeadLetter, defaultSource(), defaultGroup()} {
		compare(reflect.ValueOf(v))
	}
	// What is nil in the written form is filled in when resolved: the tags are
	// loaded as a destination's own and must change nothing.
	var b strings.Builder
	b.WriteString("destinations:\n  - name: a\n    type: stdout\n")
	for _, f := range fieldsOf(reflect.TypeFor[writtenDelivery]()) {
		if f.key != "success" && f.tags.standard != "" {
			b.WriteString("    " + f.key + ": " + f.tags.standard + "\n")
		}
	}
	for key, typ := range map[string]reflect.Type{"retry": reflect.TypeFor[writtenRetry](), "circuit_breaker": reflect.TypeFor[writtenBreaker]()} {
		b.WriteString("    " + key + ":\n")
		for _, f := range fieldsOf(typ) {
			if f.key != "max_retry_after" {
				b.WriteString("      " + f.key + ": " + f.tags.standard + "\n")
			}
		}
	}
	c := loaded(t, b.String())
	got, want := c.Destinations[0].Delivery, resolveDelivery(inherited(&writtenDelivery{}, &writtenDelivery{}))
	got.From, want.From, got.Retry.From, want.Retry.From = nil, nil, nil, nil
	got.DeliveredOn, got.Transforms, got.ForwardHeaders = nil, nil, nil // empty, not nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the tags say\n%+v, in force is\n%+v", got, want)
	}
}

// TestDefaultsOfMappingsAgree is the same of mappings that are not there unless
// they are said: what their tags tell of changes nothing.
func TestDefaultsOfMappingsAgree(t *testing.T) {
	load := func(tags func(typ reflect.Type) string) *Config {
		return loaded(t, fmt.Sprintf(`
stores: [ { name: s, type: redis, url: "redis://localhost"%s, retry: { attempts: 2%s } } ]
sources: [ { name: web, type: http, listen: ":1", dedupe: { key: .id%s } } ]
defaults: { retry_budget: { store: s%s } }
destinations:
  - { name: a, type: https, url: "https://a", batch: { max_bytes: 1MiB%s } }
  - { name: g, type: group, idempotent: true, hedge: { after: p95%s }, health_check: { path: /%s }, members: [ { name: one, type: https, url: "https://a"%s }, { name: two, type: https, url: "https://b" } ] }
  - { name: h, type: group, members: [ { type: https, url: "https://b" } ]%s }
notify: [ { to: [a]%s } ]
`, tags(reflect.TypeFor[writtenStore]()), tags(reflect.TypeFor[writtenStoreRetry]()), tags(reflect.TypeFor[writtenDedupe]()), tags(reflect.TypeFor[writtenBudget]()),
			tags(reflect.TypeFor[writtenBatch]()), tags(reflect.TypeFor[writtenHedge]()), tags(reflect.TypeFor[writtenHealth]()),
			tags(reflect.TypeFor[writtenMember]()), tags(reflect.TypeFor[writtenGroup]()), tags(reflect.TypeFor[writtenNotice]())))
	}
	// Those that stand there already, that are words for the reader, that are
	// empty lists, and the weight, which this strategy has not.
	skip := []string{"attempts", "max_bytes", "name", "success", "transforms", "delivered_on", "forward_headers", "weight"}
	got := load(func(typ reflect.Type) string {
		var b strings.Builder
		for _, f := range fieldsOf(typ) {
			if f.tags.standard != "" && !slices.Contains(skip, f.key) {
				value := f.tags.standard
				if indirect(f.typ).Kind() == reflect.String {
					value = strconv.Quote(value)
				}
				fmt.Fprintf(&b, ", %s: %s", f.key, value)
			}
		}
		if b.Len() == 0 {
			t.Errorf("%s tells of no default", typ)
		}
		return b.String()
	})
	want := load(func(reflect.Type) string { return "" })
	for _, diff := range []string{
		cmp.Diff(want.Stores, got.Stores, cmpopts.IgnoreTypes(Place{}), cmp.Comparer(func(a, b setting.Secret) bool { return a == b })),
		cmp.Diff(want.Sources[0].Dedupe, got.Sources[0].Dedupe),
		cmp.Diff(want.Destinations, got.Destinations, cmpopts.IgnoreTypes(Place{}, map[string]string{}), cmpopts.IgnoreInterfaces(struct{ connector.Settings }{})),
		cmp.Diff(want.Notify, got.Notify, cmpopts.IgnoreTypes(Place{})),
	} {
		if diff != "" {
			t.Errorf("in force (-), told of (+):\n%s", diff)
		}
	}
}

// wrongSettings is a kind's settings with every mistake of their own.
type wrongSettings struct {
	Timeout setting.Duration `yaml:"timeout" doc:"common to all"`
	Wait    time.Duration    `yaml:"wait" doc:"read as nanoseconds"`
	Events  chan int         `yaml:"events" doc:"no setting"`
	Silent  string           `yaml:"silent"`
}

func (*wrongSettings) Check() []connector.Problem { return nil }

func TestSchemaRefusesKinds(t *testing.T) {
	reg := connector.NewRegistry(nil, []connector.DestinationKind{{Type: "wrong", New: func() connector.Settings { return &wrongSettings{} }}})
	_, err := Schema(reg)
	for _, want := range []string{"timeout is common to all", "wait has the type time.Duration", "events has the type chan int", "silent has no doc"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}
