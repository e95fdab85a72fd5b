//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"cachebro/store/wire"
)

// scribeFiles are the names of the scribes' files.
var scribeFiles = []string{"w1.txt", "w2.txt", "w3.ign", "w4.txt"}

// scribes runs several scribes until standard input ends. A scribe appends numbered records to a
// file of a tree, and prints each record that it has written. Half of the scribes keep their files
// open. If a record went to a file that has lost its name, the scribe prints "gone TIME " before
// the record. TIME is when it first noticed the loss, in ns.
func scribes(dir string, seed int64) error {
	var stop atomic.Bool
	var wg sync.WaitGroup
	var mu sync.Mutex
	out := bufio.NewWriter(os.Stdout)
	if err := os.Chdir(dir); err != nil {
		return err
	}
	for i, name := range scribeFiles {
		r := rand.New(rand.NewSource(seed + int64(i)))
		if dirs, _ := filepath.Glob("*/"); len(dirs) > 0 && r.Intn(2) == 0 {
			name = filepath.Join(dirs[r.Intn(len(dirs))], name)
		}
		wg.Go(func() {
			var f *os.File
			gone := ""
			for n := 0; !stop.Load(); time.Sleep(time.Duration(4000+r.Intn(8000)) * time.Microsecond) {
				if f == nil {
					var err error
					f, err = os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
					if err != nil {
						continue
					}
					gone = ""
				}
				record := fmt.Sprintf("record %d of %d by %d%s\n", n, seed, i, strings.Repeat(".", r.Intn(40)))
				n++
				if k, err := f.WriteString(record); err == nil && k == len(record) {
					var st syscall.Stat_t
					if gone == "" && syscall.Fstat(int(f.Fd()), &st) == nil && st.Nlink == 0 {
						gone = fmt.Sprintf("gone %d ", time.Now().UnixNano())
					}
					mu.Lock()
					_, _ = out.WriteString(gone + record)
					mu.Unlock()
				}
				if i%2 == 0 || r.Intn(200) == 0 {
					_ = f.Close()
					f = nil
				}
			}
			if f != nil {
				_ = f.Close()
			}
		})
	}
	_, err := bufio.NewReader(os.Stdin).ReadByte()
	stop.Store(true)
	wg.Wait()
	if err != nil && err.Error() == "EOF" {
		err = nil
	}
	return errors.Join(err, out.Flush())
}

// writing is a separate process that runs scribes.
type writing struct {
	cmd     *exec.Cmd
	in      *os.File
	written bytes.Buffer
}

func startWriting(dir string, seed int64) (*writing, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &writing{cmd: exec.Command(exe, "scribe", "-seed", strconv.FormatInt(seed, 10), dir)}
	w.cmd.Dir, w.cmd.Stderr, w.cmd.Stdout = "/", os.Stderr, &w.written
	pr, pw, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer pr.Close()
	w.cmd.Stdin, w.in = pr, pw
	return w, w.cmd.Start()
}

// end stops the scribes and returns the records that they have written. It leaves out records in
// files that had lost their names before the undo or redo began. The trial's program had removed
// those files, so without cachebro the records would be lost too.
func (w *writing) end(planned time.Time) ([]string, error) {
	err := w.in.Close()
	done := make(chan error, 1)
	go func() { done <- w.cmd.Wait() }()
	select {
	case werr := <-done:
		err = errors.Join(err, werr)
	case <-time.After(2 * time.Minute):
		return nil, errors.Join(err, errors.New("the writers did not end"), w.cmd.Process.Kill())
	}
	var records []string
	for line := range strings.Lines(w.written.String()) {
		if rest, ok := strings.CutPrefix(line, "gone "); ok {
			at, record, _ := strings.Cut(rest, " ")
			if n, err := strconv.ParseInt(at, 10, 64); err == nil && n < planned.UnixNano() {
				continue
			}
			line = record
		}
		records = append(records, line)
	}
	return records, err
}

