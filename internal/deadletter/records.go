package deadletter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/store"
)

// Database is what Records keeps letters in: the job store.
type Database interface {
	store.DeadLetters
	// Ready returns nil when the next write can be expected to work.
	Ready(ctx context.Context) error
}

// RecordOptions are those of Records. The zero value works.
type RecordOptions struct {
	// Log takes what can't be read; nil drops it.
	Log *slog.Logger
}

// Records is a Store that keeps letters in the job store, beside the jobs. Safe
// for concurrent use.
type Records struct {
	db  Database
	log *slog.Logger

	mu      sync.Mutex          // guards the rest; never held while the database is asked
	claimed map[string]struct{} // letters that a replay or a purge has in hand
	damaged map[string]struct{} // letters that could not be read
	stats   Stats
	counted time.Time // when stats was
}

const (
	// statsFor is how long counts hold: people and scrapes ask more seldom.
	statsFor = time.Second
	// statsTimeout bounds the asking: a scrape that waits is worse than counts
	// that are a little old.
	statsTimeout = 2 * time.Second
	// maxDamaged bounds the ids that are remembered as damaged.
	maxDamaged = 1000
)

// NewRecords returns a store of letters in the database, which stays the
// caller's.
func NewRecords(db Database, o RecordOptions) *Records {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Records{db: db, log: o.Log, claimed: map[string]struct{}{}, damaged: map[string]struct{}{}}
}

// Name returns "store".
func (r *Records) Name() string { return "store" }

// Write is Append, given up after 30 s.
func (r *Records) Write(ctx context.Context, l *message.DeadLetter) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return r.Append(ctx, l)
}

// Append implements Store.
func (r *Records) Append(ctx context.Context, l *message.DeadLetter) error {
	line, err := message.EncodeLetter(l)
	if err == nil {
		_, err = readFacts(line) // else it could be written, and never found again
	}
	if err == nil {
		err = r.db.AddLetter(ctx, store.Letter{
			ID: l.Letter, MessageID: l.Message.ID, Reason: l.Reason, Destination: l.Destination, Route: l.Route,
			At: l.At, State: store.LetterOpen, Body: line,
		})
	}
	if err != nil {
		return fmt.Errorf("dead letter %q: %w", l.Letter, err)
	}
	return nil
}

// filterOf is a filter as the database takes it.
func filterOf(f Filter) store.LetterFilter {
	sf := store.LetterFilter{Since: f.Since, Reason: f.Reason, Destination: f.Destination, IDs: f.IDs}
	if f.State == OnlyOpen {
		sf.State = store.LetterOpen
	}
	return sf
}

// List implements Reader. It holds one page of letters at a time.
func (r *Records) List(ctx context.Context, f Filter, fn func(Entry) error) error {
	if err := f.Check(); err != nil {
		return err
	}
	last, err := r.db.LastLetter(ctx)
	if err != nil || last == 0 {
		return err
	}
	sf := filterOf(f)
	sf.UpTo = last
	var damaged error
	err = r.each(ctx, sf, func(l *store.Letter) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		e, err := r.entry(l)
		if err != nil {
			damaged = err
			return nil
		}
		return fn(e)
	})
	if err != nil {
		return err
	}
	return damaged
}

// each calls fn with every letter that the filter lets through, page by page.
func (r *Records) each(ctx context.Context, f store.LetterFilter, fn func(*store.Letter) error) error {
	for after := int64(0); ; {
		page, err := r.db.Letters(ctx, f, after)
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			if err := fn(&page[i]); err != nil {
				return err
			}
		}
		after = page[len(page)-1].Place
	}
}

// entry reads a letter.
func (r *Records) entry(l *store.Letter) (Entry, error) {
	letter, err := message.DecodeLetter(l.Body)
	if err != nil {
		r.notice(l.ID, err)
		return Entry{}, fmt.Errorf("%w: letter %q: %w", ErrDamaged, l.ID, err)
	}
	return Entry{DeadLetter: letter, State: stateOf(l.State)}, nil
}

// notice counts and logs a letter that can't be read, once.
func (r *Records) notice(letter string, err error) {
	r.mu.Lock()
	_, told := r.damaged[letter]
	if !told && len(r.damaged) < maxDamaged {
		r.damaged[letter] = struct{}{}
	}
	r.mu.Unlock()
	if !told {
		r.log.Warn("dead letters: a letter can't be read and is passed over", "letter", letter, "error", err)
	}
}

func stateOf(s store.LetterState) State {
	switch s {
	case store.LetterReplayed:
		return StateReplayed
	case store.LetterPurged:
		return StatePurged
	case store.LetterOpen:
		return StateOpen
	}
	return StateOpen
}

// Count implements Reader.
func (r *Records) Count(ctx context.Context, f Filter) (int, error) {
	if err := f.Check(); err != nil {
		return 0, err
	}
	return r.db.CountLetters(ctx, filterOf(f))
}

// Get implements Reader.
func (r *Records) Get(ctx context.Context, id string) ([]Entry, error) { return get(ctx, r, id) }

