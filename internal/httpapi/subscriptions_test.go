package httpapi

// What these tests would catch: a secret that is told twice; events that go where a
// key could not read them; a URL that nothing can be sent to.

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
)

func (r *rig) subscribe(key, body string) answer {
	r.Helper()
	return r.call(key, "POST", "/v3/subscriptions", body)
}

func TestASubscriptionTellsItsSecretOnce(t *testing.T) {
	r := newRig(t)
	a := r.subscribe("admin", `{"name":"ops","url":"https://example.com/hook","events":["job.failed","circuit.opened"],"queues":["emails"]}`)
	made := is[Subscription](a, 201)
	if !strings.HasPrefix(made.Secret, "whsec_") || a.header.Get("Location") != "/v3/subscriptions/ops" {
		t.Errorf("%+v %v", made, a.header)
	}
	want := Subscription{
		Name: "ops", Managed: Managed{ManagedBy: new("api"), UpdatedBy: new("admin")}, URL: new("https://example.com/hook"), To: []string{},
		Events: []store.EventType{store.JobFailed, store.CircuitOpened}, Queues: []string{"emails"},
	}
	for _, a := range []answer{r.call("operate", "GET", "/v3/subscriptions/ops", ""), r.call("operate", "GET", "/v3/subscriptions", "")} {
		if strings.Contains(string(a.body), made.Secret) || strings.Contains(string(a.body), "whsec_") {
			t.Errorf("the secret is told again: %s", a.body)
		}
	}
	if diff := cmp.Diff(want, is[Subscription](r.call("operate", "GET", "/v3/subscriptions/ops", ""), 200), notWhen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	list := is[Subscriptions](r.call("operate", "GET", "/v3/subscriptions", ""), 200).Subscriptions
	if len(list) != 2 || list[0].Name != "filed" || *list[0].ManagedBy != "file" || len(list[0].To) != 1 || list[1].Name != "ops" {
		t.Errorf("%+v", list)
	}
	goldenProblem(t, "exists", r.subscribe("admin", `{"name":"ops","url":"https://example.com/other","events":["job.failed"]}`), "")
	if a := r.call("admin", "DELETE", "/v3/subscriptions/ops", ""); a.status != 204 {
		t.Errorf("%d %s", a.status, a.body)
	}
	r.call("admin", "DELETE", "/v3/subscriptions/ops", "").fails(problem.NotFound)
}

func TestWhatIsWrongWithASubscription(t *testing.T) {
	r := newRig(t)
	for body, want := range map[string][]string{
		`{}`: {"/name", "is missing", "/url", "is missing", "/events", "is missing"},
		`{"name":"a b","url":"","events":["job.faild"],"to":["chat"]}`: {"/name", "may hold A-Z, a-z, 0-9 and . _ : - only", "/url", "is empty; leave it out instead",
			"/events/0", `unknown; did you mean "job.failed"?`, "/to", "unknown member; known are name, url, events, queues, secret"},
		`{"name":"ops","url":"ftp://example.com","events":["job.failed","job.failed"],"secret":"whsec_x"}`: {
			"/events/1", "is there twice", "/url", "must be an http or https URL with a host", "/secret", "must be whsec_ and the base64 of 24 to 64 bytes"},
		`{"name":"ops","url":"https://user:pass@example.com","events":[]}`: {
			"/events", "is empty; name some of job.created, job.retried, job.succeeded, job.failed, job.cancelled, job.deleted, circuit.opened, circuit.half_open, circuit.closed, " +
				"queue.paused, queue.resumed, endpoint.paused, endpoint.resumed, endpoint.held, replay.moved, subscription.disabled",
			"/url", "must carry no user and no password; what is sent is signed"},
	} {
		d := r.subscribe("admin", body).fails(problem.Invalid)
		t.Run(body, func(t *testing.T) { d.faults(t, want...) })
	}
}

// TestASubscriptionIsOfQueuesThatItsKeySees has a key for one queue.
func TestASubscriptionIsOfQueuesThatItsKeySees(t *testing.T) {
	r := newRig(t)
	with := func(name, queues string) string {
		return `{"name":"` + name + `","url":"https://example.com/hook","events":["job.failed"],"queues":[` + queues + `]}`
	}
	is[Subscription](r.subscribe("admin", with("hidden", `"emails","reports"`)), 201)
	r.subscribe("mail", with("mine", "")).fails(problem.Invalid)
	r.subscribe("mail", with("mine", `"reports"`)).fails(problem.Forbidden)
	is[Subscription](r.subscribe("mail", with("mine", `"emails"`)), 201)
	if list := is[Subscriptions](r.call("mail", "GET", "/v3/subscriptions", ""), 200).Subscriptions; len(list) != 1 || list[0].Name != "mine" {
		t.Errorf("%+v", list)
	}
	for _, name := range []string{"hidden", "filed"} {
		r.call("mail", "GET", "/v3/subscriptions/"+name, "").fails(problem.NotFound)
		r.call("mail", "DELETE", "/v3/subscriptions/"+name, "").fails(problem.NotFound)
	}
}
