package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"cachebro/store/leaf/event"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("SPOOL_TEST_WRITER") != "" {
		crashingWriter(os.Getenv("SPOOL_TEST_WRITER"))
		return
	}
	goleak.VerifyTestMain(m)
}

func openTest(t testing.TB, dir string, opt Options) *Writer {
	t.Helper()
	w, err := OpenWriter(dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func readerTest(t testing.TB, dir string, from Position) *Reader {
	t.Helper()
	r, err := OpenReader(dir, from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// drain reads all available records, and fails the test if one is damaged.
func drain(t testing.TB, r *Reader) []*Record {
	t.Helper()
	var all []*Record
	for {
		rec, err := r.TryNext()
		if err != nil {
			t.Fatal(err)
		}
		if rec == nil {
			return all
		}
		all = append(all, rec)
	}
}

func fullRecord() *Record {
	return &Record{Kind: KindVersion, Time: -5, Op: event.OpOutside, Class: 2, Path: "a/\xff\n", Path2: "b", Target: "t", Node: 1 << 60,
		Stat: event.Stat{Dev: 1, Ino: 2, Birth: -3, Mode: 4, Nlink: 5, UID: 6, GID: 7, Size: 1 << 40, Mtime: -9, Ctime: 10, Attrs: "\x01\x00"}, PID: 11, Start: 12, UID: 13, HasContent: true, TailFrom: 14,
		TooLarge: true, Hash: []byte{0, 1}, LastName: true, Idle: true, For: 15, File: 16, Off: 17, Len: 18, Sum: 19,
		PPID: 20, PStart: 21, Comm: "c", Args: "x y", Dir: "/d", Group: 9, Line: 33, Session: map[string]string{"A": "1", "B": ""}, Reason: "r", Was: WasKept, Before: []byte{0, 2},
		Paths: []string{"p", "", "q"}, More: 22, Mountpoint: "/m", Source: "/s", Version: "v"}
}

// Every field survives. A field that is added to Record but not to the codec fails here, because
// no field of fullRecord may be zero.
func TestRoundTrip(t *testing.T) {
	want := fullRecord()
	want.Seq = 77
	for v, i := reflect.ValueOf(*want), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("fullRecord leaves %s zero", v.Type().Field(i).Name)
		}
	}
	b := appendRecord(nil, want)
	if rest := seal(b, 77); len(rest) != 0 {
		t.Fatalf("%d bytes left", len(rest))
	}
	n, v := examine(b)
	if v != whole || n != len(b) {
		t.Fatalf("examine: %d, %v", n, v)
	}
	var got Record
	if err := decode(b[headerLen:n], &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(&got, want) {
		t.Errorf("got  %+v\nwant %+v", &got, want)
	}
}

// A record of a later version has fields that this version does not know.
func TestUnknownFieldsAreSkipped(t *testing.T) {
	b := appendRecord(nil, &Record{Kind: KindNotice, Reason: "r"})
	b = putUint(b, 900, 5)
	b = putString(b, 901, "later")
	b = putString(b, fPath, "p")
	var got Record
	if err := decode(b[headerLen:], &got); err != nil {
		t.Fatal(err)
	}
	if got.Reason != "r" || got.Path != "p" {
		t.Errorf("got %+v", got)
	}
}

func FuzzDecode(f *testing.F) {
	b := appendRecord(nil, fullRecord())
	seal(b, 1)
	f.Add(b[headerLen:])
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, p []byte) {
		var r, again Record
		if decode(p, &r) != nil {
			return
		}
		b := appendRecord(nil, &r)
		seal(b, r.Seq)
		if err := decode(b[headerLen:], &again); err != nil {
			t.Fatalf("what was decoded does not decode again: %v", err)
		}
		if !reflect.DeepEqual(r, again) && len(r.Hash) > 0 == (len(again.Hash) > 0) {
			t.Fatalf("%+v\n%+v", r, again)
		}
		examine(p)
		resync(p, 0)
	})
}

// A write that was cut at any point leaves the earlier records intact, and numbering continues
// after them.
func TestTornTailAtEveryByte(t *testing.T) {
	base := t.TempDir()
	w := openTest(t, base, Options{Boot: "b"})
	for i := range 3 {
		if _, err := w.Append(&Record{Kind: KindNotice, Reason: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	cut := w.segOff
	rec := fullRecord()
	if _, err := w.Append(rec); err != nil {
		t.Fatal(err)
	}
	end := w.segOff
	whole, err := os.ReadFile(filepath.Join(base, segmentName(1)))
	if err != nil {
		t.Fatal(err)
	}
	for at := cut; at < end; at++ {
		for _, zeroed := range []bool{false, true} {
			dir := t.TempDir()
			b := append([]byte(nil), whole[:at]...)
			if zeroed {
				b = append(b, make([]byte, end-at)...)
			}
			if err := os.WriteFile(filepath.Join(dir, segmentName(1)), b, 0o600); err != nil {
				t.Fatal(err)
			}
			early := readerTest(t, dir, Position{}) // before the tail is cut
			if got := drain(t, early); len(got) != 3 {
				t.Fatalf("cut at %d: reader sees %d records", at, len(got))
			}
			if head, err := early.Head(); err != nil || early.Position().Before(head) {
				t.Fatalf("cut at %d: waiting for a dead writer: %v %v", at, head, err)
			}
			w2, err := OpenWriter(dir, Options{Boot: "b"})
			if err != nil {
				t.Fatal(err)
			}
			w2.next = max(w2.next, 4)
			if seq, err := w2.Append(&Record{Kind: KindNotice, Reason: "after"}); err != nil || seq != 4 {
				t.Fatalf("cut at %d: seq %d, %v", at, seq, err)
			}
			if got := drain(t, early); len(got) != 1 || got[0].Reason != "after" {
				t.Fatalf("cut at %d: the waiting reader got %v", at, got)
			}
			w2.Close()
			if got := drain(t, readerTest(t, dir, Position{})); len(got) != 4 {
				t.Fatalf("cut at %d: %d records after repair", at, len(got))
			}
		}
	}
}

// After a power loss, records may be missing from the log although a store has already read them.
// Their numbers are not used again.
func TestNumbersAreNotReusedAfterPowerLoss(t *testing.T) {
	dir := t.TempDir()
	w := openTest(t, dir, Options{Boot: "one"})
	seq, err := w.Append(&Record{Kind: KindNotice})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	w = openTest(t, dir, Options{Boot: "one"})
	if got, _ := w.Append(&Record{Kind: KindNotice}); got != seq+1 {
		t.Errorf("same boot: seq %d after %d", got, seq)
	}
	w.Close()
	w = openTest(t, dir, Options{Boot: "two"})
	if got, _ := w.Append(&Record{Kind: KindNotice}); got < seq+reserveSeqs {
		t.Errorf("other boot: seq %d may have been used", got)
	}
}

func TestSecondWriterIsRefused(t *testing.T) {
	dir := t.TempDir()
	w := openTest(t, dir, Options{})
	if _, err := OpenWriter(dir, Options{}); !errors.Is(err, ErrLocked) {
		t.Errorf("err = %v", err)
	}
	r := readerTest(t, dir, Position{})
	if !r.WriterAlive() {
		t.Error("the writer is alive")
	}
	w.Close()
	if r.WriterAlive() {
		t.Error("the writer is gone")
	}
}

// Many goroutines write and a reader follows, while segments and content files are rotated and
// released. Every version is read once, in order, with its content.
func TestFollowConcurrentWriters(t *testing.T) {
	dir := t.TempDir()
	w := openTest(t, dir, Options{SegmentSize: 4 << 10, ContentSize: 64 << 10})
	const writers, each = 8, 200
	content := func(g, i int) []byte {
		return bytes.Repeat([]byte(fmt.Sprintf("%d/%d ", g, i)), 1+(g*31+i*7)%300)
	}
	var wg sync.WaitGroup
	for g := range writers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range each {
				rec := &Record{Kind: KindVersion, Op: event.OpWrite, Path: fmt.Sprint(g), Node: uint64(i), HasContent: true}
				seq, err := w.Append(rec)
				if err == nil {
					err = writeContent(w, seq, content(g, i))
				}
				if err == nil && i%50 == 0 {
					err = w.Sync(seq)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	defer wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r := readerTest(t, dir, Position{})
	j := NewJoiner(r)
	var last uint64
	nextOf := make([]int, writers)
	for n := 0; n < writers*each; n++ {
		x, err := j.Next(ctx)
		if err != nil {
			t.Fatalf("after %d versions: %v", n, err)
		}
		if x.Record.Seq <= last || missing(x) {
			t.Fatalf("seq %d after %d, missing %v", x.Record.Seq, last, missing(x))
		}
		last = x.Record.Seq
		var g int
		fmt.Sscan(x.Record.Path, &g)
		if i := int(x.Record.Node); i != nextOf[g] {
			t.Fatalf("writer %d: version %d, want %d", g, i, nextOf[g])
		}
		if !bytes.Equal(x.Content, content(g, nextOf[g])) {
			t.Fatalf("content of %d/%d: %d bytes", g, nextOf[g], len(x.Content))
		}
		nextOf[g]++
		if n%100 == 0 {
			if err := r.Release(x.After); err != nil {
				t.Fatal(err)
			}
		}
	}
	wg.Wait()
	w.Close()
	drain(t, r)
	if err := r.Release(r.Position()); err != nil {
		t.Fatal(err)
	}
	l, err := list(dir, true)
	if err != nil || len(l.contents) != 0 || len(l.segments) != 1 {
		t.Errorf("left after everything was released: %+v, %v", l, err)
	}
}

// A daemon that restarts from a checkpoint reads everything after it exactly once, even if the
// contents came in a different order from the versions.
func TestRestartAtEveryCheckpoint(t *testing.T) {
	dir := t.TempDir()
	w := openTest(t, dir, Options{SegmentSize: 1 << 10})
	rng := rand.New(rand.NewSource(1))
	var pending []uint64
	put := func() {
		i := rng.Intn(len(pending))
		if err := writeContent(w, pending[i], []byte(fmt.Sprint(pending[i]))); err != nil {
			t.Fatal(err)
		}
		pending = append(pending[:i], pending[i+1:]...)
	}
	for range 100 {
		seq, err := w.Append(&Record{Kind: KindVersion, HasContent: true})
		if err != nil {
			t.Fatal(err)
		}
		for pending = append(pending, seq); len(pending) > rng.Intn(6); {
			put()
		}
	}
	for len(pending) > 0 {
		put()
	}
	var pos Position
	var seen []uint64
	for len(seen) < 100 {
		r := readerTest(t, dir, pos)
		j := NewJoiner(r)
		for k := rng.Intn(4) + 1; k > 0; {
			x, ok, err := j.TryNext()
			if err != nil || !ok {
				t.Fatalf("%d seen: %v %v", len(seen), ok, err)
			}
			pos = x.After
			if x.Record.Kind == KindContent {
				continue // it belongs to a version before the checkpoint
			}
			if string(x.Content) != fmt.Sprint(x.Record.Seq) {
				t.Fatalf("content %q of %d: %v", x.Content, x.Record.Seq, x.Err)
			}
			seen = append(seen, x.Record.Seq)
			if k--; len(seen) == 100 {
				break
			}
		}
		if err := r.Release(pos); err != nil {
			t.Fatal(err)
		}
	}
	for i := 1; i < len(seen); i++ {
		if seen[i] <= seen[i-1] {
			t.Fatalf("order: %v", seen)
		}
	}
}

func writeContent(w *Writer, seq uint64, p []byte) error {
	c, err := w.NewContent()
	if err != nil {
		return err
	}
	if _, err := c.Write(p); err != nil {
		c.Abort()
		return err
	}
	return c.Commit(seq)
}

// TestVolatile: a volatile spool is not synced and reserves no numbers, but a process that continues
// it finds all records and goes on numbering.
func TestVolatile(t *testing.T) {
	dir := t.TempDir()
	for i := range 2 {
		w := openTest(t, dir, Options{Volatile: true})
		seq, err := w.Append(&Record{Kind: KindGap})
		if err != nil || seq != uint64(i)+1 {
			t.Fatalf("number %d, %v", seq, err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, reserveName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("numbers are reserved: %v", err)
	}
	if all := drain(t, readerTest(t, dir, Position{})); len(all) != 2 {
		t.Errorf("%d records", len(all))
	}
}
