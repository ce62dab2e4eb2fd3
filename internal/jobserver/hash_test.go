package jobserver

// What these tests would catch: a repeat that is taken for another request
// because of its spaces or a setting that changed, another request that is taken
// for a repeat (and so dropped), and a form of hashes that changed although
// hashes are kept.

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

func sumOf(t testing.TB, n New) string {
	t.Helper()
	sum, err := hashNew(&n)
	if err != nil {
		t.Fatalf("%s: %v", n.Payload, err)
	}
	return hex.EncodeToString(sum[:])
}

// each is requests of which no two are the same.
func each() []New {
	at := time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)
	const null = "null"
	base := New{Queue: "q", Task: "t", Payload: []byte(null)}
	with := func(change func(*New)) New {
		n := base
		change(&n)
		return n
	}
	return []New{
		base,
		with(func(n *New) { n.Queue = "qt"; n.Task = "" }),
		with(func(n *New) { n.Queue = "q2" }),
		with(func(n *New) { n.Task = "t2" }),
		with(func(n *New) { n.Version = "1" }),
		with(func(n *New) { n.Endpoint = "1" }),
		with(func(n *New) { n.Priority = 1 }),
		with(func(n *New) { n.Priority = -1 }),
		with(func(n *New) { n.Tags = []string{"a"} }),
		with(func(n *New) { n.Tags = []string{"a", "b"} }),
		with(func(n *New) { n.Tags = []string{"b", "a"} }),
		with(func(n *New) { n.Tags = []string{"ab"} }),
		with(func(n *New) { n.Retry.MaxAttempts = new(1) }),
		with(func(n *New) { n.Retry.Initial = new(time.Duration(1)) }),
		with(func(n *New) { n.Retry.Factor = new(1.0) }),
		with(func(n *New) { n.Retry.MaxDelay = new(time.Duration(1)) }),
		with(func(n *New) { n.Retry.Jitter = new(0.0) }),
		with(func(n *New) { n.Timeout = new(time.Duration(1)) }),
		with(func(n *New) { n.Delay = new(time.Duration(0)) }),
		with(func(n *New) { n.Delay = new(time.Duration(1)) }),
		with(func(n *New) { n.RunAt = &at }),
		with(func(n *New) { n.RunAt = new(at.Add(time.Nanosecond)) }),
		with(func(n *New) { n.Payload = []byte(`0`) }),
		with(func(n *New) { n.Payload = []byte(`"0"`) }),
		with(func(n *New) { n.Payload = []byte(`[1,2]`) }),
		with(func(n *New) { n.Payload = []byte(`[2,1]`) }),
		with(func(n *New) { n.Payload = []byte(`[12]`) }),
		with(func(n *New) { n.Payload = []byte(`{"a":1,"b":2}`) }),
		with(func(n *New) { n.Payload = []byte(`{"a":2,"b":1}`) }),
		// Alike as floats; a service's ids are such numbers.
		with(func(n *New) { n.Payload = []byte(`9007199254740992`) }),
		with(func(n *New) { n.Payload = []byte(`9007199254740993`) }),
		with(func(n *New) { n.Payload = []byte(`0.1`) }),
		with(func(n *New) { n.Payload = []byte(`0.1000000000000000055`) }),
	}
}

func TestDifferentRequestsDiffer(t *testing.T) {
	seen := map[string]int{}
	for i, n := range each() {
		sum := sumOf(t, n)
		if j, there := seen[sum]; there {
			t.Errorf("requests %d and %d are alike: %+v", j, i, n)
		}
		seen[sum] = i
	}
}

func TestWhatDoesNotMatterIsAlike(t *testing.T) {
	at := time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)
	base := New{Queue: "q", Task: "t", Payload: []byte(`{"b":[1,{"x":"é","y":null}],"a":"\n"}`), RunAt: &at}
	for name, change := range map[string]func(*New){
		"spaces":       func(n *New) { n.Payload = []byte(" { \"b\" : [ 1 ,\n{\"x\":\"é\",\"y\":null}],\t\"a\":\"\\n\"} ") },
		"member order": func(n *New) { n.Payload = []byte(`{"a":"\n","b":[1,{"y":null,"x":"é"}]}`) },
		"escapes":      func(n *New) { n.Payload = []byte(`{"\u0062":[1,{"x":"\u00e9","y":null}],"a":"\u000a"}`) },
		"a time zone":  func(n *New) { n.RunAt = new(at.In(time.FixedZone("", 3600))) },
		"no tags":      func(n *New) { n.Tags = []string{} },
		"the key":      func(n *New) { n.Key = "k" },
		"the trace":    func(n *New) { n.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" },
	} {
		n := base
		change(&n)
		if sumOf(t, n) != sumOf(t, base) {
			t.Errorf("%s make it another request", name)
		}
	}
}

