package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
)

// conn is a driver's connection with its statements, each prepared once and kept.
// database/sql is left out: it costs 2 to 3 µs a statement, as much as the
// statement itself. It is used by one goroutine at a time.
type conn struct {
	raw   driver.Conn
	stmts map[string]*stmt
}

type stmt struct {
	raw  preparedStmt
	args []driver.NamedValue
	row  row
}

// preparedStmt is what the driver's statements can do.
type preparedStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

func newConn(raw driver.Conn) *conn {
	return &conn{raw: raw, stmts: make(map[string]*stmt)}
}

// close gives the statements and the connection back.
func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.raw.Close())
	}
	clear(c.stmts)
	return errors.Join(append(errs, c.raw.Close())...)
}

func (c *conn) prepare(text string) (*stmt, error) {
	if s := c.stmts[text]; s != nil {
		return s, nil
	}
	raw, err := c.raw.Prepare(text)
	if err != nil {
		return nil, inStatement(text, err)
	}
	p, ok := raw.(preparedStmt)
	if !ok {
		return nil, inStatement(text, fmt.Errorf("a statement of %T has no context", raw))
	}
	s := &stmt{raw: p}
	c.stmts[text] = s
	return s, nil
}

// exec runs a statement and returns how many rows it changed. Arguments are
// int64, int, string, []byte (nil is NULL), float64 or nil.
func (c *conn) exec(text string, args ...any) (int64, error) {
	s, err := c.prepare(text)
	if err != nil {
		return 0, err
	}
	r, err := s.raw.ExecContext(context.Background(), s.bind(args))
	if err != nil {
		return 0, inStatement(text, err)
	}
	return r.RowsAffected()
}

// each runs a statement and hands each of its rows to take, whose row is good
// until it returns. An error of take ends the statement and is returned as it is,
// but for errEnough.
func (c *conn) each(text string, take func(r *row) error, args ...any) error {
	s, err := c.prepare(text)
	if err != nil {
		return err
	}
	rows, err := s.raw.QueryContext(context.Background(), s.bind(args))
	if err != nil {
		return inStatement(text, err)
	}
	if n := len(rows.Columns()); len(s.row.values) != n {
		s.row.values = make([]driver.Value, n)
	}
	for {
		err = rows.Next(s.row.values)
		if err == nil {
			err = take(&s.row)
			if err == nil {
				continue
			}
			_ = rows.Close() // what take said comes first
			if errors.Is(err, errEnough) {
				return nil
			}
			return err
		}
		closed := rows.Close()
		if !errors.Is(err, io.EOF) {
			return inStatement(text, err)
		}
		if closed != nil {
			return inStatement(text, closed)
		}
		return nil
	}
}

// errEnough ends the reading of rows.
var errEnough = errors.New("enough")

// one is each for a statement of at most one row, and says whether there is one.
func (c *conn) one(text string, take func(r *row) error, args ...any) (there bool, err error) {
	err = c.each(text, func(r *row) error { there = true; return take(r) }, args...)
	return there, err
}

func (s *stmt) bind(args []any) []driver.NamedValue {
	if cap(s.args) < len(args) {
		s.args = make([]driver.NamedValue, len(args))
	}
	s.args = s.args[:len(args)]
	for i, a := range args {
		if n, ok := a.(int); ok {
			a = int64(n)
		}
		s.args[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	return s.args
}

// inStatement names the statement that an error comes from.
func inStatement(text string, err error) error {
	words := strings.Fields(text)
	if len(words) > 6 {
		words = append(words[:6:6], "…")
	}
	return fmt.Errorf("%s: %w", strings.Join(words, " "), err)
}

// row is a statement's current row. Its getters take columns from 0 and give the
// zero value for NULL.
type row struct{ values []driver.Value }

func (r *row) int(i int) int64 {
	n, _ := r.values[i].(int64)
	return n
}

func (r *row) text(i int) string {
	s, _ := r.values[i].(string)
	return s
}

// blob returns the column's bytes; the caller may keep them.
func (r *row) blob(i int) []byte {
	b, _ := r.values[i].([]byte)
	return b
}

// set reports whether the column is not NULL.
func (r *row) set(i int) bool { return r.values[i] != nil }
