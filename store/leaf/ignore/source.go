package ignore

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// maxRules is the size limit of an ignore file, in bytes.
const maxRules = 4 << 20

// source reads the project's files through the descriptor of its root.
type source struct {
	root *os.Root
	fd   *os.File // the root, to open files in it with one call; or nil
	abs  string   // the root's path, "" if unknown; only compared, never opened
}

// New returns a Matcher for the directory dir, which must stay open while the Matcher is used.
func New(dir *os.File, o Options) (*Matcher, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	root, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	abs, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	if err != nil || !filepath.IsAbs(abs) {
		abs = dir.Name()
		if !filepath.IsAbs(abs) {
			abs = ""
		}
	}
	m := &Matcher{source: &source{root: root, fd: openDir(root), abs: filepath.Clean(abs)}, opt: o}
	m.now.Store(m.build())
	return m, nil
}

// Close closes the Matcher's own descriptors.
func (m *Matcher) Close() error {
	if m.source.fd != nil {
		m.source.fd.Close()
	}
	return m.source.root.Close()
}

// file returns the content of a file of the project, or nil if it cannot be read.
func (s *source) file(name string) []byte {
	f, known := s.beneath(name, false)
	if !known {
		var err error
		f, err = s.root.Open(name)
		if err != nil {
			return nil
		}
	}
	if f == nil {
		return nil
	}
	defer f.Close()
	return readAll(f, maxRules)
}

// local converts an absolute path of a file in the project into a relative one. The file is then
// never opened through a mount that covers the project.
func (s *source) local(name string) string {
	if filepath.IsAbs(name) && s.abs != "" && s.abs != "." {
		if rel, err := filepath.Rel(s.abs, name); err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return name
}

// open opens a file that may be outside the project.
func (s *source) open(name string) (*os.File, error) {
	if filepath.IsAbs(name) {
		return os.Open(name)
	}
	return s.root.Open(name)
}

// read is like file, but the path may be outside the project.
func (s *source) read(name string) []byte {
	if filepath.IsAbs(name) {
		return readOutside(name)
	}
	return s.file(name)
}

func (s *source) stat(name string) (os.FileInfo, error) {
	if filepath.IsAbs(name) {
		return os.Stat(name)
	}
	return s.root.Stat(name)
}

func readOutside(name string) []byte {
	if name == "" {
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	return readAll(f, maxRules)
}

func readAll(f *os.File, limit int64) []byte {
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > limit {
		return nil
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil
	}
	return text
}

func (s *source) exists(name string) bool {
	if f, known := s.beneath(name, true); known {
		if f != nil {
			f.Close()
		}
		return f != nil
	}
	_, err := s.root.Lstat(name)
	return err == nil
}
