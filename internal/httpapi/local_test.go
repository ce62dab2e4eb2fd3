package httpapi

// What these tests would catch: a key that is made otherwise than asked for, or
// whose secret can be read again; a backup that overwrites, or that no store can
// be opened on.

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite"
)

// local is a rig at whose URL the control socket's calls are.
func local(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.serve(Local(Options{Server: r.server, Store: r.store}))
	return r
}

func TestKeysAreMadeListedAndRevoked(t *testing.T) {
	r := local(t)
	made := is[NewKey](r.call("", "POST", "/v3/keys", `{"name":"ci","scopes":["produce","work"],"queues":["emails"],"expires_in":"90d"}`), 201)
	if !strings.HasPrefix(made.Secret, "pawl_") || made.ExpiresAt == nil || made.RevokedAt != nil {
		t.Errorf("%+v", made)
	}
	who, err := r.server.Authenticate(t.Context(), made.Secret)
	if err != nil || who.Name != "ci" || !who.Has(store.ScopeWork) || who.Has(store.ScopeOperate) || who.Sees("reports") {
		t.Errorf("%+v, %v", who, err)
	}
	a := r.call("", "GET", "/v3/keys", "")
	if strings.Contains(string(a.body), made.Secret[5:]) {
		t.Error("the list has the secret")
	}
	all := is[Keys](a, 200).Keys
	if diff := cmp.Diff(made.Key, all[len(all)-1]); diff != "" {
		t.Errorf("(-made +listed):\n%s", diff)
	}
	if d := r.call("", "POST", "/v3/keys", `{"name":"ci","scopes":["admin"]}`).fails(problem.Exists); !strings.Contains(d.Detail, "ci") {
		t.Error(d.Detail)
	}
	for i, name := range []string{"ci", all[0].ID} {
		if a := r.call("", "DELETE", "/v3/keys/"+name, ""); a.status != 204 || len(a.body) > 0 {
			t.Errorf("%d: %d %s", i, a.status, a.body)
		}
	}
	if _, err := r.server.Authenticate(t.Context(), made.Secret); err == nil {
		t.Error("a revoked key is good")
	}
	after := is[Keys](r.call("", "GET", "/v3/keys", ""), 200).Keys
	if after[len(after)-1].RevokedAt == nil || after[0].RevokedAt == nil || after[1].RevokedAt != nil {
		t.Errorf("%+v", after)
	}
	r.call("", "DELETE", "/v3/keys/nobody", "").fails(problem.NotFound)
	r.call("", "POST", "/v3/keys", `{"name":"a b","scopes":["prodcue"],"expires_in":"0s"}`).fails(problem.Invalid).faults(t,
		"/name", "may hold A-Z, a-z, 0-9 and . _ : - only",
		"/scopes/0", `unknown scope "prodcue"; known are produce, work, operate, admin; did you mean "produce"?`,
		"/expires_in", "is past: the key would never be good")
	r.call("", "POST", "/v3/keys", `{"name":"a","scopes":["produce"],"queues":[]}`).fails(problem.Invalid).faults(t, "/queues", "is empty; name some queues, or leave it out")
}

func TestABackupIsAStore(t *testing.T) {
	r := local(t)
	api := rigOnServer(t, r)
	made := api.make(aJob)
	file := filepath.Join(t.TempDir(), "copy.db")
	done := is[BackedUp](r.call("", "POST", "/v3/backup", `{"file":"`+file+`"}`), 200)
	if info, err := os.Stat(file); err != nil || done.File != file || done.Bytes != info.Size() || done.Bytes == 0 {
		t.Errorf("%+v, %v", done, err)
	}
	s, err := sqlite.Open(context.Background(), sqlite.Options{Path: file})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if j, err := s.Job(t.Context(), made.ID); err != nil || string(j.Content.Payload) != `{"user_id":7}` {
		t.Errorf("%+v, %v", j, err)
	}
	if d := r.call("", "POST", "/v3/backup", `{"file":"`+file+`"}`).fails(problem.Exists); !strings.Contains(d.Detail, file) {
		t.Error(d.Detail)
	}
	r.call("", "POST", "/v3/backup", `{"file":"copy.db"}`).fails(problem.Invalid).faults(t, "/file", "must be an absolute path: the server's folder is not yours")
	r.call("", "POST", "/v3/backup", `{}`).fails(problem.Invalid)
	if d := r.call("", "POST", "/v3/backup", `{"file":"/no/such/folder/copy.db"}`).fails(problem.Internal); !strings.Contains(d.Detail, "/no/such/folder") {
		t.Error(d.Detail)
	}
}

func TestTheLocalCallsAreNowhereElse(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/v3/keys", "/v3/keys/admin", "/v3/backup"} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			r.call("admin", method, path, "{}").fails(problem.NotFound)
		}
	}
}
