package search

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"syscall"
	"testing"

	"cachebro/store"
)

// diskCorpus is a Corpus for a directory, with a version log that the tests write.
type diskCorpus struct {
	root string
	mu   sync.Mutex
	log  []store.Version
	live map[store.Path]store.Version
	text map[store.Hash]store.Path
	old  map[store.Hash][]byte
	most int64 // larger files are not read; 0 means 32 MiB
}

func newDiskCorpus(tb testing.TB, root string) *diskCorpus {
	tb.Helper()
	c := &diskCorpus{}
	if err := c.read(root); err != nil {
		tb.Fatal(err)
	}
	return c
}

// read begins a log with the existing files.
func (c *diskCorpus) read(root string) error {
	c.root, c.live, c.text, c.old = root, map[store.Path]store.Version{}, map[store.Hash]store.Path{}, map[store.Hash][]byte{}
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == ".git" {
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		rel, _ := filepath.Rel(root, p)
		content, err := os.ReadFile(p)
		c.add(store.Path(rel), content, false)
		return err
	})
}

func (c *diskCorpus) add(p store.Path, content []byte, gone bool) store.Version {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := store.Version{Seq: uint64(len(c.log) + 1), Path: p, Op: store.OpWrite, Time: int64(len(c.log))}
	if gone {
		v.Op = store.OpUnlink
		delete(c.live, p)
	} else {
		v.Blob = sha256.Sum256(content)
		v.Stat.Size = int64(len(content))
		c.text[v.Blob] = p
		c.live[p] = v
	}
	c.log = append(c.log, v)
	return v
}

// write changes a file on disk and in the log.
func (c *diskCorpus) write(tb testing.TB, p, content string) {
	tb.Helper()
	full := filepath.Join(c.root, p)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		tb.Fatal(err)
	}
	v := c.add(store.Path(p), []byte(content), false)
	c.mu.Lock()
	c.old[v.Blob] = []byte(content)
	c.mu.Unlock()
}

func (c *diskCorpus) remove(tb testing.TB, p string) {
	tb.Helper()
	if err := os.Remove(filepath.Join(c.root, p)); err != nil {
		tb.Fatal(err)
	}
	c.add(store.Path(p), nil, true)
}

func (c *diskCorpus) Since(seq uint64, limit int) ([]store.Version, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if seq >= uint64(len(c.log)) {
		return nil, nil
	}
	vs := c.log[seq:]
	return append([]store.Version(nil), vs[:min(limit, len(vs))]...), nil
}

func (c *diskCorpus) Seq() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return uint64(len(c.log))
}

func (c *diskCorpus) Live(prefix store.Path, fn func(store.Version) error) error {
	c.mu.Lock()
	var vs []store.Version
	for p, v := range c.live {
		if strings.HasPrefix(string(p), string(prefix)) {
			vs = append(vs, v)
		}
	}
	c.mu.Unlock()
	sort.Slice(vs, func(i, j int) bool { return vs[i].Path < vs[j].Path })
	for _, v := range vs {
		if err := fn(v); err != nil {
			return err
		}
	}
	return nil
}

func (c *diskCorpus) LiveAfter(after store.Path, fn func(store.Version) error) error {
	return c.Live("", func(v store.Version) error {
		if v.Path <= after {
			return nil
		}
		return fn(v)
	})
}

func (c *diskCorpus) Current(p store.Path) (store.Version, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.log) - 1; i >= 0; i-- {
		if c.log[i].Path == p {
			return c.log[i], true, nil
		}
	}
	return store.Version{}, false, nil
}

func (c *diskCorpus) Changed(below store.Path, fn func(store.Version) bool) error {
	c.mu.Lock()
	log := c.log
	c.mu.Unlock()
	for i := len(log) - 1; i >= 0 && (!log[i].Path.Inside(below) || fn(log[i])); i-- {
	}
	return nil
}

func (c *diskCorpus) History(p store.Path, _ bool) (vs []store.Version, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.log {
		if v.Path == p {
			vs = append(vs, v)
		}
	}
	return vs, nil
}

func (c *diskCorpus) Content(h store.Hash) ([]byte, error) {
	c.mu.Lock()
	old, ok := c.old[h]
	p := c.text[h]
	c.mu.Unlock()
	if ok {
		return old, nil
	}
	content, err := os.ReadFile(filepath.Join(c.root, string(p)))
	if err == nil && sha256.Sum256(content) != h {
		err = fmt.Errorf("%s changed", p)
	}
	return content, err
}

func (c *diskCorpus) Read(p store.Path, buf []byte) ([]byte, error) {
	fd, err := syscall.Open(c.root+"/"+string(p), syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if most := cmp.Or(c.most, 32<<20); st.Size > most {
		return nil, ErrTooLarge
	}
	buf = slices.Grow(buf[:0], int(st.Size)+1)
	n, err := syscall.Pread(fd, buf[:st.Size+1], 0)
	return buf[:max(n, 0)], err
}

func (c *diskCorpus) Secret(p store.Path) bool {
	return strings.HasPrefix(filepath.Base(string(p)), ".env")
}
