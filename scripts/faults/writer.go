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
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// closed describes content that a writer wrote to a file and closed.
type closed struct {
	path, hash string
	at         time.Time
	synced     bool // fsync had returned before the close
}

// doubt describes the contents that a file may have after a kill has interrupted an operation. The
// file may have one of the contents in whole, where nil means that it does not exist. If partly is
// set, it may also consist of start and a beginning of tail. If mixed is set, each byte of the file
// may come from either of the two texts in mixed.
type doubt struct {
	whole       [][]byte
	start, tail []byte
	partly      bool
	mixed       [2][]byte // two texts of the same length
}

// writer changes files in its own directory until it is stopped or an operation fails.
type writer struct {
	dir    string
	rel    string
	rng    *rand.Rand
	n      int
	files  map[string][]byte // the content that each file must have
	doubts map[string]doubt  // the contents that the files of the current operation may have
	done   []closed
	err    error
	stop   *atomic.Bool
}

func newWriter(root string, i int, seed int64, stop *atomic.Bool) *writer {
	rel := fmt.Sprintf("w%d", i)
	return &writer{dir: filepath.Join(root, rel), rel: rel, rng: rand.New(rand.NewSource(seed + int64(i))), files: map[string][]byte{}, stop: stop}
}

func (w *writer) run() {
	w.err = os.MkdirAll(w.dir, 0o755)
	if w.err != nil {
		return
	}
	for w.err == nil && !w.stop.Load() {
		w.doubts = map[string]doubt{}
		w.err = w.step()
		if w.err == nil {
			w.doubts = nil
		}
		time.Sleep(time.Duration(w.rng.Intn(4)) * time.Millisecond)
	}
}

// fresh returns content that exists nowhere else.
func (w *writer) fresh() []byte {
	w.n++
	size := 20 + w.rng.Intn(8<<10)
	switch w.rng.Intn(100) {
	case 0:
		size = 3 << 20
	case 1, 2, 3, 4:
		size = 100<<10 + w.rng.Intn(300<<10)
	}
	b := make([]byte, 0, size+64)
	b = fmt.Appendf(b, "%s %d %d\n", w.rel, w.n, w.rng.Int63())
	if w.n%8 != 0 {
		b = append(b, 0) // the content is not text, so that the index skips the file and rounds take less time
	}
	for len(b) < size {
		b = fmt.Appendf(b, "line %x of %s\n", w.rng.Uint32(), w.rel)
	}
	return b
}

func (w *writer) path(name string) string { return filepath.Join(w.dir, name) }

// recordClosed adds the content of a closed file to done. It does nothing if the writer was stopped
// before.
func (w *writer) recordClosed(name string, b []byte, synced bool) {
	now := time.Now()
	if w.stop.Load() {
		return
	}
	sum := sha256.Sum256(b)
	w.done = append(w.done, closed{w.rel + "/" + name, hex.EncodeToString(sum[:]), now, synced})
}

func (w *writer) step() error {
	name := fmt.Sprintf("f%d.txt", w.rng.Intn(6))
	old := w.files[name]
	synced := w.rng.Intn(5) == 0
	kind := w.rng.Intn(12)
	if len(old) == 0 {
		kind = w.rng.Intn(5)
	}
	switch {
	case kind < 3:
		return w.overwrite(name, old, synced)
	case kind < 6:
		return w.save(name, old, synced)
	case kind < 8:
		return w.append(name, old, synced)
	case kind < 10:
		return w.mapped(name, old, synced)
	case kind == 10:
		w.doubts[name] = doubt{whole: [][]byte{old, nil}}
		if err := os.Remove(w.path(name)); err != nil {
			return err
		}
		delete(w.files, name)
		return nil
	}
	to := fmt.Sprintf("f%d.txt", w.rng.Intn(6))
	if to == name {
		return nil
	}
	w.doubts[name] = doubt{whole: [][]byte{old, nil}}
	w.doubts[to] = doubt{whole: [][]byte{old, w.files[to]}}
	if err := os.Rename(w.path(name), w.path(to)); err != nil {
		return err
	}
	delete(w.files, name)
	w.files[to] = old
	return nil
}

func (w *writer) overwrite(name string, old []byte, synced bool) error {
	b := w.fresh()
	w.doubts[name] = doubt{whole: [][]byte{old}, tail: b, partly: true}
	if err := w.put(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, b, synced); err != nil {
		return err
	}
	w.files[name] = b
	w.recordClosed(name, b, synced)
	return nil
}

