package e2e

import (
	"math/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// burst makes n random changes below a root, from a seed. Several processes do this with the same
// few names, so that each process mostly finds files that another one left. Some operations fail,
// which is part of the test.
type burst struct {
	r    *rand.Rand
	root string
	held map[string]*os.File // files that stay open between bursts
}

var burstDirs = []string{"", "a", "b", "c", "a/a", "a/b", "b/a", "build", "a/a/c", "a/b/c", "b/a/c", "c/x"}

func (s *burst) dir() string { return filepath.Join(s.root, burstDirs[s.r.Intn(len(burstDirs))]) }

func (s *burst) file() string {
	names := []string{"f0", "f1", "f2", "f3", "main.c", "x.o", "link", "sp ace"}
	return filepath.Join(s.dir(), names[s.r.Intn(len(names))])
}

func (s *burst) text() string {
	return strings.Repeat(strconv.Itoa(s.r.Intn(10)), 1+s.r.Intn(9)) + "\n"
}

func (s *burst) run(n int) {
	for range n {
		s.one()
	}
}

func (s *burst) one() {
	switch s.r.Intn(30) {
	case 0, 1, 2, 3:
		_ = os.WriteFile(s.file(), []byte(s.text()), 0o644)
	case 4, 5:
		s.open(os.O_WRONLY|os.O_APPEND|os.O_CREATE, func(f *os.File) { _, _ = f.WriteString(s.text()) })
	case 6, 7:
		to := s.file()
		if tmp := to + ".tmp~"; os.WriteFile(tmp, []byte(s.text()), 0o644) == nil {
			_ = os.Rename(tmp, to)
		}
	case 8:
		_ = os.Truncate(s.file(), int64(s.r.Intn(8)))
	case 9, 10:
		_ = os.Chmod(s.file(), []os.FileMode{0o644, 0o755, 0o600}[s.r.Intn(3)])
	case 11, 12:
		_ = os.Remove(s.file())
	case 13, 14, 15:
		_ = os.MkdirAll(s.dir(), 0o755)
	case 16:
		_ = syscall.Rmdir(s.dir())
	case 17:
		if d := s.dir(); d != s.root {
			_ = os.RemoveAll(d)
		}
	case 18, 19:
		_ = os.Rename(s.file(), s.file())
	case 20:
		if from, to := s.dir(), s.dir(); from != s.root && to != s.root {
			_ = os.Rename(from, to)
		}
	case 21:
		_ = exchange(s.file(), s.file())
	case 22:
		_ = os.Symlink("f0", s.file())
	case 23:
		_ = os.Link(s.file(), s.file())
	case 24:
		s.hold()
	case 25:
		for _, f := range s.held {
			_, _ = f.WriteAt([]byte(s.text()), int64(s.r.Intn(4)))
			break
		}
	case 26:
		s.open(os.O_RDWR, s.mapped)
	case 27:
		nameless(s.dir(), s.file(), s.text())
	case 28:
		_ = os.Chtimes(s.file(), time.Now(), time.Unix(int64(1e9+s.r.Intn(1e6)), 0))
	case 29:
		if s.r.Intn(4) == 0 {
			_ = os.WriteFile(filepath.Join(s.dir(), ".gitignore"), []byte([]string{"*.o\nbuild/\n", "*.o\n", "f3\n", "!x.o\n"}[s.r.Intn(4)]), 0o644)
		} else {
			s.open(os.O_WRONLY|os.O_TRUNC, func(*os.File) {})
		}
	}
}

func (s *burst) open(flags int, do func(*os.File)) {
	if f, err := os.OpenFile(s.file(), flags, 0o644); err == nil {
		do(f)
		f.Close()
	}
}

// hold keeps a file open for writing, even when it is renamed or removed.
func (s *burst) hold() {
	p := s.file()
	if f := s.held[p]; f != nil {
		f.Close()
		delete(s.held, p)
	} else if f, err := os.OpenFile(p, os.O_RDWR|syscall.O_NOFOLLOW, 0); err == nil {
		s.held[p] = f
	}
}

// mapped writes through a shared mapping.
func (s *burst) mapped(f *os.File) {
	fi, err := f.Stat()
	if err != nil || fi.Size() == 0 || !fi.Mode().IsRegular() {
		return
	}
	m, err := unix.Mmap(int(f.Fd()), 0, int(fi.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return
	}
	defer unix.Munmap(m)
	if now, err := f.Stat(); err == nil && now.Size() >= fi.Size() {
		m[0] = byte('0' + s.r.Intn(10))
		_ = unix.Msync(m, unix.MS_SYNC)
	}
}
