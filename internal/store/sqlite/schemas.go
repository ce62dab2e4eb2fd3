package sqlite

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/internal/store"
)

const (
	sqlSchema      = "SELECT body FROM schema WHERE hash=?"
	sqlSchemaPutAt = "SELECT put_at FROM schema WHERE hash=?"
	sqlSchemaAgain = "UPDATE schema SET put_at=? WHERE hash=?"
	sqlSchemaNew   = "INSERT INTO schema(hash, put_at, body) VALUES (?, ?, ?)"
	sqlSchemaSize  = "SELECT count(*) FROM schema"
	// What a policy names is kept, whether a job has the policy or may have had it a
	// moment ago.
	whereUnused = ` WHERE put_at <= ?1 AND NOT EXISTS (SELECT 1 FROM policy p WHERE p.input = schema.hash)
		AND NOT EXISTS (SELECT 1 FROM policy p WHERE p.output = schema.hash)`
	sqlSchemasUnused = "SELECT hash FROM schema" + whereUnused + " ORDER BY put_at LIMIT +?2"
	sqlSchemaGone    = "DELETE FROM schema" + whereUnused + " AND hash = ?2"
)

const (
	// maxSchemas bounds the schemas: two of every task that may be defined.
	maxSchemas = 2 * store.MaxDefinitions
	// schemaAgain is after how long a schema that is put again is written down as
	// needed: a server puts what it needs each minute.
	schemaAgain = store.SchemaRest / 4
	// schemasStep is how many one step removes, schemasRest how long nothing is
	// looked for where there was none: a look goes through all that are old.
	schemasStep = 100
	schemasRest = 10 * time.Minute
)

// PutSchema keeps a JSON Schema by its hash.
func (s *Store) PutSchema(ctx context.Context, text []byte) (hash [32]byte, err error) {
	hash = sha256.Sum256(text)
	err = s.writer.submit(ctx, len(text), func(t *tx) error {
		putAt := int64(0)
		there, err := t.one(sqlSchemaPutAt, func(r *row) error { putAt = r.int(0); return nil }, hash[:])
		if err != nil {
			return err
		}
		if there {
			if t.now-putAt >= schemaAgain.Milliseconds() {
				_, err = t.exec(sqlSchemaAgain, t.now, hash[:])
			}
			return err
		}
		n := int64(0)
		if _, err := t.one(sqlSchemaSize, func(r *row) error { n = r.int(0); return nil }); err != nil {
			return err
		}
		if n >= maxSchemas {
			return fmt.Errorf("%w: %d schemas", store.ErrTooMany, n)
		}
		_, err = t.exec(sqlSchemaNew, hash[:], t.now, text)
		return err
	})
	return hash, err
}

// Schema returns the text of a schema.
func (s *Store) Schema(ctx context.Context, hash [32]byte) (text []byte, err error) {
	err = s.readers.use(ctx, func(c *conn) error {
		there, err := c.one(sqlSchema, func(r *row) error { text = append([]byte(nil), r.blob(0)...); return nil }, hash[:])
		if err == nil && !there {
			return fmt.Errorf("schema %x: %w", hash, store.ErrNotFound)
		}
		return err
	})
	return text, err
}

// forgetSchemas removes some of the schemas that nobody put for a while and no policy
// names. looked is when there was none, by the store's clock.
func (s *Store) forgetSchemas(ctx context.Context, looked *atomic.Int64) (store.More, error) {
	now := millis(s.Now())
	if at := looked.Load(); at != 0 && now-at < schemasRest.Milliseconds() {
		return false, nil
	}
	until := now - store.SchemaRest.Milliseconds()
	var unused [][]byte
	if err := s.readers.use(ctx, func(c *conn) error {
		return c.each(sqlSchemasUnused, func(r *row) error { unused = append(unused, r.blob(0)); return nil }, until, schemasStep)
	}); err != nil {
		return false, err
	}
	if len(unused) == 0 {
		looked.Store(now)
		return false, nil
	}
	// One may have been put, or named by a new policy, since it was read: each is
	// asked about again where nothing else can come between.
	return true, s.writer.submit(ctx, 0, func(t *tx) error {
		began := time.Now()
		for i, hash := range unused {
			if i > 0 && time.Since(began) > retainWork { // long ones take longer
				return nil
			}
			if _, err := t.exec(sqlSchemaGone, until, hash); err != nil {
				return err
			}
		}
		return nil
	})
}
