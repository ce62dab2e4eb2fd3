package sqlite

import (
	"context"
	"errors"

	"github.com/pawlhq/pawl/internal/store"
)

// readerCount is how many read at one moment. A read takes some microseconds to
// milliseconds of processor, so more than there are cores wait for cores.
const readerCount = 4

// readers are connections that can't write. They are safe for concurrent use.
type readers struct {
	path, vfs string
	place     *site
	idle      chan *conn // a nil one is opened by who takes it
}

func openReaders(path, vfs string, p *site) (*readers, error) {
	r := &readers{path: path, vfs: vfs, place: p, idle: make(chan *conn, readerCount)}
	first, err := openConn(path, vfs, reading)
	if err != nil {
		return nil, err
	}
	r.idle <- first
	for range readerCount - 1 {
		r.idle <- nil
	}
	return r, nil
}

// close waits for who reads and closes every connection.
func (r *readers) close() error {
	var errs []error
	for range readerCount {
		if c := <-r.idle; c != nil {
			errs = append(errs, c.close())
		}
	}
	close(r.idle)
	return errors.Join(errs...)
}

// use hands a connection to read. ctx bounds the wait for one.
func (r *readers) use(ctx context.Context, read func(*conn) error) (err error) {
	var c *conn
	var open bool
	select {
	case c, open = <-r.idle:
	case <-ctx.Done():
		return ctx.Err()
	}
	if !open {
		return store.ErrClosed
	}
	defer func() { r.idle <- c }()
	if c == nil {
		if err := r.place.look(); err != nil { // it would read another file
			return err
		}
		if c, err = openConn(r.path, r.vfs, reading); err != nil {
			c = nil
			return explain(err)
		}
	}
	if err := read(c); err != nil {
		if resultCode(err) != 0 { // it may be the connection: the next reader opens another
			err = errors.Join(explain(err), c.close())
			c = nil
		}
		return err
	}
	return nil
}

// view is use in one read transaction: what read sees belongs together. It must
// be short: the WAL can't begin anew while it lasts.
func (r *readers) view(ctx context.Context, read func(*conn) error) error {
	return r.use(ctx, func(c *conn) error {
		if _, err := c.exec("BEGIN"); err != nil {
			return err
		}
		err := read(c)
		_, ended := c.exec("ROLLBACK")
		return errors.Join(err, ended)
	})
}
