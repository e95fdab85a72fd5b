package fleet

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

var (
	// ErrNewer: a later version of the program has changed the tables.
	ErrNewer = errors.New("the tables were made by a newer version of cachebro-fleet")
	// ErrUnknown: no machine or project is called so.
	ErrUnknown = errors.New("the database knows no such machine or project")
)

// DB is a fleet's database. Its methods may be called concurrently.
type DB struct {
	pool *pgxpool.Pool
}

// Open connects to the database that a postgres:// address names, and makes its tables.
// What the address does not say comes from libpq's environment and files.
func Open(ctx context.Context, address string) (*DB, error) {
	c, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	// What a crash of the server takes back is fed again.
	c.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
	c.ConnConfig.RuntimeParams["application_name"] = "cachebro-fleet"
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	d := &DB{pool}
	if err := d.migrate(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("prepare the tables: %w", err)
	}
	return d, nil
}

// Close ends the connections.
func (d *DB) Close() { d.pool.Close() }

// migrate brings the tables to what this program knows; one process does it at a time.
func (d *DB) migrate(ctx context.Context) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	one, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(d.pool)
	defer db.Close()
	p, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithSessionLocker(one))
	if err != nil {
		return err
	}
	have, want, err := p.GetVersions(ctx)
	switch {
	case err != nil:
		return err
	case have > want:
		return ErrNewer
	case have == want:
		return nil
	}
	_, err = p.Up(ctx)
	return err
}
