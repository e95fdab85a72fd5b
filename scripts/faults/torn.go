//go:build linux

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// closing is one file of the torn test. closed is the hash of its content when it was closed, and
// states has the hash of every content that it had at any time. The history of the file must not
// contain any other content.
type closing struct {
	closed string
	states map[string]bool
	took   string // what happened to the file while it was copied
}

// torn closes files. At the same moment, most of the files lose their names, and all are
// overwritten through another descriptor. No version may contain bytes that were written after the
// close. A content that could not be saved must be recorded as a gap.
func torn(s settings) (err error) {
	p, err := newPlace(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.remove(s.keep || err != nil)) }()
	if err := errors.Join(os.Mkdir(filepath.Join(p.dir, ".git"), 0o755), os.WriteFile(filepath.Join(p.dir, ".gitignore"), []byte("*.ign\n"), 0o644)); err != nil {
		return err
	}
	if _, err := p.cachebro("mount", p.dir); err != nil {
		return err
	}
	fmt.Printf("seed %d, %d closes by %d writers\n", s.seed, s.closes, s.writers)
	began := time.Now()
	all := make([]map[string]*closing, s.writers)
	errs := make([]error, s.writers)
	var next atomic.Int64
	var wg sync.WaitGroup
	for w := range all {
		all[w] = map[string]*closing{}
		wg.Go(func() {
			rng := rand.New(rand.NewSource(s.seed + int64(w)))
			for errs[w] == nil {
				i := next.Add(1)
				if i > int64(s.closes) {
					return
				}
				name := fmt.Sprintf("t%d", i)
				all[w][name], errs[w] = closeOnce(p.dir, name, rng)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	files := map[string]*closing{}
	for _, m := range all {
		for name, c := range m {
			files[name] = c
		}
	}
	took := time.Since(began)
	var r tornReport
	left, deadline := s.closes+1, time.Time{}
	for ; ; time.Sleep(time.Second) {
		list, err := p.log(int(time.Since(began)/time.Second) + 60)
		if err != nil {
			return err
		}
		r = checkTorn(files, list)
		if len(r.missing) < left { // the store makes progress, so wait longer
			left, deadline = len(r.missing), time.Now().Add(patience)
		}
		if left == 0 || time.Now().After(deadline) {
			break
		}
	}
	fmt.Printf("%d closes in %v: %d versions with content, %d with later bytes, %d gaps told, %d missing silently\n",
		len(files), took.Round(time.Second), r.contents, len(r.torn), r.told, len(r.missing))
	for _, line := range append(r.torn, r.missing...)[:min(20, len(r.torn)+len(r.missing))] {
		fmt.Println(" ", line)
	}
	if len(r.torn)+len(r.missing) > 0 {
		return errors.New("the history does not hold what was closed")
	}
	return nil
}

type tornReport struct {
	contents, told int
	torn, missing  []string
}

func checkTorn(files map[string]*closing, list []version) (r tornReport) {
	found, gap := map[string]bool{}, map[string]bool{}
	for _, v := range list {
		name, _, _ := strings.Cut(v.Path, " ") // for content that was written after the file had lost its name, v.Path continues after a blank
		name = strings.TrimSuffix(name, ".ign")
		c := files[name]
		switch {
		case c == nil:
		case v.Hash == "":
			gap[name] = gap[name] || strings.HasPrefix(v.NoContent, "gap")
		case !c.states[v.Hash]:
			r.torn = append(r.torn, fmt.Sprintf("%d %s %s: later bytes (%s)", v.Seq, v.Op, v.Path, c.took))
		default:
			r.contents++
			found[name] = found[name] || v.Hash == c.closed
		}
	}
	for name, c := range files {
		switch {
		case found[name]:
		case gap[name]:
			r.told++
		default:
			r.missing = append(r.missing, fmt.Sprintf("%s: what was closed is not in the history (%s)", name, c.took))
		}
	}
	return r
}

// closeOnce writes and closes one file, and starts the changes that race with the copying.
func closeOnce(dir, name string, rng *rand.Rand) (*closing, error) {
	size := 4<<10 + rng.Intn(60<<10)
	switch at := rng.Intn(100); {
	case at < 5:
		size = 1<<20 + rng.Intn(15<<20)
	case at < 40:
		size = 64<<10 + rng.Intn(960<<10)
	}
	content := bytes.Repeat(fmt.Appendf(nil, "%s %016x ", name, rng.Uint64()), size/20+1)[:size]
	c := &closing{closed: sum(content), states: map[string]bool{sum(nil): true}}
	c.states[c.closed] = true
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	g, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	defer g.Close()
	_, err = f.Write(content)
	err = errors.Join(err, f.Close())
	if err != nil {
		return nil, err
	}
	var take func() error
	switch rng.Intn(5) {
	case 0:
		c.took, take = "named", func() error { return nil }
	case 1:
		c.took, take = "unlinked", func() error { return os.Remove(path) }
	case 2:
		c.took, take = "into .git", func() error { return os.Rename(path, filepath.Join(dir, ".git", name)) }
	case 3:
		c.took, take = "ignored", func() error { return os.Rename(path, path+".ign") }
	default:
		other := []byte("another " + name)
		c.states[sum(other)] = true
		c.took, take = "replaced", func() error {
			return errors.Join(os.WriteFile(path+".ign", other, 0o644), os.Rename(path+".ign", path))
		}
	}
	// Each change is one request. So capture can see the content before or after a change, but
	// never a part of a change.
	var changes []func() error
	for range 1 + rng.Intn(3) {
		off := rng.Intn(len(content))
		n := min(len(content)-off, 1+rng.Intn(60<<10))
		switch rng.Intn(6) {
		case 0:
			clear(content[off : off+n])
			c.took += ", hole"
			changes = append(changes, func() error {
				return unix.Fallocate(int(g.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(off), int64(n))
			})
		case 1:
			if off == 0 {
				off = 1
			}
			content = content[:off]
			c.took += ", truncate"
			changes = append(changes, func() error { return g.Truncate(int64(off)) })
		case 2, 3: // as much as fits into one request
			off, n = 0, min(len(content), 1<<20)
			fallthrough
		default:
			later := bytes.Repeat([]byte{'L'}, n)
			copy(content[off:], later)
			c.took += ", write"
			changes = append(changes, func() error { _, err := g.WriteAt(later, int64(off)); return err })
		}
		c.states[sum(content)] = true
	}
	taken := make(chan error, 1)
	if rng.Intn(2) == 0 { // in half of the cases, take the name away while the changes are made
		go func() { taken <- take() }()
	} else {
		taken <- take()
	}
	for _, change := range changes {
		err = errors.Join(err, change())
	}
	return c, errors.Join(err, <-taken)
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}
