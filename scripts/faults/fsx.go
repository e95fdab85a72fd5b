//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const fsxMax = 256 << 10 // largest size of the file in bytes

// exerciser does random operations on one file and on a copy of its content in memory. It compares
// the bytes that it reads with the copy.
type exerciser struct {
	path   string
	f      *os.File
	model  []byte
	rng    *rand.Rand
	counts map[string]int
	recent []string // the last operations, for the report of a failure
}

func fsx(dir string, s settings) error {
	x := &exerciser{path: filepath.Join(dir, fmt.Sprintf("fsx-%d.bin", os.Getpid())), rng: rand.New(rand.NewSource(s.seed)), counts: map[string]int{}}
	var err error
	x.f, err = os.OpenFile(x.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { x.f.Close(); os.Remove(x.path) }()
	fmt.Printf("seed %d, %d operations on %s\n", s.seed, s.ops, x.path)
	for i := range s.ops {
		if err := x.step(); err != nil {
			return fmt.Errorf("operation %d: %w\nbefore: %v", i+1, err, x.recent)
		}
		if i%1000 == 999 {
			if err := x.whole(); err != nil {
				return fmt.Errorf("after operation %d: %w\nbefore: %v", i+1, err, x.recent)
			}
		}
	}
	fmt.Printf("%d operations without a difference: %v\n", s.ops, x.counts)
	return nil
}

func (x *exerciser) note(format string, args ...any) {
	x.recent = append(x.recent, fmt.Sprintf(format, args...))
	if len(x.recent) > 20 {
		x.recent = x.recent[1:]
	}
}

// span returns a random range. The range is within the file unless beyond is set.
func (x *exerciser) span(beyond bool) (off, n int) {
	limit := len(x.model)
	if beyond {
		limit = fsxMax
	}
	if limit == 0 {
		return 0, 0
	}
	off = x.rng.Intn(limit)
	n = 1 + x.rng.Intn(min(limit-off, 1+x.rng.Intn(64<<10)))
	return off, n
}

func (x *exerciser) bytes(n int) []byte {
	b := make([]byte, n)
	x.rng.Read(b)
	return b
}

// put changes the model in the same way as a write changes the file.
func (x *exerciser) put(off int, b []byte) {
	if end := off + len(b); end > len(x.model) {
		x.model = append(x.model, make([]byte, end-len(x.model))...)
	}
	copy(x.model[off:], b)
}

func (x *exerciser) step() error {
	ops := []struct {
		name   string
		weight int
		do     func() error
	}{
		{"read", 25, x.read}, {"write", 25, x.write}, {"mapread", 10, x.mapRead}, {"mapwrite", 10, x.mapWrite},
		{"truncate", 5, x.truncate}, {"punch", 4, x.punch}, {"zero", 3, x.zero}, {"allocate", 2, x.allocate},
		{"copyrange", 4, x.copyRange}, {"append", 3, x.append}, {"reopen", 5, x.reopen}, {"fsync", 1, x.fsync}, {"stat", 3, x.stat},
	}
	sum := 0
	for _, o := range ops {
		sum += o.weight
	}
	n := x.rng.Intn(sum)
	for _, o := range ops {
		if n -= o.weight; n < 0 {
			x.counts[o.name]++
			if err := o.do(); err != nil {
				return fmt.Errorf("%s: %w", o.name, err)
			}
			return nil
		}
	}
	return nil
}

func (x *exerciser) same(off int, got []byte) error {
	want := x.model[off : off+len(got)]
	if bytes.Equal(want, got) {
		return nil
	}
	for i := range got {
		if got[i] != want[i] {
			return fmt.Errorf("byte %d is %#x, want %#x (range %d+%d, file of %d)", off+i, got[i], want[i], off, len(got), len(x.model))
		}
	}
	return nil
}

func (x *exerciser) whole() error {
	b, err := os.ReadFile(x.path)
	if err != nil {
		return err
	}
	if len(b) != len(x.model) {
		return fmt.Errorf("the file has %d bytes, want %d", len(b), len(x.model))
	}
	return x.same(0, b)
}

func (x *exerciser) read() error {
	off, n := x.span(false)
	x.note("read %d+%d", off, n)
	b := make([]byte, n)
	if _, err := x.f.ReadAt(b, int64(off)); err != nil {
		return err
	}
	return x.same(off, b)
}

func (x *exerciser) write() error {
	off, n := x.span(true)
	x.note("write %d+%d", off, n)
	b := x.bytes(n)
	x.put(off, b)
	_, err := x.f.WriteAt(b, int64(off))
	return err
}

func (x *exerciser) append() error {
	n := 1 + x.rng.Intn(8<<10)
	if len(x.model)+n > fsxMax {
		return nil
	}
	x.note("append %d at %d", n, len(x.model))
	f, err := os.OpenFile(x.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	b := x.bytes(n)
	x.put(len(x.model), b)
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

// mapped maps the pages that contain a range, and passes the bytes of the range to do.
func (x *exerciser) mapped(off, n int, do func(b []byte)) error {
	from := off &^ 4095
	m, err := unix.Mmap(int(x.f.Fd()), int64(from), off+n-from, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mmap %d+%d: %w", off, n, err)
	}
	do(m[off-from:])
	if x.rng.Intn(4) == 0 {
		err = unix.Msync(m, unix.MS_SYNC)
	}
	return errors.Join(err, unix.Munmap(m))
}

func (x *exerciser) mapRead() (err error) {
	off, n := x.span(false)
	if n == 0 {
		return nil
	}
	x.note("mapread %d+%d", off, n)
	merr := x.mapped(off, n, func(b []byte) { err = x.same(off, b) })
	return errors.Join(merr, err)
}

func (x *exerciser) mapWrite() error {
	off, n := x.span(false)
	if n == 0 {
		return nil
	}
	x.note("mapwrite %d+%d", off, n)
	b := x.bytes(n)
	x.put(off, b)
	return x.mapped(off, n, func(m []byte) { copy(m, b) })
}

func (x *exerciser) truncate() error {
	n := x.rng.Intn(fsxMax)
	x.note("truncate %d to %d", len(x.model), n)
	if n < len(x.model) {
		x.model = x.model[:n]
	} else {
		x.model = append(x.model, make([]byte, n-len(x.model))...)
	}
	if x.rng.Intn(2) == 0 {
		return os.Truncate(x.path, int64(n))
	}
	return x.f.Truncate(int64(n))
}

func (x *exerciser) clear(mode uint32, name string) error {
	off, n := x.span(false)
	if n == 0 {
		return nil
	}
	x.note("%s %d+%d", name, off, n)
	err := unix.Fallocate(int(x.f.Fd()), mode|unix.FALLOC_FL_KEEP_SIZE, int64(off), int64(n))
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	clear(x.model[off : off+n])
	return err
}

func (x *exerciser) punch() error { return x.clear(unix.FALLOC_FL_PUNCH_HOLE, "punch") }
func (x *exerciser) zero() error  { return x.clear(unix.FALLOC_FL_ZERO_RANGE, "zero") }

func (x *exerciser) allocate() error {
	off, n := x.span(true)
	x.note("allocate %d+%d", off, n)
	err := unix.Fallocate(int(x.f.Fd()), 0, int64(off), int64(n))
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	if end := off + n; end > len(x.model) {
		x.model = append(x.model, make([]byte, end-len(x.model))...)
	}
	return err
}

func (x *exerciser) copyRange() error {
	off, n := x.span(false)
	if n == 0 {
		return nil
	}
	to := int64(x.rng.Intn(fsxMax))
	n = min(n, fsxMax-int(to))
	from := int64(off)
	if n == 0 || from < to+int64(n) && to < from+int64(n) {
		return nil // the kernel refuses overlapping ranges
	}
	x.note("copyrange %d+%d to %d", off, n, to)
	got, err := unix.CopyFileRange(int(x.f.Fd()), &from, int(x.f.Fd()), &to, n, 0)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	if err == nil {
		x.put(int(to)-got, bytes.Clone(x.model[off:off+got]))
	}
	return err
}

func (x *exerciser) reopen() error {
	x.note("reopen")
	if err := x.f.Close(); err != nil {
		return err
	}
	var err error
	x.f, err = os.OpenFile(x.path, os.O_RDWR, 0)
	return err
}

func (x *exerciser) fsync() error { x.note("fsync"); return x.f.Sync() }

func (x *exerciser) stat() error {
	x.note("stat")
	fi, err := os.Stat(x.path)
	if err == nil && fi.Size() != int64(len(x.model)) {
		err = fmt.Errorf("size %d, want %d", fi.Size(), len(x.model))
	}
	return err
}