func TestHashesKeepTheirForm(t *testing.T) {
	at := time.Date(2026, 12, 1, 3, 0, 0, 5e6, time.UTC)
	n := New{
		Queue: "emails", Task: "welcome", Version: "2", Endpoint: "mailer", Priority: -3, Payload: []byte(`{"id": 7, "a": 1.50}`), Tags: []string{"x", "y"},
		Retry:   job.Overlay{MaxAttempts: new(3), Initial: new(time.Second), Factor: new(2.5), MaxDelay: new(time.Minute), Jitter: new(0.5)},
		Timeout: new(time.Minute), RunAt: &at,
	}
	if got, want := sumOf(t, n), goldenNew; got != want {
		t.Errorf("the hash of a request became %s: keys of before the change would all conflict", got)
	}
	sum, err := hashReport(&store.Report{
		Type: store.Fail, Error: &job.Error{Type: "E", Message: "m", Stack: "s"},
		Failure: job.Failure{Permanent: true, RetryIn: new(time.Second), RetryAfter: new(time.Minute)}, After: time.Second, Result: []byte(`[1]`),
	})
	if got, want := hex.EncodeToString(sum[:]), goldenReport; err != nil || got != want {
		t.Errorf("the hash of a report became %s (%v)", got, err)
	}
	body := hashBody([]byte("body"))
	if got, want := hex.EncodeToString(body[:]), goldenBody; got != want {
		t.Errorf("the hash of a body became %s", got)
	}
}

const (
	goldenNew    = "0d541d0ad0b4827bbe91bdd004efe4033e56e17516f3caa0280f5ced1aa4f691"
	goldenReport = "693e15fe055f0078e30aa3e60b7ddba32bad8e6baea264f91cb628ce6a8fbf90"
	goldenBody   = "fc738de17854fe4d2ca7d6ab21740ff773e1cea3d61e03d9b500af07cc685a22"
)

func TestReportsDiffer(t *testing.T) {
	reports := []store.Report{
		{Type: store.Complete},
		{Type: store.Complete, Result: []byte(`null`)},
		{Type: store.Complete, Result: []byte(`1`)},
		{Type: store.Fail},
		{Type: store.Fail, Error: &job.Error{}},
		{Type: store.Fail, Error: &job.Error{Type: "ab"}},
		{Type: store.Fail, Error: &job.Error{Type: "a", Message: "b"}},
		{Type: store.Fail, Error: &job.Error{Message: "ab"}},
		{Type: store.Fail, Failure: job.Failure{Permanent: true}},
		{Type: store.Fail, Failure: job.Failure{RetryIn: new(time.Duration(0))}},
		{Type: store.Fail, Failure: job.Failure{RetryAfter: new(time.Duration(0))}},
		{Type: store.Release},
		{Type: store.Release, After: time.Second},
	}
	seen := map[string]int{}
	for i := range reports {
		sum, err := hashReport(&reports[i])
		if err != nil {
			t.Fatal(err)
		}
		if j, there := seen[string(sum[:])]; there {
			t.Errorf("reports %d and %d are alike", j, i)
		}
		seen[string(sum[:])] = i
	}
	same := store.Report{Type: store.Complete, Result: []byte(" 1 "), Lease: "lse_x", Note: "n"}
	if sum, _ := hashReport(&same); seen[string(sum[:])] != 2 {
		t.Error("spaces, the lease or the note make it another report")
	}
}

func TestNoJSONIsNoHash(t *testing.T) {
	for _, payload := range []string{"", "{", `{"a":1,"a":2}`, "nul", "1 2", "\"\xff\""} {
		if _, err := hashNew(&New{Payload: []byte(payload)}); err == nil {
			t.Errorf("%q has a hash", payload)
		}
	}
}

// Any text and any nesting: what is written in another way is alike, what is
// another value is not.
func TestHashesOfAnyValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z\x{e9}"\\]{0,4}`), 1, 5, rapid.ID).Draw(t, "names")
		value := rapid.SampledFrom([]string{"1", "-0", "1e3", `"x"`, "[]", "{}", "null", "true"}).Draw(t, "value")
		write := func(names []string, space, value string) []byte {
			var members []string
			for _, n := range names {
				members = append(members, fmt.Sprintf("%s%q%s:%s%s", space, n, space, space, value))
			}
			return []byte("{" + strings.Join(members, space+",") + space + "}")
		}
		turned := rapid.Permutation(names).Draw(t, "turned")
		one, err := hashNew(&New{Payload: write(names, "", value)})
		if err != nil {
			t.Fatal(err)
		}
		if two, err := hashNew(&New{Payload: write(turned, " ", value)}); err != nil || one != two {
			t.Fatalf("order and spaces make it another request (%v)", err)
		}
		if three, err := hashNew(&New{Payload: write(names, "", "["+value+"]")}); err != nil || one == three {
			t.Fatalf("another value is alike (%v)", err)
		}
	})
}
