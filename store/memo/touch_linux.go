//go:build linux && (amd64 || arm64)

package memo

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cachebro/store/leaf/notifier"

	"golang.org/x/sys/unix"
)

// manner is the way in which a call accesses or changes a path.
type manner uint8

const (
	asThere  manner = iota // asks whether the path exists
	asStat                 // asks for its attributes
	asRead                 // reads its content
	asList                 // lists its names
	asChange               // changes its content or attributes, or removes it
	asMake                 // creates it, or overwrites it completely
)

// maxLinks is the largest number of symlinks on a path.
const maxLinks = 40

// touch records an access to a path and to each symlink on the way. It resolves the path as the
// kernel is about to, and returns the result.
func (r *recorder) touch(n *notifier.Notice, path string, follow bool, m manner) string {
	follow = follow || strings.HasSuffix(path, "/")
	at, rest, links := "/", strings.Split(path, "/"), 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		last := !slices.ContainsFunc(rest, func(s string) bool { return s != "" && s != "." })
		next := strings.TrimSuffix(at, "/") + "/" + part
		if p, ok := r.machine(n, next+"/"+strings.Join(rest, "/"), m); ok {
			return p
		}
		if !last && r.isDir(next) {
			at = next
			continue
		}
		how := asThere
		if last {
			how = m
		}
		o := r.note(n, next, how)
		switch {
		case o.Kind == link && (!last || follow):
			links++
			if links > maxLinks {
				return next // ELOOP
			}
			to, err := os.Readlink(next)
			if err != nil {
				return next
			}
			if strings.HasPrefix(to, "/") {
				at = "/"
			}
			rest = append(strings.Split(to, "/"), rest...)
			continue
		case last:
			return next
		case o.Kind == dir:
			r.mu.Lock()
			r.real[next] = true
			r.mu.Unlock()
		default:
			return next // ENOENT or ENOTDIR
		}
		at = next
	}
	if m != asThere || at == "/" { // "/", "." or ".." at the end
		r.note(n, at, m)
	}
	return at
}

// isDir reports whether a path is known to be a directory and no symlink.
func (r *recorder) isDir(path string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.real[path]
}

// machine handles accesses to files that the kernel or a device generates. It returns false for
// other files.
func (r *recorder) machine(n *notifier.Notice, path string, m manner) (string, bool) {
	clean := filepath.Clean(path)
	if r.places.classify(clean) != machine {
		return "", false
	}
	switch {
	case clean == "/dev/stdin" || clean == "/dev/fd/0" || clean == "/proc/self/fd/0":
		if m == asStat || m == asRead && r.hasIn {
			r.refuse("read its standard input")
		}
	case clean == "/proc" && m == asList:
		r.refuse("looked at the processes of the machine")
	case plainDevice(clean, m, r.runsOf(r.process(n.PID)).kind):
	case r.starts(n, clean):
	case m <= asList && m != asStat && stableFile(clean):
		r.noteKernel(clean)
	default:
		r.refuse("looked at %s, which the kernel or a device generates", clean)
	}
	return clean, true
}

// starts reports whether the call is the one access to a file that a program makes when it starts
// (see program.atStart).
func (r *recorder) starts(n *notifier.Notice, path string) bool {
	pid := r.process(n.PID)
	r.mu.Lock()
	defer r.mu.Unlock()
	key := fmt.Sprintf("%d %s", pid, path)
	before, ok := r.started[key]
	if ok && before != n.ID || !r.runs[pid].atStart(path) {
		return false
	}
	r.started[key] = n.ID // one call may both read and write
	return true
}

// ownLocked reports whether the process tree created a parent directory of the path. The caller
// holds r.mu.
func (r *recorder) ownLocked(path string) bool {
	for len(r.owned) > 0 && path != "/" {
		path = filepath.Dir(path)
		if r.owned[path] {
			return true
		}
	}
	return false
}

