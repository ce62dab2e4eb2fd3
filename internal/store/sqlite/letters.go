package sqlite

import (
	"context"
	"encoding/json/v2"
	"errors"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/store"
)

const (
	// letterStep is how many places one statement looks at, so that a filter
	// that little passes holds no read transaction for long.
	letterStep = 5000
	// letterBytes is how much one page holds, but for its first letter.
	letterBytes = 8 << 20
	// letterMarks is how many letters one operation marks, letterRemoves removes:
	// some milliseconds of the writer.
	letterMarks   = 500
	letterRemoves = 100
)

const (
	sqlAddLetter = `INSERT INTO letter (id, message_id, reason, destination, route, at, state, body)
		SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 WHERE NOT EXISTS (SELECT 1 FROM letter WHERE id = ?1)`
	// letterWhere ends these.
	selectLetters  = "SELECT place, id, message_id, reason, destination, route, at, state, body FROM letter"
	countLetters   = "SELECT count(*) FROM letter"
	sqlMarkLetters = `UPDATE letter SET state = ?2, state_at = ?3
		WHERE state = 'open' AND id IN (SELECT value FROM json_each(?1))`
	sqlSettledLetters = `SELECT place FROM letter WHERE state <> 'open' AND at < ? ORDER BY at LIMIT +?`
	sqlRemoveLetter   = `DELETE FROM letter WHERE place = ?`
	sqlLastLetter     = `SELECT max(place) FROM letter`
)

// AddLetter stores a letter.
func (s *Store) AddLetter(ctx context.Context, l store.Letter) error {
	given, err := s.space.take(len(l.Body))
	if err != nil {
		return err
	}
	defer given()
	state := l.State
	if state == "" {
		state = store.LetterOpen
	}
	body := l.Body
	if body == nil {
		body = []byte{}
	}
	return s.writer.submit(ctx, len(body), func(t *tx) error {
		_, err := t.exec(sqlAddLetter, l.ID, l.MessageID, string(l.Reason), l.Destination, l.Route, l.At.UnixMilli(), string(state), body)
		return err
	})
}

// letterWhere are a filter's conditions and their arguments, over the places
// from ?1 (not included) to ?2.
func letterWhere(f store.LetterFilter) (where string, args []any, err error) {
	var b strings.Builder
	b.WriteString(" WHERE place > ? AND place <= ?")
	add := func(condition string, values ...any) {
		b.WriteString(" AND " + condition)
		args = append(args, values...)
	}
	switch f.State {
	case "":
	case store.LetterOpen: // said in full, for the index
		add("state = 'open'")
	default:
		add("state = +?", string(f.State)) // see selectJob
	}
	if len(f.IDs) > 0 {
		ids, err := json.Marshal(f.IDs)
		if err != nil {
			return "", nil, err
		}
		add(`place IN (SELECT place FROM letter WHERE id IN (SELECT value FROM json_each(?))
			UNION SELECT place FROM letter WHERE message_id IN (SELECT value FROM json_each(?)))`, string(ids), string(ids))
	}
	if f.Reason != "" {
		add("reason = ?", string(f.Reason))
	}
	if f.Destination != "" {
		add("destination = ?", f.Destination)
	}
	if f.UpTo > 0 {
		add("place <= ?", f.UpTo)
	}
	if !f.Since.IsZero() {
		add("at >= ?", f.Since.UnixMilli())
	}
	if !f.Before.IsZero() {
		add("at < ?", f.Before.UnixMilli())
	}
	return b.String(), args, nil
}

