package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// SchemaError says that a newer pawl wrote the file.
type SchemaError struct {
	Path  string
	Has   int64 // the schema of the file
	Knows int64 // the newest that this binary knows
}

// Error says which schemas meet and what to do.
func (e *SchemaError) Error() string {
	return fmt.Sprintf("store %s was written by a newer pawl (schema %d; this one knows 1 to %d): run that version or a later one, "+
		"or open a backup made before the upgrade", e.Path, e.Has, e.Knows)
}

// migrate brings the file to this binary's schema, each step whole or not at
// all. It returns the schemas before and after; before is 0 for a new file.
func migrate(ctx context.Context, path, dsn string) (before, after int64, err error) {
	db := sql.OpenDB(connector(dsn))
	db.SetMaxOpenConns(1)
	defer func() {
		if closed := db.Close(); err == nil {
			err = closed
		}
	}()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return 0, 0, err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return 0, 0, err
	}
	before, after, err = p.GetVersions(ctx)
	if err != nil {
		return 0, 0, err
	}
	if before > after {
		return before, after, &SchemaError{Path: path, Has: before, Knows: after}
	}
	if _, err := p.Up(ctx); err != nil {
		return before, after, fmt.Errorf("from schema %d to %d: %w", before, after, err)
	}
	return before, after, nil
}

// connector opens connections of one DSN for database/sql, without a driver
// registered by name.
type connector string

func (c connector) Connect(context.Context) (driver.Conn, error) { return driverOf.Open(string(c)) }
func (c connector) Driver() driver.Driver                        { return driverOf }
