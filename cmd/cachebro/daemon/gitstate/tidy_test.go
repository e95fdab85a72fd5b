package gitstate

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store/leaf/limits"
)

// When the budget is exceeded, tidy deletes the oldest saved files first. Files and objects each
// have a share of the budget. A file with another hard link takes no space. Objects of the last day
// stay. A later daemon also knows that something was deleted.
func TestTidyDropsTheOldest(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "git")
	const block = 1 << 16
	st := storetest.Open(t, filepath.Join(base, "store"), storetest.Options())
	s := New(dir, st, nil, slog.New(slog.DiscardHandler))
	s.budget = 16 * block // 4 for files, 12 for objects
	make := func(name string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, bytes.Repeat([]byte("x"), block), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(12 * time.Millisecond) // tidy orders files by ctime
	}
	for i := range 8 {
		make(fmt.Sprintf("files/%d/f%d", i, i))
	}
	for i := range 20 {
		make(fmt.Sprintf("objects/r/%02d/o%02d", i%4, i))
	}
	if err := os.Link(filepath.Join(dir, "objects/r/00/o00"), filepath.Join(base, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(12 * time.Millisecond)
	left := func() (names []string) {
		for _, f := range keptBelow(dir) {
			names = append(names, filepath.Base(f.path))
		}
		slices.Sort(names)
		return names
	}

	// The share of the files is exceeded. The objects are too new to be dropped.
	s.tidy(t.Context(), time.Now())
	names := left()
	today := 20
	if shortOf(dir) { // then the objects of today must be dropped, too
		today = 13
	}
	if len(names) != 4+today || names[0] != "f4" {
		t.Errorf("today: %v", names)
	}
	u := s.Tidy(t.Context())
	if u == nil || u.Files != 4+today || u.Bytes != int64(3+today)*block || u.Wants.IsZero() {
		t.Errorf("usage: %+v", u)
	}

	// Later the objects are limited to their share as well. The object with two links takes no
	// space, although the link has made it the newest. The newest twelve of the others stay.
	s.tidy(t.Context(), time.Now().Add(limits.GitFresh+time.Hour))
	names = left()
	if len(names) != 4+13 || !slices.Contains(names, "o00") || !slices.Contains(names, "o08") || slices.Contains(names, "o07") {
		t.Errorf("a day later: %v", names)
	}
	if _, err := os.Stat(filepath.Join(dir, "files/0")); err == nil {
		t.Error("an empty directory is left")
	}
	again := New(dir, st, nil, s.log)
	if got := again.Tidy(t.Context()); got == nil || got.Wants.IsZero() || got.Wants.Before(u.Wants) {
		t.Errorf("the next daemon: %+v, want what was lost by %v", got, u.Wants)
	}

	// When even the newest saved file is too old, everything is deleted, and nothing counts as
	// missing any longer.
	late := time.Now().Add(limits.GitFor + time.Hour)
	again.tidy(t.Context(), late)
	if names := left(); len(names) != 0 || again.usage.Files != 0 || !again.usage.Wants.IsZero() {
		t.Errorf("a month later: %v, %+v", names, again.usage)
	}
}
