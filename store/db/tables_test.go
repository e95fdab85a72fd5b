package db

import (
	"os"
	"path/filepath"
	"testing"
)

// Tables are small, and larger in a large store, whose name may look like a pattern.
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
