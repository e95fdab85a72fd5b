package portable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"

	"pgregory.net/rapid"
)

// A history that was exported and imported has the same versions, now marked as foreign, and it
// continues as the original would. A copy of the copy equals the copy byte for byte.
func TestExportImport(t *testing.T) {
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		if n++; n > 20 && os.Getenv("CACHEBRO_SEED") == "" {
			return // each example opens three stores
		}
		o := storetest.Options()
		o.Now = func() time.Time { return time.Unix(1_800_000_000, 0) } // so that equal stores give equal streams
		s, tr := storetest.FreshRapid(r, o), storetest.NewTree()
		tr.Tails = true
		for i := range rapid.IntRange(0, 40).Draw(r, "steps") {
			tr.Actor = store.Actor{PID: 9, Comm: "sh", Session: store.SessionID(fmt.Sprint("s", i%3)), Prompt: fmt.Sprint("p", i%5), ToolCall: fmt.Sprint("t", i)}
			if c, ok := tr.Step(r); ok {
				if _, err := s.Apply(context.Background(), []store.Change{c}, []byte{byte(i)}); err != nil {
					r.Fatal(err)
				}
			}
		}
		for i := range int64(3) {
			id := store.SessionID(fmt.Sprint("s", i))
			for _, err := range []error{
				s.Sessions.Put(store.Session{ID: id, Client: "claude", Started: i + 1, Last: i + 2, Ended: i + 3}),
				s.Sessions.PutPrompt(store.Prompt{ID: fmt.Sprint("p", i), Session: id, Time: i + 1, Text: "do it"}),
				s.Sessions.PutToolCall(store.ToolCall{ID: fmt.Sprint("t", i), Session: id, Tool: "Bash", Begin: i + 1}),
				s.Sessions.NoteReads(id, "cat", i, []store.Path{"a", "dir/b"}),
				s.Notes.NoteGap(store.Gap{Path: "g", Time: i, Reason: "too slow"}),
				s.Notes.Notice(store.Notice{Time: i, Text: "a line"}),
				s.KV("notes").Set(fmt.Sprint(i), []byte("remember")),
			} {
				if err != nil {
					r.Fatal(err)
				}
			}
		}
		want := exported(r, s)
		dir := s.Dir() + "-copy"
		defer os.RemoveAll(dir)
		if _, err := Import(context.Background(), dir, bytes.NewReader(want), here, o); err != nil {
			r.Fatal(err)
		}
		c, err := store.Open(dir, o)
		if err != nil {
			r.Fatal(err)
		}
		defer c.Close()
		got := exported(r, c)
		again, err := Check(context.Background(), bytes.NewReader(got))
		if first, werr := Check(context.Background(), bytes.NewReader(want)); err != nil || werr != nil || first != again {
			r.Fatalf("the copy's history is another one: %+v, was %+v (%v, %v)", again, first, err, werr)
		}
		old, err := s.Since(0, 10_000)
		if err != nil {
			r.Fatal(err)
		}
		now, err := c.Since(0, 10_000)
		for i := range now {
			if !now[i].Foreign {
				r.Fatalf("nobody here has seen version %d", now[i].Seq)
			}
			now[i].Foreign = false
		}
		if err != nil || !slices.Equal(old, now) {
			r.Fatalf("the copy has other versions (%v)", err)
		}
		twice := dir + "-2"
		defer os.RemoveAll(twice)
		if _, err := Import(context.Background(), twice, bytes.NewReader(got), here, o); err != nil {
			r.Fatal(err)
		}
		d, err := store.Open(twice, o)
		if err != nil {
			r.Fatal(err)
		}
		defer d.Close()
		if !bytes.Equal(plainStream(r, exported(r, d)), plainStream(r, got)) {
			r.Fatal("a copy of the copy is another one")
		}
		if len(c.Checkpoint()) != 0 {
			r.Fatalf("the copy has a checkpoint of another spool: %x", c.Checkpoint())
		}
		if msg := storetest.Differs(c, tr.Clone()); msg != "" {
			r.Fatal(msg)
		}
		a, b := s.Stats(), c.Stats()
		if a.Seq != b.Seq || a.Versions != b.Versions || a.Files != b.Files || a.GapCount != b.GapCount {
			r.Fatalf("counters %+v, of the copy %+v", a, b)
		}
		for range 10 {
			ch, ok := tr.Step(r)
			if !ok {
				continue
			}
			if _, err := c.Apply(context.Background(), []store.Change{ch}, nil); err != nil && !errors.Is(err, store.ErrNoBase) {
				r.Fatal(err)
			} else if err != nil {
				return // the store lacks the beginning of an appended file; a real writer would now send the whole file
			}
		}
		if msg := storetest.Differs(c, tr.Clone()); msg != "" {
			r.Fatal(msg)
		}
		if ck, err := c.Fsck(context.Background(), false); err != nil || !ck.OK() {
			r.Fatal(err, ck.Problems)
		}
	})
}
