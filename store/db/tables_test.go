package db

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"cachebro/store/space"

	badger "github.com/dgraph-io/badger/v4"
)

// Tables are small, and larger only in a large store. The path of the store may look like a glob
// pattern.
func TestTableSize(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[1]", "db")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	is := func(want int64) {
		t.Helper()
		if got := tableSize(dir); got != want {
			t.Errorf("%d bytes, want %d", got, want)
		}
	}
	holds := func(name string, size int64) {
		t.Helper()
		f, err := os.Create(filepath.Join(dir, name))
		if err == nil {
			err = f.Truncate(size)
			f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	is(mib / 2)
	holds("000001.sst", 100*mib)
	holds("000002.vlog", 5000*mib)
	is(mib / 2)
	holds("000003.sst", 1900*mib)
	is(2 * mib)
	holds("000004.sst", 98000*mib)
	is(8 * mib)
}

// The cache of decoded blocks is large while somebody reads many contents, and then has its usual
// size again.
func TestReadMany(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(dir, space.New(dir, space.Options{}), Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	size := func() int64 {
		n, _ := d.bdb.CacheMaxCost(badger.BlockCache, -1)
		return n
	}
	first := d.ReadMany()
	second := d.ReadMany()
	large := size()
	first()
	first()
	if now := size(); large <= blockCache || now != large {
		t.Errorf("%d bytes for two, then %d for one, usually %d", large, now, blockCache)
	}
	second()
	if now := size(); now != blockCache {
		t.Errorf("%d bytes at the end, usually %d", now, blockCache)
	}
	d.RefuseCalls()
	d.ReadMany()() // for a request that came after the close
	if err := d.Close(func() error { return nil }); err != nil {
		t.Error(err)
	}
}
