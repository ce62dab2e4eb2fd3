package httpapi

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
)

// param is a parameter of a call: in its path, its query or a header.
type param struct {
	name, in, doc string
	schema        *huma.Schema
}

// The schemas of parameters.
var (
	nameSchema = &huma.Schema{Type: huma.TypeString, MaxLength: new(job.MaxName), Pattern: `^[A-Za-z0-9._:-]+$`}
	textSchema = &huma.Schema{Type: huma.TypeString}
	timeSchema = &huma.Schema{Type: huma.TypeString, Format: "date-time"}
	waitSchema = &huma.Schema{Type: huma.TypeString, Pattern: durationPattern, Examples: []any{"30s"}}
)

func enum[T ~string](words ...T) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, w := range words {
		s.Enum = append(s.Enum, string(w))
	}
	return s
}

var (
	idPath       = param{"id", "path", "The job's id.", textSchema}
	attemptPath  = param{"n", "path", "The attempt's number.", &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0)}}
	queuePath    = param{"queue", "path", "The queue's name.", nameSchema}
	endpointPath = param{"endpoint", "path", "The endpoint's name.", nameSchema}
	waitQuery    = param{"wait", "query", "Answer once the job is finished, or after this long: up to 60s.", waitSchema}
	traceHeader  = param{"Traceparent", "header", "W3C trace context; the job keeps it and its worker gets it.", textSchema}
	stateHeader  = param{"Tracestate", "header", "Kept with Traceparent, up to 512 bytes.", textSchema}
	keyHeader    = param{KeyHeader, "header", "Makes a repeat of the same request return the same job: 200. With another request it is a 409.",
		&huma.Schema{Type: huma.TypeString, MinLength: new(1), MaxLength: new(jobserver.MaxKey)}}

	listParams = []param{
		{"queue", "query", "Jobs of this queue.", nameSchema},
		{"task", "query", "Jobs of this task.", nameSchema},
		{"endpoint", "query", "Jobs of this endpoint.", nameSchema},
		{"status", "query", "Jobs in this status.", enum(job.Statuses()...)},
		{"dead_letter", "query", "true: dead letters only; false: all but them.", enum("true", "false")},
		{"reason", "query", "Dead letters of this reason.", enum(job.Reasons()...)},
		{"tag", "query", "Jobs with this tag.", nameSchema},
		{"created_after", "query", "Jobs that were created after this moment.", timeSchema},
		{"created_before", "query", "Jobs that were created before this moment.", timeSchema},
		{"limit", "query", "At most so many; 50 unless said.", &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0), Maximum: new(float64(store.MaxPage))}},
		{"cursor", "query", "next_cursor of the page before.", textSchema},
	}
)

// sliceParams are the parameters of a list by name, taskPath those of a contract.
var (
	sliceParams = []param{
		{"limit", "query", "At most so many; 500 unless said.", &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0), Maximum: new(float64(store.MaxPage))}},
		{"cursor", "query", "next_cursor of the page before.", textSchema},
	}
	pageParams = []param{
		{"limit", "query", "At most so many; 50 unless said.", &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0), Maximum: new(float64(store.MaxPage))}},
		{"cursor", "query", "next_cursor of the page before.", textSchema},
	}
	replayPath       = param{"replay", "path", "The replay's id.", textSchema}
	subscriptionPath = param{"subscription", "path", "The subscription's name.", nameSchema}
	taskPath         = []param{{"task", "path", "The task's name.", nameSchema}, {"version", "path", "Its version.", nameSchema}}
)

// eventParams are the parameters of the events.
var eventParams = []param{
	{"type", "query", "Events of these types, parted by commas.", textSchema},
	{"queue", "query", "Events of these queues, parted by commas.", textSchema},
	{"limit", "query", "At most so many; 100 unless said. Of pages.", &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0), Maximum: new(float64(store.EventsPage))}},
	{"cursor", "query", "next_cursor of the page before, or the id of an event: what is behind it. Without one a page begins with the oldest event, a stream with what happens from now on.", textSchema},
	{"wait", "query", "Where there is nothing behind the cursor, wait so long for something: up to 60s. Of pages.", waitSchema},
	{LastEventHeader, "header", "Of a stream: the id of the event that came last; it goes before cursor.", textSchema},
}

// document builds a Document; huma is the model of it, and nothing else.
type document struct {
	api huma.OpenAPI
}

// Document returns the OpenAPI 3.1 document of the calls, for pawl's version.
func Document(version string) []byte {
	d := document{huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "pawl", Version: version,
			Description: "The job server: programs create jobs, workers claim them under a lease, run them and report. " +
				"Errors are problem documents (RFC 9457). Durations are text such as 30s, integers in *_ms; times are RFC 3339 in UTC with milliseconds.",
		},
		Paths: map[string]*huma.PathItem{},
		Components: &huma.Components{
			Schemas: huma.NewMapRegistry("#/components/schemas/", namer),
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"key": {Type: "http", Scheme: "bearer", BearerFormat: "pawl_…", Description: "An API key: pawl keys create makes one. Each call names the scope that it needs."},
			},
		},
	}}
	for i := range calls {
		d.add(&calls[i])
	}
	d.openAnswers()
	b, err := json.Marshal(&d.api, json.Deterministic(true), jsontext.Multiline(true), jsontext.WithIndent("  "))
	if err != nil {
		panic(fmt.Sprintf("the OpenAPI document can't be written: %v", err)) // of constants: a test writes it
	}
	return append(b, '\n')
}

// namer names a schema as its type is named.
func namer(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	return strings.ToUpper(name[:1]) + name[1:]
}