// steps hands read the places after a place in steps, each a read transaction of
// its own, until it has enough or the letters end. With ids, which name what to
// look at, one step is all.
func (s *Store) steps(ctx context.Context, f store.LetterFilter, after int64, read func(c *conn, from, to int64) (enough bool, err error)) error {
	last := int64(0)
	for {
		enough := false
		err := s.readers.use(ctx, func(c *conn) (err error) {
			if last == 0 {
				if _, err := c.one(sqlLastLetter, func(r *row) error { last = r.int(0); return nil }); err != nil {
					return err
				}
			}
			to := min(last, after+letterStep)
			if len(f.IDs) > 0 {
				to = last
			}
			if after >= to {
				enough = true
				return nil
			}
			enough, err = read(c, after, to)
			after = to
			return err
		})
		if err != nil || enough {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// errPageFull ends the statement of a page that holds enough bytes.
var errPageFull = errors.New("the page is full")

// Letters returns letters in the order they were stored.
func (s *Store) Letters(ctx context.Context, f store.LetterFilter, after int64) ([]store.Letter, error) {
	where, values, err := letterWhere(f)
	if err != nil {
		return nil, err
	}
	text := selectLetters + where + " ORDER BY place LIMIT +?"
	var all []store.Letter
	bytes := 0
	limit := store.LettersPage
	if f.Limit > 0 {
		limit = min(f.Limit, limit)
	}
	err = s.steps(ctx, f, after, func(c *conn, from, to int64) (bool, error) {
		args := append([]any{from, to}, values...)
		args = append(args, limit-len(all))
		err := c.each(text, func(r *row) error {
			l := store.Letter{
				Place: r.int(0), ID: r.text(1), MessageID: r.text(2), Reason: message.Reason(r.text(3)),
				Destination: r.text(4), Route: r.text(5), At: at(r.int(6)), State: store.LetterState(r.text(7)), Body: r.blob(8),
			}
			if bytes += len(l.Body); len(all) > 0 && bytes > letterBytes {
				return errPageFull
			}
			all = append(all, l)
			return nil
		}, args...)
		if errors.Is(err, errPageFull) {
			return true, nil
		}
		return len(all) >= limit, err
	})
	return all, err
}

// LastLetter returns the place of the letter that was stored last.
func (s *Store) LastLetter(ctx context.Context) (last int64, err error) {
	err = s.readers.use(ctx, func(c *conn) error {
		_, err := c.one(sqlLastLetter, func(r *row) error { last = r.int(0); return nil })
		return err
	})
	return last, err
}

// CountLetters returns how many letters the filter lets through.
func (s *Store) CountLetters(ctx context.Context, f store.LetterFilter) (int, error) {
	where, values, err := letterWhere(f)
	if err != nil {
		return 0, err
	}
	count := 0
	err = s.steps(ctx, f, 0, func(c *conn, from, to int64) (bool, error) {
		_, err := c.one(countLetters+where, func(r *row) error { count += int(r.int(0)); return nil },
			append([]any{from, to}, values...)...)
		return false, err
	})
	return count, err
}

// MarkLetters moves open letters to a state.
func (s *Store) MarkLetters(ctx context.Context, ids []string, to store.LetterState, at time.Time) error {
	for len(ids) > 0 {
		n := min(len(ids), letterMarks)
		list, err := json.Marshal(ids[:n])
		if err != nil {
			return err
		}
		if err := s.writer.submit(ctx, 0, func(t *tx) error {
			_, err := t.exec(sqlMarkLetters, string(list), string(to), at.UnixMilli())
			return err
		}); err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}

// RemoveLetters deletes letters that are not open and died before the time.
func (s *Store) RemoveLetters(ctx context.Context, before time.Time) (more store.More, err error) {
	err = s.writer.submit(ctx, 0, func(t *tx) error {
		more = false
		var places []int64
		if err := t.each(sqlSettledLetters, func(r *row) error {
			places = append(places, r.int(0))
			return nil
		}, before.UnixMilli(), letterRemoves); err != nil {
			return err
		}
		began := time.Now()
		for i, place := range places {
			if _, err := t.exec(sqlRemoveLetter, place); err != nil {
				return err
			}
			if time.Since(began) > maxGroupWork { // long bodies take longer
				more = i+1 < len(places)
				break
			}
		}
		more = more || len(places) == letterRemoves
		return nil
	})
	return more, err
}
