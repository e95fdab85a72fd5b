package spool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// missing reports whether a version lacks the content that it should have.
func missing(x Joined) bool {
	return x.Record.Kind == KindVersion && x.Record.HasContent && !x.HasContent
}

func TestJoinerMissing(t *testing.T) {
	dir := t.TempDir()
	w := openTest(t, dir, Options{})
	add := func(r *Record) uint64 {
		seq, err := w.Append(r)
		if err != nil {
			t.Fatal(err)
		}
		return seq
	}
	gapped := add(&Record{Kind: KindVersion, HasContent: true, Path: "gapped"})
	late := add(&Record{Kind: KindVersion, HasContent: true, Path: "late"})
	add(&Record{Kind: KindGap, For: gapped})
	r := readerTest(t, dir, Position{})
	j := NewJoiner(r)
	j.MaxWait = 30 * time.Millisecond
	want := func(path string, kind Kind, lacks bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		x, err := j.Next(ctx)
		if err != nil || x.Record.Path != path || x.Record.Kind != kind || missing(x) != lacks {
			t.Fatalf("got %+v missing %v, %v; want %s", x.Record, missing(x), err, path)
		}
	}
	want("gapped", KindVersion, true)
	want("late", KindVersion, true) // after MaxWait
	want("", KindGap, false)
	if err := writeContent(w, late, []byte("x")); err != nil {
		t.Fatal(err)
	}
	want("", KindContent, false) // the late content, on its own
	j.MaxWait = time.Hour
	add(&Record{Kind: KindVersion, HasContent: true, Path: "dead"})
	if _, ok, _ := j.TryNext(); ok {
		t.Fatal("a living writer may still bring the content")
	}
	w.Close()
	want("dead", KindVersion, true)
}

// Damage in the middle (a bad disk) loses only the damaged records.
func TestDamageIsSkipped(t *testing.T) {
	dir := t.TempDir()
	w := openTest(t, dir, Options{})
	var at int64
	for i := range 5 {
		if i == 2 {
			at = w.segOff
		}
		if _, err := w.Append(&Record{Kind: KindNotice, Reason: fmt.Sprint("line ", i)}); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	f, err := os.OpenFile(filepath.Join(dir, segmentName(1)), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteAt([]byte("XXXX"), at+12)
	f.Close()
	r := readerTest(t, dir, Position{})
	var got []uint64
	var damage *CorruptError
	for range 10 {
		rec, err := r.TryNext()
		if err != nil && !errors.As(err, &damage) {
			t.Fatal(err)
		}
		if rec != nil {
			got = append(got, rec.Seq)
		}
	}
	if !reflect.DeepEqual(got, []uint64{1, 2, 4, 5}) || damage == nil || damage.Last != 2 || damage.Continue != 4 {
		t.Errorf("got %v, %+v", got, damage)
	}
}

// A waiting reader is woken by the write itself.
func TestWaitIsShort(t *testing.T) {
	dir := t.TempDir()
	w := openTest(t, dir, Options{})
	r := readerTest(t, dir, Position{})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	type result struct {
		at  time.Time
		err error
	}
	got := make(chan result)
	go func() {
		for range 20 {
			_, err := r.Next(ctx)
			got <- result{time.Now(), err}
		}
	}()
	var worst time.Duration
	for range 20 {
		time.Sleep(5 * time.Millisecond)
		start := time.Now()
		if _, err := w.Append(&Record{Kind: KindNotice}); err != nil {
			t.Fatal(err)
		}
		x := <-got
		if x.err != nil {
			t.Fatal(x.err)
		}
		worst = max(worst, x.at.Sub(start))
	}
	t.Logf("slowest of 20 wake-ups: %v", worst)
	if worst > 2*time.Second {
		t.Errorf("a wake-up took %v", worst)
	}
}

func TestWrongBytesAreNotContent(t *testing.T) {
	dir := t.TempDir()
	w := openTest(t, dir, Options{})
	if err := writeContent(w, 1, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	r := readerTest(t, dir, Position{})
	rec := drain(t, r)[0]
	if err := os.WriteFile(filepath.Join(dir, contentName(rec.File)), []byte("hellx"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Content(rec); !errors.Is(err, ErrNoContent) {
		t.Errorf("err = %v", err)
	}
}

// If a living Writer leaves an incomplete record, the Reader checks the record again soon, and then
// less and less often, because the kernel reports the write that completes it.
func TestTornBytesAreNotWatchedForEver(t *testing.T) {
	dir := t.TempDir()
	w := openTest(t, dir, Options{})
	if _, err := w.Append(&Record{Kind: KindNotice}); err != nil {
		t.Fatal(err)
	}
	r := readerTest(t, dir, Position{})
	if _, err := r.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, segmentName(r.Position().Segment)), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write([]byte("torn")); err != nil {
		t.Fatal(err)
	}
	waits := func(within time.Duration) bool { // whether the Reader still waits after this time and has not checked again
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		return r.wait(ctx, time.Hour) != nil
	}
	if rec, err := r.TryNext(); rec != nil || err != nil || r.badFrom.IsZero() {
		t.Fatal(rec, err, r.badFrom)
	}
	for len(r.poke) > 0 {
		<-r.poke
	}
	if waits(30 * time.Second) {
		t.Error("no second look at torn bytes")
	}
	r.badFrom = r.badFrom.Add(-time.Hour)
	if !waits(time.Second) {
		t.Error("a look after less than a second at what has been torn for an hour")
	}
	if _, err := f.Write([]byte("more")); err != nil {
		t.Fatal(err)
	}
	if waits(30 * time.Second) {
		t.Error("more bytes are not looked at")
	}
}
