package httpapi

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/httpapi/wirejson"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
)

// localCalls are the calls of Local. They need no key: who can open the control
// socket owns the store.
var localCalls = []call{
	{Call: Call{Method: "GET", Path: "/v3/keys"}, serve: (*api).listKeys},
	{Call: Call{Method: "POST", Path: "/v3/keys"}, serve: (*api).createKey},
	{Call: Call{Method: "DELETE", Path: "/v3/keys/{name}"}, serve: (*api).revokeKey},
	{Call: Call{Method: "POST", Path: "/v3/backup"}, serve: (*api).backup},
}

var (
	keyMembers    = []string{"name", "scopes", "queues", "expires_in"}
	backupMembers = []string{"file"}
)

// WireKey is a key as the wire has it.
func WireKey(k store.Key) Key {
	w := Key{ID: k.ID, Name: k.Name, Scopes: k.Scopes, Queues: k.Queues, CreatedAt: wireTime(k.CreatedAt)}
	if w.Queues == nil {
		w.Queues = []string{}
	}
	if !k.ExpiresAt.IsZero() {
		w.ExpiresAt = new(wireTime(k.ExpiresAt))
	}
	if !k.Revoked.IsZero() {
		w.RevokedAt = new(wireTime(k.Revoked))
	}
	return w
}

func (a *api) listKeys(q *request) error {
	keys, err := a.store.Keys(q.Context())
	if err != nil {
		return err
	}
	answer := Keys{Keys: make([]Key, 0, len(keys))}
	for _, k := range keys {
		answer.Keys = append(answer.Keys, WireKey(k))
	}
	return q.marshal(http.StatusOK, answer)
}

func (a *api) createKey(q *request) error {
	var (
		ask     jobserver.KeyRequest
		expires *time.Duration
	)
	err := q.read(wirejson.Refuse, func(r *wirejson.Reader) {
		r.Object(keyMembers, func(member string) {
			switch member {
			case "name":
				ask.Name = r.Text()
			case "scopes":
				r.Array(len(store.Scopes()), "scopes", func(int) { ask.Scopes = append(ask.Scopes, store.Scope(r.Text())) })
			case "queues":
				r.Choice(jobserver.MaxQueues, "queues", func(int) { ask.Queues = append(ask.Queues, r.Text()) })
			case "expires_in":
				expires = r.Duration()
			}
		})
	})
	if err != nil {
		return err
	}
	now := a.store.Now()
	if expires != nil {
		ask.Expires = now.Add(*expires)
	}
	secret, k, err := jobserver.NewKey(ask, now)
	if wrong, ok := errors.AsType[*jobserver.InvalidError](err); ok {
		for i := range wrong.Problems { // the moment was said as a length of time
			wrong.Problems[i].Pointer = strings.Replace(wrong.Problems[i].Pointer, "/expires", "/expires_in", 1)
		}
	}
	if err != nil {
		return err
	}
	err = a.store.AddKey(q.Context(), k)
	if errors.Is(err, store.ErrExists) {
		return &refusal{problem.Document{Type: problem.Exists, Detail: "there is a key named " + ask.Name + " already, good or revoked; choose another name"}}
	}
	if err != nil {
		return err
	}
	return q.marshal(http.StatusCreated, NewKey{Key: WireKey(k), Secret: secret})
}

func (a *api) revokeKey(q *request) error {
	name := q.PathValue("name")
	err := a.store.RevokeKey(q.Context(), name)
	if errors.Is(err, store.ErrNotFound) {
		return notFound("there is no key %q; pawl keys list shows them", cut(name))
	}
	if err != nil {
		return err
	}
	return q.done()
}

// backup copies the store. It takes as long as it takes, so the deadline for the
// answer is lifted.
func (a *api) backup(q *request) error {
	var file string
	err := q.read(wirejson.Refuse, func(r *wirejson.Reader) {
		r.Object(backupMembers, func(string) { file = r.Text() })
	})
	if err != nil {
		return err
	}
	if !filepath.IsAbs(file) {
		return &jobserver.InvalidError{Problems: []jobserver.Problem{{Pointer: "/file", Message: "must be an absolute path: the server's folder is not yours"}}}
	}
	c := http.NewResponseController(q.w)
	_ = c.SetReadDeadline(time.Time{}) // not supported: then there is none
	_ = c.SetWriteDeadline(time.Time{})
	switch err := a.store.Backup(q.Context(), file); {
	case errors.Is(err, os.ErrExist):
		return &refusal{problem.Document{Type: problem.Exists, Detail: file + " exists already; a backup overwrites nothing"}}
	case known(err):
		return err
	case err != nil: // the file system's: the caller owns it, so it is told
		return &refusal{problem.Document{Type: problem.Internal, Detail: "the backup failed: " + err.Error()}}
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	return q.marshal(http.StatusOK, BackedUp{File: file, Bytes: info.Size()})
}

// known reports whether explain has more to say of the error than that it is one.
func known(err error) bool {
	if err == nil {
		return false
	}
	doc, _ := explain(err)
	return doc.Type != problem.Internal
}
