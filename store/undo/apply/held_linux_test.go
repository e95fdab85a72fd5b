package apply

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cachebro/store/leaf/text"
	"cachebro/store/undo/displace"
	"cachebro/store/wire"
)

// A process that has a file open for writing would continue to write to a file without a name. So
// the file is left alone, and the process is reported.
func TestFileOpenForWritingIsLeftAlone(t *testing.T) {
	for _, c := range []struct {
		do   string
		want string
	}{{"write", "old"}, {"delete", "gone"}, {"symlink", "link"}} {
		dir := t.TempDir()
		name := filepath.Join(dir, "a")
		write(t, "now\n", name)
		held, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer held.Close()
		step := wire.PlanStep{N: 1, Do: c.do, Path: []byte("a"), Target: []byte("x"), Mode: 0o100644, Expect: text.Hash([]byte("now\n"))}
		res := out(t, dir, map[int]string{1: "old"}, step)
		if _, err := held.WriteString("later\n"); err != nil {
			t.Fatal(err)
		}
		if len(res.Failed) != 1 || read(t, name) != "now\nlater\n" {
			t.Errorf("%s: %+v, the file holds %q", c.do, res, read(t, name))
			continue
		}
		if why := res.Failed[0].Why; !strings.Contains(why, "open for writing by "+fmt.Sprint(os.Getpid())) {
			t.Errorf("%s: %s", c.do, why)
		}
		p := wire.Plan{ID: "p1", Steps: []wire.PlanStep{step}}
		if err := Preview(dir, &p, false); err != nil || len(p.Steps) != 0 || len(p.Conflicts) != 1 {
			t.Errorf("%s: the preview shows %+v, %v", c.do, p, err)
		}
		// A process that only reads the file does not prevent the step.
		held.Close()
		reader, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		step.Expect = text.Hash([]byte("now\nlater\n"))
		if res = out(t, dir, map[int]string{1: "old"}, step); len(res.Failed) > 0 {
			t.Errorf("%s: after it was closed: %+v", c.do, res)
		}
	}
}

// Lines are appended while the file is undone again and again. Each line is in the undone content
// or in the file afterwards.
func TestAppendersLoseNothing(t *testing.T) {
	for _, do := range []string{"write", "delete"} {
		dir := t.TempDir()
		name := filepath.Join(dir, "log")
		write(t, "", name)
		stop := make(chan struct{})
		var mu sync.Mutex
		var lines []string
		var wg sync.WaitGroup
		for who := range 3 {
			wg.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					line := fmt.Sprintf("%d-%d\n", who, i)
					f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
					if err == nil {
						_, err = f.WriteString(line)
						err = firstOf(err, f.Close())
					}
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					lines = append(lines, line)
					mu.Unlock()
					if i%4 == who {
						time.Sleep(time.Duration(i%7) * 300 * time.Microsecond)
					}
				}
			})
		}
		var kept bytes.Buffer // the contents that a history would have
		done := 0
		for range 300 {
			have, err := os.ReadFile(name)
			if err != nil {
				continue
			}
			res := out(t, dir, map[int]string{1: ""}, wire.PlanStep{N: 1, Do: do, Path: []byte("log"), Mode: 0o100644, Expect: text.Hash(have)})
			if len(res.Done) > 0 || strings.Contains(res.Failed[0].Why, displace.ErrAppended.Error()) {
				done++
				kept.Write(have)
			}
		}
		close(stop)
		wg.Wait()
		have, _ := os.ReadFile(name)
		kept.Write(have)
		all := map[string]bool{}
		for line := range strings.Lines(kept.String()) {
			all[line] = true
		}
		lost := 0
		for _, line := range lines {
			if !all[line] {
				lost++
			}
		}
		if lost > 0 {
			t.Errorf("%s: %d of %d lines are lost, %d of 300 times it was taken back", do, lost, len(lines), done)
		}
		t.Logf("%s: %d lines, taken back %d times", do, len(lines), done)
		if left, _ := filepath.Glob(filepath.Join(dir, ".cachebro*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// A database that is restored without its log would get the log's changes again when it is
// opened.
func TestDatabaseNeedsItsLog(t *testing.T) {
	db := func(s string) string { return "SQLite format 3\x00" + s }
	for _, c := range []struct {
		name  string
		files map[string]string
		steps []wire.PlanStep
		open  string
		done  int
		why   string
	}{
		{"the log stays", map[string]string{"d": db("new"), "d-wal": "frames"},
			[]wire.PlanStep{{N: 1, Do: "write", Path: []byte("d"), Expect: text.Hash([]byte(db("new")))}}, "", 0, "its log"},
		{"the journal stays", map[string]string{"d": db("new"), "d-journal": "pages"},
			[]wire.PlanStep{{N: 1, Do: "delete", Path: []byte("d"), Expect: text.Hash([]byte(db("new")))}}, "", 0, "its log"},
		{"it comes back beside a log", map[string]string{"d-wal": "frames"},
			[]wire.PlanStep{{N: 1, Do: "write", Path: []byte("d"), Expect: "absent"}}, "", 0, "its log"},
		{"the log is empty", map[string]string{"d": db("new"), "d-wal": ""},
			[]wire.PlanStep{{N: 1, Do: "write", Path: []byte("d"), Expect: text.Hash([]byte(db("new")))}}, "", 1, ""},
		{"both go back", map[string]string{"d": db("new"), "d-wal": "frames", "d-shm": "index"},
			[]wire.PlanStep{{N: 1, Do: "delete", Path: []byte("d-wal"), Expect: text.Hash([]byte("frames"))},
				{N: 2, Do: "write", Path: []byte("d"), Expect: text.Hash([]byte(db("new")))},
				{N: 3, Do: "delete", Path: []byte("d-shm"), Expect: text.Hash([]byte("index"))}}, "", 3, ""},
		{"it is open", map[string]string{"d": db("new"), "d-wal": "frames", "d-shm": "index"},
			[]wire.PlanStep{{N: 1, Do: "delete", Path: []byte("d-wal"), Expect: text.Hash([]byte("frames"))},
				{N: 2, Do: "write", Path: []byte("d"), Expect: text.Hash([]byte(db("new")))},
				{N: 3, Do: "delete", Path: []byte("d-shm"), Expect: text.Hash([]byte("index"))}}, "d", 0, "open for writing"},
		{"no database", map[string]string{"d": "new", "d-wal": "frames"},
			[]wire.PlanStep{{N: 3, Do: "write", Path: []byte("d"), Expect: text.Hash([]byte("new"))}}, "", 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range c.files {
				write(t, text, dir, name)
			}
			if c.open != "" {
				f, err := os.OpenFile(filepath.Join(dir, c.open), os.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
			}
			res := out(t, dir, map[int]string{1: db("old"), 2: db("old"), 3: "old"}, c.steps...)
			if len(res.Done) != c.done || len(res.Failed) != len(c.steps)-c.done {
				t.Fatalf("%+v", res)
			}
			for _, f := range res.Failed {
				if !strings.Contains(f.Why, c.why) {
					t.Errorf("%s: %s", f.Path, f.Why)
				}
				if string(f.Path) != "d" || c.files["d"] != "" {
					if read(t, dir, string(f.Path)) != c.files[string(f.Path)] {
						t.Errorf("%s has changed", f.Path)
					}
				}
			}
		})
	}
}
