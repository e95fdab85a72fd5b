package gitstate

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/store/leaf/gitdir"
	"cachebro/store/leaf/spool"

	"golang.org/x/sys/unix"
)

type kind uint8

const (
	absent kind = iota
	file
	dir
	link
	lost    // its content is not known
	moved   // a directory that was moved elsewhere
	objects // the directory of objects, some of which were removed
)

// pathState is the state of a path at a moment.
type pathState struct {
	kind     kind
	mode     uint32
	uid, gid uint32
	target   string
	why      string
	ino      uint64
	ctime    int64
	size     int64 // file: only the first size bytes of its content count

	savedAs string // file: the name of the saved file; empty if inline or inPlace is set
	inline  []byte // file: the content itself
	inPlace bool   // file: the content is still in the file at the path
}

// before returns the state of a row's path before the row's change.
func (h *history) before(r *row) pathState {
	chain := h.chains[r.path()]
	if h.states[r.path()] == nil { // compute the newest first, because an older content may be the beginning of a newer one
		all := make([]pathState, len(chain)+1)
		all[len(chain)] = h.now(r.path())
		for i := len(chain) - 1; i >= 0; i-- {
			all[i] = h.stateBefore(chain[i], all[i+1])
		}
		h.states[r.path()] = all
	}
	return h.states[r.path()][h.index[r]]
}

// stateBefore returns the state of a row's path before the row's change. after is the state after it.
func (h *history) stateBefore(r *row, after pathState) pathState {
	t := pathState{kind: file, mode: r.Mode & 0o7777, uid: r.UID, gid: r.GID, size: r.Size}
	switch r.Was {
	case spool.WasAbsent:
		t.kind = absent
	case spool.WasInline:
		t.inline, t.size = r.Before, int64(len(r.Before))
	case spool.WasKept:
		t.savedAs = string(r.Before)
		if _, err := os.Lstat(h.s.keptFile(t.savedAs)); err != nil {
			t.kind, t.why = lost, "the saved copy has expired"
		}
	case spool.WasBegin:
		if after.kind != file || after.size < r.Begin {
			return pathState{kind: lost, why: "the file was replaced or cut, so its earlier content is gone"}
		}
		t.inline, t.savedAs, t.inPlace, t.size = after.inline, after.savedAs, after.inPlace, r.Begin
	case spool.WasLink:
		t.kind, t.target = link, string(r.Target)
	case spool.WasDir:
		t.kind = dir
	case spool.WasMoved:
		t.kind, t.target, t.ino = moved, string(r.Target), r.Ino
	case spool.WasObjects:
		t.kind = objects
	default:
		t.kind, t.why = lost, r.Why
	}
	return t
}

// after returns the state of a row's path after the row's change.
func (h *history) after(r *row) pathState {
	h.before(r)
	return h.states[r.path()][h.index[r]+1]
}

func (h *history) now(p string) pathState {
	st, target, err := source.LstatBeneath(h.dir.File, p)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			return pathState{}
		}
		return pathState{kind: lost, why: err.Error()}
	}
	t := pathState{kind: file, mode: st.Mode & 0o7777, uid: st.UID, gid: st.GID, ino: st.Ino, ctime: st.Ctime, size: st.Size, inPlace: true}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		t.kind = dir
	case unix.S_IFLNK:
		t.kind, t.target = link, target
	case unix.S_IFREG:
	default:
		t.kind, t.why = lost, "it is neither a file nor a directory"
	}
	return t
}

func (s *Service) keptFile(name string) string {
	if name == "" || name != filepath.Base(name) {
		return ""
	}
	return filepath.Join(s.dir, gitdir.KeptFile(name))
}

func (h *history) open(p string, t pathState) (io.ReadCloser, error) {
	var in io.ReadCloser
	var err error
	switch {
	case t.kind != file:
		return nil, fs.ErrNotExist
	case t.inPlace:
		in, err = source.OpenBeneath(h.dir.File, p, false)
	case t.savedAs != "":
		in, err = os.Open(h.s.keptFile(t.savedAs))
	default:
		in = io.NopCloser(bytes.NewReader(t.inline))
	}
	if err != nil {
		return nil, err
	}
	return &part{in, t.size}, nil
}

// read returns a content, or its first 64 MiB if it is longer.
func (h *history) read(p string, t pathState) []byte {
	in, err := h.open(p, t)
	if err != nil {
		return nil
	}
	defer in.Close()
	b, err := io.ReadAll(io.LimitReader(in, 64<<20))
	if err != nil {
		return nil
	}
	return b
}

// tail returns the end of a content, which in a reflog has the newest lines.
func (h *history) tail(p string, t pathState) []byte {
	in, err := h.open(p, t)
	if err != nil {
		return nil
	}
	defer in.Close()
	const most = 16 << 10
	if f, ok := in.(*part); ok && t.size > most {
		if at, ok := f.from.(io.Seeker); ok {
			if _, err := at.Seek(t.size-most, io.SeekStart); err == nil {
				f.left = most
			}
		}
	}
	b, _ := io.ReadAll(in)
	return b
}

// part reads only the beginning of a file.
type part struct {
	from io.ReadCloser
	left int64
}

func (p *part) Read(b []byte) (int, error) {
	n, err := io.LimitReader(p.from, p.left).Read(b)
	p.left -= int64(n)
	return n, err
}

func (p *part) Close() error { return p.from.Close() }

// sum returns a text that identifies a state. The client that carries out a plan uses the text to
// recognise the state.
func (h *history) sum(p string, t pathState) string {
	switch t.kind {
	case absent:
		return "absent"
	case dir, objects:
		return "dir"
	case link:
		return "link " + t.target
	case file:
		in, err := h.open(p, t)
		if err != nil {
			return "?"
		}
		defer in.Close()
		s := sha256.New()
		if _, err := io.Copy(s, in); err != nil {
			return "?"
		}
		return hex.EncodeToString(s.Sum(nil))
	}
	return "?"
}

// same reports whether two states are equal for git. Two indexes that differ only in the times of
// their files are equal.
func (h *history) same(p string, a, b pathState) bool {
	if a.kind == moved && b.kind == dir {
		return a.ino == b.ino
	}
	if a.kind != b.kind || a.kind == lost {
		return false
	}
	if a.kind == file && path.Base(p) == "index" {
		x, ok := h.staged(p, a)
		y, ok2 := h.staged(p, b)
		if ok && ok2 {
			return x == y
		}
	}
	return h.sum(p, a) == h.sum(p, b)
}

// staged returns the digest of an index. The digest of a saved index, which never changes, is
// computed once.
func (h *history) staged(p string, t pathState) (sum [32]byte, ok bool) {
	if t.savedAs == "" {
		return staged(h.read(p, t))
	}
	h.s.mu.Lock()
	sum, ok = h.s.digests[t.savedAs]
	h.s.mu.Unlock()
	if ok {
		return sum, true
	}
	sum, ok = staged(h.read(p, t))
	if ok {
		h.s.mu.Lock()
		if len(h.s.digests) >= maxOpen {
			clear(h.s.digests)
		}
		h.s.digests[t.savedAs] = sum
		h.s.mu.Unlock()
	}
	return sum, ok
}
