//go:build portable && linux

package fusefs

import (
	"fmt"
	"os"
	"testing"

	"cachebro/fusefs/sys"
)

// On darwin, each read of a directory goes through all entries that earlier reads returned. Listing
// 10,000 entries must still cost only a small multiple of that number.
func TestLargeDirectory(t *testing.T) {
	const n = 10000
	dir := t.TempDir()
	for i := range n {
		if err := os.WriteFile(fmt.Sprintf("%s/a-rather-usual-name-%d", dir, i), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	given, walked := 0, 0
	all, err := allEntries(func(buf []byte) (int, error) {
		l, err := sys.Dirents(int(f.Fd()), buf)
		walked += given
		for rest := buf[:max(l, 0)]; len(rest) > 0; given++ {
			_, size := sys.ParseDirent(rest)
			rest = rest[size:]
		}
		return l, err
	})
	if err != nil || len(all) != n+2 {
		t.Fatalf("%d entries, %v", len(all), err)
	}
	if walked > 4*n {
		t.Errorf("darwin would go through %d entries once more, of %d", walked, n)
	}
	names := map[string]bool{}
	for _, e := range all {
		names[e.Name] = true
	}
	if len(names) != n+2 {
		t.Errorf("%d names", len(names))
	}
}
