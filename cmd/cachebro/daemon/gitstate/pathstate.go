package gitstate

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/store/leaf/gitdir"
	"cachebro/store/leaf/spool"
	"cachebro/store/leaf/text"

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
	objects // git's directory of objects, from which some were removed
)

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
	return h.states[r.path()][r.index]
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
		t.inline, t.savedAs, t.inPlace = after.inline, after.savedAs, after.inPlace
		t.size = r.Begin
	case spool.WasLink:
		t.kind, t.target = link, string(r.Target)
	case spool.WasDir:
		t.kind = dir
		if after.kind == moved { // it got another mode, and was moved later
			t.kind, t.target, t.ino = moved, after.target, after.ino
		}
	case spool.WasMoved:
		t.kind, t.target, t.ino = moved, string(r.Target), r.Ino
	case spool.WasObjects:
		t.kind, t.why = objects, r.Why
	default:
		t.kind, t.why = lost, r.Why
	}
	return t
}

// after returns the state of a row's path after the row's change.
func (h *history) after(r *row) pathState {
	h.before(r)
	return h.states[r.path()][r.index+1]
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

// content calls fn with the content of a file in a state.
func (h *history) content(p string, t pathState, fn func(*io.SectionReader) error) error {
	var in *os.File
	var err error
	switch {
	case t.kind != file:
		return fs.ErrNotExist
	case t.inPlace:
		in, err = source.OpenBeneath(h.dir.File, p, false)
	case t.savedAs != "":
		in, err = os.Open(h.s.keptFile(t.savedAs))
	default:
		return fn(io.NewSectionReader(bytes.NewReader(t.inline), 0, t.size))
	}
	if err != nil {
		return err
	}
	defer in.Close()
	return fn(io.NewSectionReader(in, 0, t.size))
}

// read returns a content, or its first 64 MiB if it is longer.
func (h *history) read(p string, t pathState) []byte { return h.readFrom(p, t, 0) }

// tail returns the end of a content, which in a reflog has the newest lines.
func (h *history) tail(p string, t pathState) []byte { return h.readFrom(p, t, t.size-16<<10) }

func (h *history) readFrom(p string, t pathState, begin int64) (b []byte) {
	err := h.content(p, t, func(in *io.SectionReader) (err error) {
		b, err = io.ReadAll(io.NewSectionReader(in, max(begin, 0), 64<<20))
		return err
	})
	if err != nil {
		return nil
	}
	return b
}

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
		var sum string
		_ = h.content(p, t, func(in *io.SectionReader) (err error) {
			sum, err = text.HashReader(in)
			return err
		})
		return cmp.Or(sum, "?")
	}
	return "?"
}

// same reports whether two states have the same content, mode and owner.
func (h *history) same(p string, a, b pathState) bool {
	return h.sameContent(p, a, b) && sameRights(a, b)
}

// sameRights reports whether two states have the same mode and owner, as far as an undo can restore
// them. Only root can restore owners.
func sameRights(a, b pathState) bool {
	if a.kind != b.kind || a.kind != file && a.kind != dir {
		return true
	}
	return a.restorableMode() == b.restorableMode() && (os.Geteuid() != 0 || a.uid == b.uid && a.gid == b.gid)
}

// restorableMode returns the bits of the mode that an undo restores. On a directory, setgid and
// sticky give no program any rights.
func (t pathState) restorableMode() uint32 {
	if t.kind == dir || t.kind == moved {
		return t.mode & 0o3777
	}
	return t.mode & 0o777
}

// sameContent reports whether two states have contents that are equal for git. Two indexes that
// differ only in the times of their files are equal.
func (h *history) sameContent(p string, a, b pathState) bool {
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
