package sqlite

import (
	"encoding/json/v2"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawlhq/pawl/internal/store"
)

// The events of a transaction share a row: with one each, they cost as much as the
// changes that they tell of. A row's body is a protocol buffer,
//
//	message Block { int64 first = 1; repeated Event event = 2; }
//	message Event {
//	  string type = 1; sint64 at = 2; sint64 seq = 3; sint64 made = 4;
//	  string queue = 5; string task = 6; string version = 7; string endpoint = 8;
//	  string subject = 9; bytes data = 10;
//	}
//
// in which an event has only what differs from the one before it, and times and
// numbers as the difference. Its id is first plus its place.
const (
	blockFirst protowire.Number = 1
	blockEvent protowire.Number = 2

	eventType     protowire.Number = 1
	eventAt       protowire.Number = 2
	eventSeq      protowire.Number = 3
	eventMade     protowire.Number = 4
	eventQueue    protowire.Number = 5
	eventTask     protowire.Number = 6
	eventVersion  protowire.Number = 7
	eventEndpoint protowire.Number = 8
	eventSubject  protowire.Number = 9
	eventDataJSON protowire.Number = 10
)

// The bounds of a block, so that one event costs no reader much.
const (
	blockEvents = 1000
	blockBytes  = 256 << 10 // the event that passes it is in it
)

// eventBlock builds the bodies of rows, one after the other. The writer's alone.
type eventBlock struct {
	body, one []byte
	n         int
	before    newEvent // the last one that was added
}

// begin starts a block whose first event has the id.
func (b *eventBlock) begin(first int64) {
	b.body = protowire.AppendVarint(protowire.AppendTag(b.body[:0], blockFirst, protowire.VarintType), uint64(first))
	b.n, b.before = 0, newEvent{}
}

func (b *eventBlock) full() bool { return b.n >= blockEvents || len(b.body) >= blockBytes }

// add puts an event at the end of the block.
func (b *eventBlock) add(e *newEvent) error {
	was := &b.before
	p := b.one[:0]
	p = appendChange(p, eventType, string(was.kind), string(e.kind))
	p = appendStep(p, eventAt, was.at, e.at)
	p = appendStep(p, eventSeq, was.seq, e.seq)
	p = appendStep(p, eventMade, was.made, e.made)
	p = appendChange(p, eventQueue, was.lane.Queue, e.lane.Queue)
	p = appendChange(p, eventTask, was.lane.Task, e.lane.Task)
	p = appendChange(p, eventVersion, was.lane.Version, e.lane.Version)
	p = appendChange(p, eventEndpoint, was.endpoint, e.endpoint)
	p = appendChange(p, eventSubject, was.subject, e.subject)
	if b.n == 0 || e.data != was.data {
		data, err := json.Marshal(e.data)
		if err != nil {
			return err
		}
		p = protowire.AppendBytes(protowire.AppendTag(p, eventDataJSON, protowire.BytesType), data)
	}
	b.one = p
	b.body = protowire.AppendBytes(protowire.AppendTag(b.body, blockEvent, protowire.BytesType), p)
	b.before = *e
	b.n++
	return nil
}

func appendChange(p []byte, field protowire.Number, was, is string) []byte {
	if was == is {
		return p
	}
	return protowire.AppendString(protowire.AppendTag(p, field, protowire.BytesType), is)
}

func appendStep(p []byte, field protowire.Number, was, is int64) []byte {
	if was == is {
		return p
	}
	return protowire.AppendVarint(protowire.AppendTag(p, field, protowire.VarintType), protowire.EncodeZigZag(is-was))
}

// readEvent is an event of a block. made is when its job was, of which its id is
// computed.
type readEvent struct {
	store.Event
	at, seq, made int64
}

// readBlock hands the events of a block to take, in order, until it says that it
// has enough. The event is take's to copy.
func readBlock(body []byte, take func(*readEvent) (enough bool)) error {
	var e readEvent
	for len(body) > 0 {
		field, kind, n := protowire.ConsumeTag(body)
		if n < 0 {
			return damaged(protowire.ParseError(n))
		}
		body = body[n:]
		switch {
		case field == blockFirst && kind == protowire.VarintType:
			first, n := protowire.ConsumeVarint(body)
			if n < 0 {
				return damaged(protowire.ParseError(n))
			}
			e.ID, body = int64(first)-1, body[n:]
		case field == blockEvent && kind == protowire.BytesType:
			one, n := protowire.ConsumeBytes(body)
			if n < 0 {
				return damaged(protowire.ParseError(n))
			}
			e.ID++
			if err := e.read(one); err != nil {
				return err
			}
			if take(&e) {
				return nil
			}
			body = body[n:]
		default:
			return damaged(fmt.Errorf("field %d of type %d", field, kind))
		}
	}
	return nil
}

// read changes the event before into the next one.
func (e *readEvent) read(p []byte) error {
	for len(p) > 0 {
		field, kind, n := protowire.ConsumeTag(p)
		if n < 0 {
			return damaged(protowire.ParseError(n))
		}
		p = p[n:]
		switch kind {
		case protowire.VarintType:
			v, n := protowire.ConsumeVarint(p)
			number := e.number(field)
			if n < 0 || number == nil {
				return damaged(fmt.Errorf("number %d of event %d", field, e.ID))
			}
			*number += protowire.DecodeZigZag(v)
			p = p[n:]
		case protowire.BytesType:
			v, n := protowire.ConsumeBytes(p)
			if n < 0 || !e.setText(field, v) {
				return damaged(fmt.Errorf("text %d of event %d", field, e.ID))
			}
			p = p[n:]
		default:
			return damaged(fmt.Errorf("field %d of event %d", field, e.ID))
		}
	}
	return nil
}

func (e *readEvent) number(field protowire.Number) *int64 {
	switch field {
	case eventAt:
		return &e.at
	case eventSeq:
		return &e.seq
	case eventMade:
		return &e.made
	default:
		return nil
	}
}

func (e *readEvent) setText(field protowire.Number, v []byte) bool {
	switch field {
	case eventType:
		e.Type = store.EventType(v)
	case eventQueue:
		e.Queue = string(v)
	case eventTask:
		e.Task = string(v)
	case eventVersion:
		e.Version = string(v)
	case eventEndpoint:
		e.Endpoint = string(v)
	case eventSubject:
		e.Subject = string(v)
	case eventDataJSON:
		e.Data = v // a part of the body
	default:
		return false
	}
	return true
}

func damaged(what error) error { return fmt.Errorf("a row of events is damaged: %w", what) }
