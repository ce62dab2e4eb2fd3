package sqlite

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl/internal/store"
)

const (
	sqlDefinition    = "SELECT created_at FROM definition WHERE kind=? AND name=?"
	sqlDefinitionNew = `INSERT INTO definition(kind, name, body, who, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT(kind, name) DO UPDATE SET body=excluded.body, who=excluded.who, updated_at=excluded.updated_at`
	sqlDefinitionGone = "DELETE FROM definition WHERE kind=? AND name=?"
	sqlDefinitions    = "SELECT name, body, who, created_at, updated_at FROM definition WHERE kind=? AND name>? ORDER BY name LIMIT +?"
	sqlDefinitionSize = "SELECT count(*) FROM definition WHERE kind=?"
)

// definitionsChunk is how many definitions one read takes.
const definitionsChunk = 500

// PutDefinition stores what somebody said over the API.
func (s *Store) PutDefinition(ctx context.Context, d store.Definition) (store.Definition, error) {
	err := s.writer.submit(ctx, len(d.Body), func(t *tx) error {
		created := t.now
		there, err := t.one(sqlDefinition, func(r *row) error { created = r.int(0); return nil }, string(d.Kind), d.Name)
		if err != nil {
			return err
		}
		if !there {
			n := int64(0)
			if _, err := t.one(sqlDefinitionSize, func(r *row) error { n = r.int(0); return nil }, string(d.Kind)); err != nil {
				return err
			}
			if n >= store.MaxDefinitions {
				return fmt.Errorf("%w: %d definitions of the kind %s", store.ErrTooMany, n, d.Kind)
			}
		}
		d.CreatedAt, d.UpdatedAt = at(created), at(t.now)
		_, err = t.exec(sqlDefinitionNew, string(d.Kind), d.Name, d.Body, d.By, created, t.now)
		return err
	})
	return d, err
}

// RemoveDefinition forgets a definition.
func (s *Store) RemoveDefinition(ctx context.Context, k store.DefinitionKind, name string) error {
	return s.writer.submit(ctx, 0, func(t *tx) error {
		there, err := t.one(sqlDefinition, func(*row) error { return nil }, string(k), name)
		if err != nil {
			return err
		}
		if !there {
			return fmt.Errorf("the %s %q: %w", k, name, store.ErrNotFound)
		}
		_, err = t.exec(sqlDefinitionGone, string(k), name)
		return err
	})
}

// Definitions returns all of a kind, by name.
func (s *Store) Definitions(ctx context.Context, k store.DefinitionKind) (all []store.Definition, err error) {
	last := ""
	for {
		n := 0
		err := s.readers.use(ctx, func(c *conn) error {
			return c.each(sqlDefinitions, func(r *row) error {
				n++
				last = r.text(0)
				all = append(all, store.Definition{
					Kind: k, Name: last, Body: append([]byte(nil), r.blob(1)...), By: r.text(2), CreatedAt: at(r.int(3)), UpdatedAt: at(r.int(4)),
				})
				return nil
			}, string(k), last, definitionsChunk)
		})
		if err != nil || n < definitionsChunk {
			return all, err
		}
	}
}