func (d *document) add(c *call) {
	op := &huma.Operation{OperationID: c.id, Summary: c.Summary, Responses: map[string]*huma.Response{}}
	for _, p := range c.params {
		op.Parameters = append(op.Parameters, &huma.Param{Name: p.name, In: p.in, Description: p.doc, Required: p.in == "path", Schema: p.schema})
	}
	if c.takes != nil {
		op.RequestBody = &huma.RequestBody{Required: c.body == required, Content: d.content("application/json", c.takes)}
	}
	statuses := c.statuses
	if len(statuses) == 0 {
		statuses = []int{http.StatusOK}
	}
	for _, status := range statuses {
		r := &huma.Response{Description: wentWell(c, status)}
		if status != http.StatusNoContent {
			r.Content = d.content("application/json", c.answers)
			if c.streams == streaming {
				r.Content[eventStream] = &huma.MediaType{Schema: textSchema}
			}
		}
		op.Responses[strconv.Itoa(status)] = r
	}
	for _, t := range c.problems() {
		status := strconv.Itoa(t.Status())
		if before, ok := op.Responses[status]; ok { // several of one status
			before.Description += " Or: " + problems[t]
			continue
		}
		r := &huma.Response{Description: problems[t], Content: d.content(problem.MediaType, reflect.TypeFor[Problem]())}
		if t == problem.Unavailable {
			r.Headers = map[string]*huma.Param{"Retry-After": {Description: "When to come back, in seconds.", Schema: &huma.Schema{Type: huma.TypeInteger}}}
		}
		op.Responses[status] = r
	}
	if len(c.Scopes) > 0 {
		for _, s := range c.Scopes { // one of them is enough
			op.Security = append(op.Security, map[string][]string{"key": {string(s)}})
		}
		op.Description = "Scope: " + scopeList(c.Scopes, "or") + "."
	}
	item := d.api.Paths[c.Path]
	if item == nil {
		item = &huma.PathItem{}
		d.api.Paths[c.Path] = item
	}
	switch c.Method {
	case http.MethodGet:
		item.Get = op
	case http.MethodPost:
		item.Post = op
	case http.MethodPut:
		item.Put = op
	case http.MethodDelete:
		item.Delete = op
	}
}

// openAnswers lets the bodies of answers have further members: a client that
// holds this document must not break on those of a later release. A request's
// unknown member is an error today, and is documented so.
func (d *document) openAnswers() {
	const prefix = "#/components/schemas/"
	schemas := d.api.Components.Schemas.Map()
	asked := map[string]bool{}
	var walk func(s *huma.Schema)
	walk = func(s *huma.Schema) {
		if s == nil {
			return
		}
		if name, ok := strings.CutPrefix(s.Ref, prefix); ok && !asked[name] {
			asked[name] = true
			walk(schemas[name])
		}
		walk(s.Items)
		for _, member := range s.Properties {
			walk(member)
		}
	}
	for i := range calls {
		if t := calls[i].takes; t != nil {
			walk(d.api.Components.Schemas.Schema(t, true, ""))
		}
	}
	for name, s := range schemas {
		if s.AdditionalProperties == false && !asked[name] {
			s.AdditionalProperties = nil
		}
	}
}

// content is a body of the type; nil is any JSON.
func (d *document) content(media string, t reflect.Type) map[string]*huma.MediaType {
	if t == nil {
		return map[string]*huma.MediaType{media: {Schema: &huma.Schema{Type: huma.TypeObject}}}
	}
	return map[string]*huma.MediaType{media: {Schema: d.api.Components.Schemas.Schema(t, true, "")}}
}

func wentWell(c *call, status int) string {
	switch {
	case status == http.StatusCreated:
		return "Made, and durable."
	case slices.Contains(c.statuses, http.StatusCreated):
		return "There already: every idempotency key was used for the same request before."
	}
	return "Done."
}

// problems says what each problem of the calls means.
var problems = map[problem.Type]string{
	problem.BadRequest:       "The body is no JSON, or holds what no store can keep.",
	problem.Unauthenticated:  "There is no API key, or it is not valid.",
	problem.Forbidden:        "The key has not the scope, or is limited to other queues.",
	problem.NotFound:         "There is no such thing, or not any more.",
	problem.Conflict:         "The idempotency key was used for another request. The job is named where the key may see it.",
	problem.ManagedByFile:    "The configuration says it: change the file.",
	problem.Status:           "It is not in a state for this; detail says which it is in and what can be done.",
	problem.Uncertain:        "Its effect may have happened already; accept_uncertain says that it may happen again.",
	problem.Differs:          "What is stored says something else; detail names both.",
	problem.InUse:            "It is needed still; detail says by what.",
	problem.Exists:           "There is one of that name already.",
	problem.TooLarge:         "The request or a payload is too large.",
	problem.UnsupportedMedia: "The body does not say that it is JSON.",
	problem.Invalid:          "The request says what can't be done; errors has everything that is wrong. Without errors: the store holds as many kinds of jobs, or as many pauses, as it keeps.",
	problem.Internal:         "The server failed; its log says why.",
	problem.Unavailable:      "The server can't do it now: it is stopping, its store can't write, or too many claims wait or large requests are under way. A repeat with the same Idempotency-Key, claim_id or lease is safe.",
}

// problems are those that the call answers.
func (c *call) problems() []problem.Type {
	all := []problem.Type{problem.Invalid, problem.Internal, problem.Unavailable}
	if len(c.Scopes) == 0 {
		all = []problem.Type{problem.Invalid}
	} else {
		all = append(all, problem.Unauthenticated)
		if len(c.Scopes) < len(watch) { // else any key has one of them
			all = append(all, problem.Forbidden)
		}
	}
	if c.takes != nil {
		all = append(all, problem.BadRequest, problem.TooLarge, problem.UnsupportedMedia)
	}
	return append(all, c.fails...)
}
