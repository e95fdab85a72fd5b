package fleet

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

var (
	// ErrNewer means that a later version of the program changed the tables.
	ErrNewer = errors.New("the tables were made by a newer version of cachebro-fleet")
	// ErrUnknown means that there is no such machine or project.
	ErrUnknown = errors.New("the database knows no such machine or project")
)

// DB is a fleet's database. Its methods may be called concurrently.
type DB struct {
	pool *pgxpool.Pool
	days sync.Map // time.Time, midnight: days that have a table
}

// Open connects to the database at a postgres:// address and creates its tables. Settings that are
// not in the address come from libpq's environment and files. conns is the number of concurrent
// statements, unless the address has pool_max_conns.
//
// No state on the server outlives a transaction. The address may therefore be that of a pgbouncer
// that uses another connection for each transaction.
func Open(ctx context.Context, address string, conns int) (*DB, error) {
	c, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(address, "pool_max_conns=") {
		c.MaxConns = max(c.MaxConns, int32(min(conns, maxConns)))
	}
	c.ConnConfig.RuntimeParams["application_name"] = "cachebro-fleet"
	c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	d := &DB{pool: pool}
	if err := d.migrate(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("prepare the tables: %w", err)
	}
	return d, nil
}

// maxConns is the largest number of connections opened by default. A server allows 100 by default.
const maxConns = 50

// Close closes the connections.
func (d *DB) Close() { d.pool.Close() }

// Ping checks that the server answers.
func (d *DB) Ping(ctx context.Context) error { return d.pool.Ping(ctx) }

// migrate updates the tables. Only one process does so at a time.
func (d *DB) migrate(ctx context.Context) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(d.pool)
	defer db.Close()
	p, err := goose.NewProvider(goose.DialectPostgres, db, files)
	if err != nil {
		return err
	}
	due, err := pending(ctx, p)
	if err != nil || !due {
		return err
	}
	return pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock($1::int, $2::int)`, lockClass, lockMigrate); err != nil {
			return err
		}
		if due, err := pending(ctx, p); err != nil || !due { // another process has done it
			return err
		}
		_, err := p.Up(ctx)
		return err
	})
}

// pending reports whether the tables are older than this program.
func pending(ctx context.Context, p *goose.Provider) (bool, error) {
	have, want, err := p.GetVersions(ctx)
	if err == nil && have > want {
		err = ErrNewer
	}
	return have < want, err
}

// Advisory locks: their common class, and a number for each purpose. versions_day also uses the
// class.
const (
	lockClass   = 0x63616368 // "cach"
	lockMigrate = 1
)