// nowhere returns the records that are in neither the tree nor the history.
func (t *trial) nowhere(p *place, records []string, since time.Time) ([]string, error) {
	missing := map[string]bool{}
	for _, r := range records {
		missing[strings.TrimSuffix(r, "\n")] = true
	}
	find := func(b []byte) {
		for line := range bytes.Lines(b) {
			// Look for the last record in the line, because older text may precede it.
			if i := bytes.LastIndex(line, []byte("record ")); i >= 0 {
				delete(missing, string(bytes.TrimSuffix(line[i:], []byte("\n"))))
			}
		}
	}
	for _, dir := range []string{t.source, t.git} {
		if err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(name)
			find(b)
			return err
		}); err != nil {
			return nil, err
		}
	}
	if len(missing) > 0 {
		list, err := p.log(int(time.Since(since)/time.Second) + 5)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		c, err := p.client(ctx)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		unsaved := t.overBudget(list)
		for r := range missing {
			var n, seed, by int
			if _, err := fmt.Sscanf(r, "record %d of %d by %d", &n, &seed, &by); err == nil && unsaved[scribeFiles[by]] {
				delete(missing, r)
			}
		}
		seen := map[string]bool{}
		for _, v := range longestFirst(list) {
			if v.Hash == "" || seen[v.Hash] || !strings.HasPrefix(v.Path, t.name+"/") || len(missing) == 0 {
				continue
			}
			seen[v.Hash] = true
			var answer wire.Version
			if b, err := c.Call(ctx, wire.MShow, wire.ShowQuery{Seq: v.Seq}, nil, &answer); err == nil {
				find(b)
			}
		}
	}
	var left []string
	for _, r := range records {
		r = strings.TrimSuffix(r, "\n")
		if missing[r] {
			left = append(left, r)
		}
	}
	return left, nil
}

// overBudget returns the original names of those scribes' files of which the history has a version
// without content, because the hourly budget for ignored files was spent. On a slow machine, the
// scribes on one mount use up that budget.
func (t *trial) overBudget(list []version) map[string]bool {
	writer, unsaved := map[string]string{}, map[string]bool{}
	slices.SortFunc(list, func(a, b version) int { return int(a.Seq) - int(b.Seq) })
	for _, v := range list {
		if !strings.HasPrefix(v.Path, t.name+"/") {
			continue
		}
		if base := filepath.Base(v.Path); slices.Contains(scribeFiles, base) {
			writer[v.Path] = base
		} else if of := writer[v.From]; of != "" {
			writer[v.Path] = of
		}
		if of := writer[v.Path]; of != "" && strings.Contains(v.NoContent, "hourly budget") {
			unsaved[of] = true
		}
	}
	return unsaved
}

// longestFirst sorts the versions so that two kinds come first: the newest version of each file, and
// each version after which the file became shorter. Together these contain everything that was ever
// appended. Reading many thousands of versions would take minutes.
func longestFirst(list []version) []version {
	slices.SortFunc(list, func(a, b version) int { return int(b.Seq) - int(a.Seq) })
	var first, rest []version
	after := map[string]int64{} // the file's size in the next version
	for _, v := range list {
		if size, ok := after[v.Path]; !ok || size < v.Size {
			first = append(first, v)
		} else {
			rest = append(rest, v)
		}
		after[v.Path] = v.Size
	}
	return append(first, rest...)
}

// client connects to the place's daemon, because a call costs less than starting a process.
func (p *place) client(ctx context.Context) (*wire.Client, error) {
	out, err := p.cachebro("version")
	if err != nil {
		return nil, err
	}
	words := strings.Fields(string(out))
	if len(words) < 2 {
		return nil, fmt.Errorf("version: %q", out)
	}
	paths := wire.Paths{RuntimeDir: p.base + "/run", StateHome: p.base + "/state", Home: p.base + "/home"}
	return wire.Dial(ctx, paths, wire.Hello{Version: words[1], Client: "cli", PID: os.Getpid(), Root: p.dir}, wire.Timeouts{})
}
