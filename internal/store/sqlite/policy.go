package sqlite

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json/v2"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
)

// writtenPolicy is a snapshot as the policy table keeps it. Members may be added
// but keep their meaning: old rows are read for ever.
type writtenPolicy struct {
	MaxAttempts int        `json:"max_attempts"`
	InitialMS   int64      `json:"initial_ms"`
	Factor      float64    `json:"factor"`
	MaxDelayMS  int64      `json:"max_delay_ms"`
	Jitter      float64    `json:"jitter"`
	From        levelsForm `json:"from"`
	Repeat      job.Repeat `json:"repeat,omitzero"`
	Input       string     `json:"input,omitzero"` // as hex
	Output      string     `json:"output,omitzero"`
}

type levelsForm struct {
	MaxAttempts job.Level `json:"max_attempts"`
	Initial     job.Level `json:"initial"`
	Factor      job.Level `json:"factor"`
	MaxDelay    job.Level `json:"max_delay"`
	Jitter      job.Level `json:"jitter"`
}

func encodePolicy(s job.Snapshot) (string, error) {
	text, err := json.Marshal(writtenPolicy{
		MaxAttempts: s.MaxAttempts, InitialMS: s.Initial.Milliseconds(), Factor: s.Factor,
		MaxDelayMS: s.MaxDelay.Milliseconds(), Jitter: s.Jitter, From: levelsForm(s.From),
		Repeat: s.Repeat, Input: schemaText(s.Input), Output: schemaText(s.Output),
	})
	return string(text), err
}

func decodePolicy(text string) (job.Snapshot, error) {
	var p writtenPolicy
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return job.Snapshot{}, err
	}
	return job.Snapshot{
		Policy: job.Policy{
			MaxAttempts: p.MaxAttempts, Initial: time.Duration(p.InitialMS) * time.Millisecond, Factor: p.Factor,
			MaxDelay: time.Duration(p.MaxDelayMS) * time.Millisecond, Jitter: p.Jitter,
		},
		From: job.Levels(p.From), Repeat: p.Repeat, Input: schemaHash(p.Input), Output: schemaHash(p.Output),
	}, nil
}

// schemaText is a schema's hash as hex, "" for none.
func schemaText(h job.SchemaHash) string {
	if h == (job.SchemaHash{}) {
		return ""
	}
	return hex.EncodeToString(h[:])
}

// schemaColumn is a schema's hash as a column, NULL for none.
func schemaColumn(h job.SchemaHash) any {
	if h == (job.SchemaHash{}) {
		return nil
	}
	return h[:]
}

// schemaHash is schemaText's inverse; what this package did not write is none.
func schemaHash(text string) (h job.SchemaHash) {
	if raw, err := hex.DecodeString(text); err == nil {
		copy(h[:], raw)
	}
	return h
}

// maxPolicies is how many snapshots the writer remembers. A fleet has as many as
// it has settings, but jobs may bring their own.
const maxPolicies = 10_000

// policies remembers snapshots by number and numbers by snapshot.
type policies struct {
	byID map[policyID]*job.Snapshot
	ids  map[job.Snapshot]policyID
}

func newPolicies() *policies {
	return &policies{byID: map[policyID]*job.Snapshot{}, ids: map[job.Snapshot]policyID{}}
}

func (p *policies) remember(id policyID, s job.Snapshot) *job.Snapshot {
	if len(p.byID) >= maxPolicies {
		clear(p.byID)
		clear(p.ids)
	}
	kept := &s
	p.byID[id], p.ids[s] = kept, id
	return kept
}

func (p *policies) forget(id policyID) {
	if s := p.byID[id]; s != nil {
		delete(p.ids, *s)
		delete(p.byID, id)
	}
}

// snapshots remembers what bodies of policies say, for readers: to decode one
// takes longer than to read its job. They are told apart by their text, not by
// their number, which is given out again when a policy was removed. It is safe for
// concurrent use.
type snapshots struct {
	mu     sync.RWMutex
	byBody map[string]job.Snapshot
}

func (s *snapshots) decode(body string) (job.Snapshot, error) {
	s.mu.RLock()
	kept, known := s.byBody[body]
	s.mu.RUnlock()
	if known {
		return kept, nil
	}
	read, err := decodePolicy(body)
	if err != nil {
		return read, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byBody == nil || len(s.byBody) >= maxPolicies {
		s.byBody = make(map[string]job.Snapshot)
	}
	s.byBody[body] = read
	return read, nil
}

const (
	sqlPolicyOf  = "SELECT policy FROM policy WHERE hash=?"
	sqlPolicyNew = "INSERT INTO policy(policy, hash, body, input, output) VALUES (NULL, ?, ?, ?, ?) RETURNING policy"
	sqlPolicy    = "SELECT body FROM policy WHERE policy=?"
)

// policyID returns the number of a snapshot, stored where it is new.
func (t *tx) policyID(s job.Snapshot) (id policyID, err error) {
	known := t.w.state.policies
	if id, ok := known.ids[s]; ok {
		return id, nil
	}
	body, err := encodePolicy(s)
	if err != nil {
		return 0, t.fail(err)
	}
	hash := sha256.Sum256([]byte(body))
	take := func(r *row) error { id = policyID(r.int(0)); return nil }
	there, err := t.one(sqlPolicyOf, take, hash[:])
	if err != nil {
		return 0, err
	}
	if !there {
		if err := t.write(); err != nil {
			return 0, err
		}
		if _, err := t.one(sqlPolicyNew, take, hash[:], body, schemaColumn(s.Input), schemaColumn(s.Output)); err != nil {
			return 0, err
		}
		t.policies = append(t.policies, id)
	}
	known.remember(id, s)
	return id, nil
}

// policy returns the snapshot of a number.
func (t *tx) policy(id policyID) (*job.Snapshot, error) {
	known := t.w.state.policies
	if s := known.byID[id]; s != nil {
		return s, nil
	}
	var s job.Snapshot
	there, err := t.one(sqlPolicy, func(r *row) (err error) { s, err = decodePolicy(r.text(0)); return err }, int64(id))
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, t.diverge("policy %d is missing", id)
	}
	return known.remember(id, s), nil
}