func (w *writer) append(name string, old []byte, synced bool) error {
	b := w.fresh()
	w.doubts[name] = doubt{start: old, tail: b, partly: true}
	if err := w.put(name, os.O_WRONLY|os.O_APPEND, b, synced); err != nil {
		return err
	}
	all := append(bytes.Clone(old), b...)
	w.files[name] = all
	w.recordClosed(name, all, synced)
	return nil
}

// mapped changes part of the file through a memory mapping.
func (w *writer) mapped(name string, old []byte, synced bool) (err error) {
	b := bytes.Clone(old)
	at := w.rng.Intn(len(b))
	copy(b[at:], w.fresh())
	w.doubts[name] = doubt{mixed: [2][]byte{old, b}}
	f, err := os.OpenFile(w.path(name), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err == nil {
			w.files[name] = b
			w.recordClosed(name, b, synced)
		}
	}()
	m, err := unix.Mmap(int(f.Fd()), 0, len(b), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Munmap(m)) }()
	// If a page cannot be read, the process gets SIGBUS. Turn that into a panic.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("mapping: %v", r)
		}
	}()
	copy(m[at:], b[at:])
	if synced {
		err = unix.Msync(m, unix.MS_SYNC)
	}
	return err
}

// save replaces a file atomically: at every moment, the file has the old or the new content.
func (w *writer) save(name string, old []byte, synced bool) error {
	b, tmp := w.fresh(), name+".tmp"
	w.doubts[tmp] = doubt{whole: [][]byte{nil}, tail: b, partly: true}
	w.doubts[name] = doubt{whole: [][]byte{old, b}}
	if err := w.put(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, b, synced); err != nil {
		return err
	}
	if err := os.Rename(w.path(tmp), w.path(name)); err != nil {
		return err
	}
	w.files[name] = b
	w.recordClosed(name, b, synced)
	return nil
}

func (w *writer) put(name string, flags int, b []byte, synced bool) error {
	f, err := os.OpenFile(w.path(name), flags, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil && synced {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// allows reports whether the interrupted operation may have left a file with this content. If now
// is nil, the file does not exist.
func (d doubt) allows(now []byte) bool {
	for _, b := range d.whole {
		if (b == nil) == (now == nil) && bytes.Equal(b, now) {
			return true
		}
	}
	if old, b := d.mixed[0], d.mixed[1]; len(old) > 0 && len(old) == len(now) {
		for i := range now {
			if now[i] != old[i] && now[i] != b[i] {
				return false
			}
		}
		return true
	}
	if !d.partly || now == nil || !bytes.HasPrefix(now, d.start) {
		return false
	}
	return bytes.HasPrefix(d.tail, now[len(d.start):])
}

// damaged compares the files with the contents that they must have, and returns the differences.
func (w *writer) damaged() (bad []string) {
	names := map[string]bool{}
	for i := range 6 {
		names[fmt.Sprintf("f%d.txt", i)] = true
		names[fmt.Sprintf("f%d.txt.tmp", i)] = true
	}
	for name := range names {
		now, err := os.ReadFile(w.path(name))
		if err != nil {
			if !os.IsNotExist(err) {
				bad = append(bad, fmt.Sprintf("%s/%s: %v", w.rel, name, err))
				continue
			}
			now = nil
		} else if now == nil {
			now = []byte{}
		}
		want, ok := w.files[name]
		d, doubtful := w.doubts[name]
		switch {
		case doubtful && d.allows(now):
			if now == nil {
				delete(w.files, name)
			} else if strings.HasSuffix(name, ".tmp") {
				if err := os.Remove(w.path(name)); err != nil {
					bad = append(bad, err.Error())
				}
			} else {
				w.files[name] = now // the next round starts with the content that the kill left
			}
		case doubtful:
			bad = append(bad, fmt.Sprintf("%s/%s: neither the old nor the new content (%d bytes)", w.rel, name, len(now)))
		case ok != (now != nil):
			bad = append(bad, fmt.Sprintf("%s/%s: exists: %v, want %v", w.rel, name, now != nil, ok))
		case !bytes.Equal(want, now):
			bad = append(bad, fmt.Sprintf("%s/%s: %d bytes that differ from the %d written", w.rel, name, len(now), len(want)))
		}
	}
	w.doubts = nil
	return bad
}
