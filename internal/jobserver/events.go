package jobserver

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/store"
)

const (
	// wantedFor is for how long events that are not Seldom are written after
	// somebody read some.
	wantedFor = 7 * 24 * time.Hour
	// lastReader is the reader whose cursor is when somebody read events last, in
	// Unix seconds.
	lastReader = "api:read-at"
	// noteReading is how often that is written down.
	noteReading = time.Hour
)

// Events returns events behind an id that the key sees, oldest first. While
// somebody reads them, and for a week after, all types are written.
//
// A key that is limited to queues sees the events of those alone.
func (s *Server) Events(ctx context.Context, by Principal, f store.EventFilter, after int64, limit int) (store.EventsRead, error) {
	if err := s.noteReader(ctx); err != nil {
		return store.EventsRead{}, err
	}
	if len(by.Queues) > 0 {
		if len(f.Queues) == 0 {
			f.Queues = by.Queues
		} else if f.Queues = slices.DeleteFunc(slices.Clone(f.Queues), func(q string) bool { return !by.Sees(q) }); len(f.Queues) == 0 {
			last, err := s.store.LastEvent(ctx)
			return store.EventsRead{Next: max(last, after)}, err
		}
	}
	return s.store.Events(ctx, f, after, limit)
}

// AwaitEvents returns nil once an event behind the id is there, or ctx.Err().
func (s *Server) AwaitEvents(ctx context.Context, after int64) error {
	return s.store.AwaitEvents(ctx, after)
}

// noteReader notes that somebody reads events.
func (s *Server) noteReader(ctx context.Context) error {
	now := s.store.Now()
	if at := s.readAt.Load(); at != 0 && now.Sub(time.Unix(at, 0)) < noteReading {
		return nil
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	if err := s.loadReadAt(ctx); err != nil {
		return err
	}
	had := s.readAt.Load()
	if now.Sub(time.Unix(had, 0)) < noteReading {
		return nil
	}
	if err := s.store.HandOver(ctx, lastReader, had, now.Unix(), nil); err != nil && !errors.Is(err, store.ErrStatus) {
		return err // of ErrStatus another node was quicker
	}
	s.readAt.Store(now.Unix())
	return s.wantEvents(ctx, s.settings.Load())
}

func (s *Server) loadReadAt(ctx context.Context) error {
	at, err := s.store.Cursor(ctx, lastReader)
	if err == nil {
		s.readAt.Store(at)
	}
	return err
}

// wantEvents tells the store which events to write. s.changing is held.
func (s *Server) wantEvents(ctx context.Context, now *settings) error {
	if s.readAt.Load() == 0 {
		if err := s.loadReadAt(ctx); err != nil {
			return err
		}
	}
	var wanted []store.EventType
	if at := s.readAt.Load(); at != 0 && s.store.Now().Sub(time.Unix(at, 0)) < wantedFor {
		wanted = store.EventTypes()
	} else {
		for _, kind := range store.EventTypes() {
			for _, sub := range now.subs {
				if sub.Disabled == "" && slices.Contains(sub.Events, kind) {
					wanted = append(wanted, kind)
					break
				}
			}
		}
	}
	return s.store.WantEvents(ctx, wanted)
}
