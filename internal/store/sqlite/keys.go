package sqlite

import (
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/pawlhq/pawl/internal/store"
)

// keyCache holds the API keys that were asked for, by hash. This process is the
// file's one owner, so what a commit leaves here stays right. A key that was
// revoked is stored over what is there; a key that was added, or read, is not:
// it may have been revoked meanwhile.
type keyCache struct{ byHash sync.Map }

func (c *keyCache) get(hash [32]byte) (store.Key, bool) {
	k, ok := c.byHash.Load(hash)
	if !ok {
		return store.Key{}, false
	}
	return k.(store.Key), true
}

func (c *keyCache) read(k store.Key)    { c.byHash.LoadOrStore(k.Hash, k) }
func (c *keyCache) revoked(k store.Key) { c.byHash.Store(k.Hash, k) }

const (
	selectKeys = `SELECT id, name, hash, scopes, queues, created_at, expires_at, revoked_at FROM api_key`
	sqlKeys    = selectKeys + ` ORDER BY n`
	sqlKeyHash = selectKeys + ` WHERE hash = ?`
	sqlKeyName = selectKeys + ` WHERE name = ?`
	sqlKeyID   = selectKeys + ` WHERE id = ?`
	// A name or hash that is there makes no row.
	sqlAddKey = `INSERT INTO api_key (id, name, hash, scopes, queues, created_at, expires_at, revoked_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`
	sqlRevokeKey = `UPDATE api_key SET revoked_at = ?2 WHERE id = ?1`
)

// AddKey stores a key.
func (s *Store) AddKey(ctx context.Context, k store.Key) error {
	scopes, err := json.Marshal(k.Scopes)
	if err != nil {
		return fmt.Errorf("key %s: %w", k.Name, err)
	}
	queues, err := json.Marshal(k.Queues)
	if err != nil {
		return fmt.Errorf("key %s: %w", k.Name, err)
	}
	return s.writer.submit(ctx, 0, func(t *tx) error {
		n, err := t.exec(sqlAddKey, k.ID, k.Name, k.Hash[:], string(scopes), string(queues),
			millis(k.CreatedAt), millis(k.ExpiresAt), millis(k.Revoked))
		if err == nil && n == 0 {
			return fmt.Errorf("a key named %s: %w", k.Name, store.ErrExists)
		}
		return err
	})
}

// RevokeKey makes a key good for nothing. One that was revoked keeps its time.
func (s *Store) RevokeKey(ctx context.Context, name string) error {
	find := sqlKeyName
	if strings.HasPrefix(name, store.KeyIDPrefix) {
		find = sqlKeyID
	}
	var k store.Key
	err := s.writer.submit(ctx, 0, func(t *tx) error {
		there, err := t.one(find, func(r *row) (err error) { k, err = scanKey(r); return err }, name)
		if err != nil {
			return err
		}
		if !there {
			return store.ErrNotFound
		}
		if !k.Revoked.IsZero() {
			return nil
		}
		k.Revoked = at(t.now)
		_, err = t.exec(sqlRevokeKey, k.ID, t.now)
		return err
	})
	// Where nobody knows whether it is written the key is good for nothing either:
	// that is what was asked for.
	if err == nil || errors.Is(err, store.ErrUnknown) && !k.Revoked.IsZero() {
		s.keys.revoked(k)
	}
	return err
}

// KeyByHash returns the key with the hash, from memory where it was asked for
// before.
func (s *Store) KeyByHash(ctx context.Context, hash [32]byte) (store.Key, error) {
	k, ok := s.keys.get(hash)
	if ok {
		return k, nil
	}
	var there bool
	err := s.readers.use(ctx, func(c *conn) (err error) {
		there, err = c.one(sqlKeyHash, func(r *row) (err error) { k, err = scanKey(r); return err }, hash[:])
		return err
	})
	if err != nil {
		return store.Key{}, err
	}
	if !there {
		return store.Key{}, store.ErrNotFound
	}
	s.keys.read(k)
	if kept, ok := s.keys.get(hash); ok {
		return kept, nil
	}
	return k, nil
}

// Keys lists every key, oldest first.
func (s *Store) Keys(ctx context.Context) ([]store.Key, error) {
	var all []store.Key
	err := s.readers.use(ctx, func(c *conn) error {
		return c.each(sqlKeys, func(r *row) error {
			k, err := scanKey(r)
			all = append(all, k)
			return err
		})
	})
	return all, err
}

func scanKey(r *row) (store.Key, error) {
	k := store.Key{ID: r.text(0), Name: r.text(1), CreatedAt: at(r.int(5)), ExpiresAt: at(r.int(6)), Revoked: at(r.int(7))}
	copy(k.Hash[:], r.blob(2))
	if err := json.Unmarshal([]byte(r.text(3)), &k.Scopes); err != nil {
		return k, fmt.Errorf("%w: the scopes of key %s: %w", ErrDamaged, k.Name, err)
	}
	if err := json.Unmarshal([]byte(r.text(4)), &k.Queues); err != nil {
		return k, fmt.Errorf("%w: the queues of key %s: %w", ErrDamaged, k.Name, err)
	}
	return k, nil
}
