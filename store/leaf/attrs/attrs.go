// Package attrs knows which extended attributes of a file belong to its history: the
// users' own, access control lists and capabilities. mountd and the store daemon read
// them into a Set, the version log stores the Set as it is, and package undo/apply
// restores it. The package is a leaf: it knows no project, and writes only to the file
// that it is given.
package attrs

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Set is the attributes of one file: "" where they are unknown, None where there are
// none. Otherwise a first byte of 1, then the name and value of each, both behind
// their length as a uvarint, sorted by name. Sets of equal attributes are equal.
type Set string

// None is the set of most files.
const None Set = "\x01"

// Capability is what makes a program of a file: it comes back with its owner only.
const Capability = "security.capability"

// most bounds a set: larger ones count as unknown.
const most = 256 << 10

// Kept reports whether an attribute is a part of a set. The system's own labels and
// checksums are not.
func Kept(name string) bool {
	return strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "system.posix_acl_") || name == Capability
}

// Of makes a set.
func Of(m map[string]string) Set {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	b := []byte(None)
	for _, n := range names {
		for _, s := range [...]string{n, m[n]} {
			b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
		}
	}
	return Set(b)
}

// All is what a set holds; false if it is unknown, or damaged.
func (s Set) All() (map[string]string, bool) {
	if s == "" || s[0] != None[0] {
		return nil, false
	}
	m := map[string]string{}
	b := []byte(s[1:])
	next := func() (string, bool) {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return "", false
		}
		v := string(b[size : size+int(n)])
		b = b[size+int(n):]
		return v, true
	}
	for len(b) > 0 {
		name, ok := next()
		value, ok2 := next()
		if !ok || !ok2 || !Kept(name) {
			return nil, false
		}
		m[name] = value
	}
	return m, true
}

// Same is true where one of two is unknown.
func (s Set) Same(o Set) bool { return s == "" || o == "" || s == o }

// Without leaves the attributes out for which drop is true.
func (s Set) Without(drop func(name string) bool) Set {
	if s == None {
		return s
	}
	m, ok := s.All()
	if !ok {
		return ""
	}
	for n := range m {
		if drop(n) {
			delete(m, n)
		}
	}
	return Of(m)
}

// Has reports whether an attribute is in a set.
func (s Set) Has(name string) bool {
	if len(s) <= len(None) {
		return false
	}
	m, _ := s.All()
	_, ok := m[name]
	return ok
}

// Read reads the attributes of what a path leads to; "" if that is not allowed.
func Read(path string) Set {
	return read(func(b []byte) (int, error) { return unix.Listxattr(path, b) },
		func(name string, b []byte) (int, error) { return unix.Getxattr(path, name, b) })
}

// ReadFD reads those of an open file.
func ReadFD(fd int) Set {
	return read(func(b []byte) (int, error) { return unix.Flistxattr(fd, b) },
		func(name string, b []byte) (int, error) { return unix.Fgetxattr(fd, name, b) })
}

func read(list func([]byte) (int, error), get func(string, []byte) (int, error)) Set {
	n, err := list(nil)
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) || err == nil && n == 0 {
		return None
	}
	names, err := sized(list)
	if err != nil {
		return ""
	}
	m, size := map[string]string{}, 0
	for name := range strings.SplitSeq(string(names), "\x00") {
		if !Kept(name) {
			continue
		}
		v, err := sized(func(b []byte) (int, error) { return get(name, b) })
		if size += len(v); err != nil || size > most {
			return ""
		}
		m[name] = string(v)
	}
	return Of(m)
}

// sized asks for the size first, and again if it has grown meanwhile.
func sized(get func([]byte) (int, error)) ([]byte, error) {
	for {
		n, err := get(nil)
		if err != nil || n == 0 {
			return nil, err
		}
		b := make([]byte, n)
		n, err = get(b)
		if err != unix.ERANGE {
			return b[:max(n, 0)], err
		}
	}
}
