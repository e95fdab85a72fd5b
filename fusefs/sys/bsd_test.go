//go:build portable || darwin

package sys

import (
	"bytes"
	"encoding/hex"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestDarwinsEntries decodes entries as darwin's readdir returns them (struct dirent of
// sys/dirent.h with __DARWIN_64_BIT_INO_T; both processors are little-endian). The entries are
// padded and have different lengths. The length of a name must not be trusted beyond the end of its
// entry.
func TestDarwinsEntries(t *testing.T) {
	for _, c := range []struct {
		hex  string
		want Dirent
		size int
	}{
		{"0200000000000000" + "0000000000000000" + "2000" + "0100" + "04" + "2e" + "00000000000000000000", Dirent{Ino: 2, Mode: unix.S_IFDIR, Name: "."}, 32},
		{"1122334455667788" + "0700000000000000" + "2000" + "0300" + "08" + "65cc81" + "0000000000000000", Dirent{Ino: 0x8877665544332211, Next: 7, Mode: unix.S_IFREG, Name: "e\u0301"}, 32},
		{"0300000000000000" + "0000000000000000" + "1800" + "ff03" + "0a" + "6c6e00", Dirent{Ino: 3, Mode: unix.S_IFLNK, Name: "ln"}, 24},
	} {
		b, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		if e, size := parseBSD(append(b, 0xff, 0xff)); e != c.want || size != c.size {
			t.Errorf("%s: %+v of %d bytes, not %+v of %d", c.hex, e, size, c.want, c.size)
		}
	}
}

// setattrlist(2) takes the values in the order of the bits, so the modification time comes first. A
// time that is to stay unchanged has neither a bit nor a value.
func TestDarwinsTimes(t *testing.T) {
	now := time.Unix(5, 6)
	sec := func(n byte) []byte { return []byte{n, 0, 0, 0, 0, 0, 0, 0} }
	for _, c := range []struct {
		accessed, modified Time
		attrs              uint32
		values             [][]byte
	}{
		{Time{Sec: 1, Nsec: 2}, Time{Sec: 3, Nsec: 4}, 0x1400, [][]byte{sec(3), sec(4), sec(1), sec(2)}},
		{Time{Nsec: bsdOmit}, Time{Sec: 3, Nsec: 4}, 0x400, [][]byte{sec(3), sec(4)}},
		{Time{Nsec: bsdNow}, Time{Nsec: bsdOmit}, 0x1000, [][]byte{sec(5), sec(6)}},
		{Time{Nsec: bsdOmit}, Time{Nsec: bsdOmit}, 0, nil},
		{Time{Nsec: bsdOmit}, Time{Sec: -1, Nsec: 7}, 0x400, [][]byte{bytes.Repeat([]byte{0xff}, 8), sec(7)}},
	} {
		attrs, values := bsdTimes(c.accessed, c.modified, now)
		if want := bytes.Join(c.values, nil); attrs != c.attrs || !bytes.Equal(values, want) {
			t.Errorf("%+v, %+v: %x % x, not %x % x", c.accessed, c.modified, attrs, values, c.attrs, want)
		}
	}
}

// F_PREALLOCATE adds to the space that a file occupies on disk, whatever the file's size is.
func TestDarwinsRoom(t *testing.T) {
	for _, c := range []struct {
		off, n int64
		blocks uint64
		want   int64
	}{{0, 10000, 0, 10000}, {0, 10000, 8, 10000 - 4096}, {4096, 4096, 16, 0}, {0, 1, 800, 0}, {1 << 20, 1, 0, 1<<20 + 1}} {
		if got := missingBytes(c.off, c.n, c.blocks); got != c.want {
			t.Errorf("%d bytes at %d, %d blocks there: %d, not %d", c.n, c.off, c.blocks, got, c.want)
		}
	}
}

// TestDarwinsSpelling decodes replies of getattrlist(2) to a request for ATTR_CMN_NAME alone
// (struct attrreference of sys/attr.h, after the total length). Some of the replies have values
// that must not be trusted.
func TestDarwinsSpelling(t *testing.T) {
	for _, c := range []struct {
		hex, want string
		ok        bool
	}{
		{"14000000" + "08000000" + "07000000" + "524541444d4500" + "00", "README", true},
		{"14000000" + "08000000" + "07000000" + "63616665cc8100" + "00", "cafe\u0301", true},
		{"0c000000" + "08000000" + "00000000", "", false},
		{"14000000" + "08000000" + "ff000000" + "524541444d4500" + "00", "", false},
		{"14000000" + "00000080" + "07000000" + "524541444d4500" + "00", "", false},
		{"ff000000" + "08000000" + "07000000" + "524541444d4500" + "00", "", false},
		{"0c000000", "", false},
	} {
		b, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := parseName(b); got != c.want || ok != c.ok {
			t.Errorf("%s: %q, %v", c.hex, got, ok)
		}
	}
}