// Replay implements Store.
func (r *Records) Replay(ctx context.Context, o ReplayOptions) (Summary, error) {
	return replayAll(ctx, r, o)
}

// MarkReplayed implements Store.
func (r *Records) MarkReplayed(ctx context.Context, letter string, how Verdict) error {
	state, err := r.state(ctx, letter)
	switch {
	case err != nil:
		return err
	case how == Abandoned:
		return errors.New("marking dead letters: an abandoned replay leaves no mark")
	case state != store.LetterOpen:
		return nil
	}
	return r.mark(ctx, []string{letter}, store.LetterReplayed)
}

func (r *Records) mark(ctx context.Context, letters []string, to store.LetterState) error {
	if err := r.db.MarkLetters(ctx, letters, to, time.Now()); err != nil {
		return fmt.Errorf("marking dead letters: %w", err)
	}
	return nil
}

// errFound ends a search.
var errFound = errors.New("found")

// state returns a letter's state. ErrNotFound.
func (r *Records) state(ctx context.Context, letter string) (state store.LetterState, err error) {
	err = r.each(ctx, store.LetterFilter{IDs: []string{letter}}, func(l *store.Letter) error {
		if l.ID != letter { // of a message with this id
			return nil
		}
		state = l.State
		return errFound
	})
	switch {
	case errors.Is(err, errFound):
		return state, nil
	case err != nil:
		return "", err
	}
	return "", fmt.Errorf("%w: %q", ErrNotFound, letter)
}

// take takes a letter in hand, whatever its state.
func (r *Records) take(letter string) claim {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, busy := r.claimed[letter]; busy {
		return taken
	}
	r.claimed[letter] = struct{}{}
	return mine
}

// claim takes an open letter in hand.
func (r *Records) claim(ctx context.Context, letter string) (claim, error) {
	if r.take(letter) == taken {
		return taken, nil
	}
	state, err := r.state(ctx, letter)
	if err == nil && state == store.LetterOpen {
		return mine, nil
	}
	r.unclaim(letter)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return taken, err
	}
	return taken, nil
}

func (r *Records) unclaim(letter string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.claimed, letter)
}

// Purge implements Store. Letters that were replayed and are that old go too.
func (r *Records) Purge(ctx context.Context, before time.Time) (int, error) {
	purged := 0
	f := store.LetterFilter{Before: before, State: store.LetterOpen}
	for after := int64(0); ; {
		page, err := r.db.Letters(ctx, f, after)
		if err != nil {
			return purged, err
		}
		if len(page) == 0 {
			break
		}
		n, err := r.giveUp(ctx, page)
		purged += n
		if err != nil {
			return purged, err
		}
		after = page[len(page)-1].Place
	}
	for {
		more, err := r.db.RemoveLetters(ctx, before)
		if err != nil {
			return purged, fmt.Errorf("purging dead letters: %w", err)
		}
		if !more {
			return purged, nil
		}
	}
}

// giveUp marks the letters of a page that nobody has in hand. It has them in
// hand itself meanwhile, so that no replay begins one.
func (r *Records) giveUp(ctx context.Context, page []store.Letter) (int, error) {
	var ids []string
	for i := range page {
		if r.take(page[i].ID) == mine {
			ids = append(ids, page[i].ID)
		}
	}
	defer func() {
		for _, id := range ids {
			r.unclaim(id)
		}
	}()
	if len(ids) == 0 {
		return 0, nil
	}
	if err := r.mark(ctx, ids, store.LetterPurged); err != nil {
		return 0, err
	}
	return len(ids), nil
}

// Stats implements Store. The counts are a second old at most while the database
// answers; else they are the last ones.
func (r *Records) Stats() Stats {
	r.mu.Lock()
	s, old := r.stats, time.Since(r.counted) >= statsFor || r.counted.IsZero()
	s.Damaged = len(r.damaged)
	r.mu.Unlock()
	if !old {
		return s
	}
	ctx, cancel := context.WithTimeout(context.Background(), statsTimeout)
	defer cancel()
	open := store.LetterFilter{State: store.LetterOpen, Limit: 1}
	n, err := r.db.CountLetters(ctx, open)
	if err != nil {
		return s
	}
	first, err := r.db.Letters(ctx, open, 0)
	if err != nil {
		return s
	}
	s.Open, s.Oldest = n, time.Time{}
	if len(first) > 0 {
		s.Oldest = first[0].At.UTC()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats, r.counted = s, time.Now()
	return s
}

// Writable implements Store.
func (r *Records) Writable() error {
	ctx, cancel := context.WithTimeout(context.Background(), statsTimeout)
	defer cancel()
	if err := r.db.Ready(ctx); err != nil {
		return fmt.Errorf("dead letters can't be written: %w", err)
	}
	return nil
}

// Close implements Store: there is nothing to give back.
func (r *Records) Close() error { return nil }

var (
	_ shelf = (*Files)(nil)
	_ shelf = (*Records)(nil)
)