// note records an access to one path without symlinks in its ancestors. It returns the present
// stat.
func (r *recorder) note(n *notifier.Notice, path string, m manner) stat {
	if r.places.classify(path) == machine {
		return look(path)
	}
	pid := r.process(n.PID)
	runs := r.runsOf(pid)
	if by, ok := r.places.cacheOf(path); ok && runs.owns(by) {
		return look(path)
	}
	if m <= asStat && r.places.leadsToCache(path, runs.owns) { // the program creates it together with the cache
		if now := look(path); now.Kind == dir || now.Kind == absent {
			return now
		}
	}
	r.mu.Lock()
	if r.ownLocked(path) {
		r.mu.Unlock()
		return look(path)
	}
	o := r.seen[path]
	r.mu.Unlock()
	now := stat{}
	if o == nil {
		o = &observation{first: look(path)}
		now = o.first
		if now.Kind == link {
			o.target, _ = os.Readlink(path)
		}
	} else {
		now = o.first
		if o.changed || now.Kind == link {
			now = look(path)
		}
	}
	names := ""
	ordered, many := m == asList && runs.kind >= datedKind && !runs.owns(goTools) && !r.timeless, false // the Go tools sort
	if m == asList && (o.names == "" || ordered && !o.ordered) {
		names = hashNames(path, ordered)
		many = ordered && names == ""
		if many {
			ordered, names = false, hashNames(path, false)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[path] == nil {
		if len(r.seen) >= maxPaths {
			r.refuseLocked(fmt.Sprintf("looked at more than %d paths", maxPaths))
			return now
		}
		r.seen[path] = o
	}
	if names != "" {
		o.names, o.ordered = names, o.ordered || ordered
	}
	if m <= asList && !o.own && !o.changed || m == asChange {
		o.looked = true
		r.shows(o, path, m, runs)
		o.strict = o.strict || many
	}
	switch m {
	case asStat: // counts as read, because a program may skip reading a file whose times are unchanged
		o.read = o.read || !o.changed && now.Kind == file && (runs.kind >= datedKind || r.timeless)
	case asRead:
		o.read = o.read || !o.changed && now.Kind != dir // opening a directory reveals nothing about it
	case asList:
		o.read = o.read || !o.changed
	case asChange:
		o.changed = true
	case asMake:
		o.changed = true
		if o.first.Kind == absent {
			o.own = true
			r.owned[path] = true
		}
	}
	return now
}

// shows records what a program may show besides content, names and mode. Reading a file reveals
// nothing else, and a listing contains inode numbers. The caller holds r.mu.
func (r *recorder) shows(o *observation, path string, m manner, runs program) {
	asked := m == asStat || m == asList || m == asChange
	isFile := o.first.Kind == file
	strict := asked && runs.kind <= shellKind && !r.timeless
	dated := runs.kind == datedKind && isFile && m != asThere && !r.timeless
	if (strict || dated) && o.by == "" {
		o.by = runs.name
	}
	o.strict, o.dated = o.strict || strict, o.dated || dated
	// A shell's test -N compares the access time.
	test := m == asStat && isFile && under(path, r.places.Root)
	o.access = o.access || strict && (test || runs.kind == unknownKind)
}

// open records the effect of an open(2) with these flags.
func (r *recorder) open(n *notifier.Notice, path string, flags uint64) {
	write := flags&unix.O_ACCMODE != unix.O_RDONLY
	follow := flags&unix.O_NOFOLLOW == 0
	switch {
	case flags&unix.O_TMPFILE == unix.O_TMPFILE:
		r.touch(n, path, follow, asThere)
	case flags&unix.O_PATH != 0:
		r.touch(n, path, follow, asThere)
	case flags&(unix.O_CREAT|unix.O_EXCL) == unix.O_CREAT|unix.O_EXCL:
		if real := r.touch(n, path, false, asThere); look(real).Kind == absent {
			r.touch(n, path, false, asMake)
		}
	case flags&unix.O_TRUNC != 0 && flags&unix.O_CREAT != 0:
		r.touch(n, path, follow, asMake)
	case flags&unix.O_TRUNC != 0:
		r.touch(n, path, follow, asChange)
	case flags&unix.O_CREAT != 0:
		if real := r.touch(n, path, follow, asThere); look(real).Kind == absent {
			r.touch(n, path, follow, asMake)
		} else if write {
			if flags&unix.O_ACCMODE == unix.O_RDWR {
				r.touch(n, path, follow, asRead)
			}
			r.touch(n, path, follow, asChange)
		} else {
			r.touch(n, path, follow, asRead)
		}
	case write:
		if flags&unix.O_ACCMODE == unix.O_RDWR {
			r.touch(n, path, follow, asRead)
		}
		r.touch(n, path, follow, asChange)
	default:
		r.touch(n, path, follow, asRead)
	}
}

// connect handles connections. A command that talks to another process depends on the answers of
// that process. Connections within the process tree do not matter.
func (r *recorder) connect(pid uint32, addr, size uint64) {
	buf := make([]byte, min(max(size, 2), 128))
	if addr == 0 || !notifier.Peek(pid, addr, buf) {
		return
	}
	switch family := binary.NativeEndian.Uint16(buf); {
	case family == unix.AF_UNIX && len(buf) > 2 && buf[2] == 0:
		r.refuse("talked to another process through a socket")
	case family == unix.AF_UNIX:
		name, _, _ := strings.Cut(string(buf[2:]), "\x00")
		if !strings.HasPrefix(name, "/") {
			at, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
			name = at + "/" + name
		}
		name = filepath.Clean(name)
		r.mu.Lock()
		own := r.owned[name] || r.ownLocked(name)
		r.mu.Unlock()
		toLog := name == "/dev/log" || strings.HasPrefix(name, "/run/systemd/journal/")
		if own || toLog || strings.HasSuffix(name, "/nscd/socket") || look(name).Kind == absent {
			return
		}
		r.refuse("talked to another process through %s", name)
	}
}

// interpreter returns the interpreter of a program from its #! line or its ELF header, or "".
func interpreter(path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := io.ReadFull(f, head)
	head = head[:n]
	if line, ok := strings.CutPrefix(string(head), "#!"); ok {
		first, _, _ := strings.Cut(line, "\n")
		if fields := strings.Fields(first); len(fields) > 0 {
			return fields[0]
		}
		return ""
	}
	if !strings.HasPrefix(string(head), elf.ELFMAG) {
		return ""
	}
	e, err := elf.NewFile(f)
	if err != nil {
		return ""
	}
	for _, p := range e.Progs {
		if p.Type == elf.PT_INTERP && p.Filesz < 4096 {
			raw := make([]byte, p.Filesz)
			if _, err := p.ReadAt(raw, 0); err == nil {
				return strings.TrimRight(string(raw), "\x00")
			}
		}
	}
	return ""
}
