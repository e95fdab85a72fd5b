// Package attrs defines which extended attributes of a file belong to its history: the users' own
// attributes, access control lists and capabilities. mountd and the store daemon read them into a
// Set, the version log stores the Set unchanged, and package undo/apply restores it.
package attrs

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Set holds the attributes of one file. It is "" if they are unknown and None if there are none.
// Otherwise it is a byte 1 and then the name and value of each attribute, sorted by name. A uvarint
// length precedes each name and value. Equal attributes give equal Sets.
type Set string

// None is the Set of a file without attributes.
const None Set = "\x01"

// Capability gives rights to a program. It is restored only together with the file's owner.
const Capability = "security.capability"

// most is the size limit of a Set in bytes. Larger attributes count as unknown.
const most = 256 << 10

// Kept reports whether an attribute belongs in a Set. The system's own labels and checksums do not.
func Kept(name string) bool {
	return strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "system.posix_acl_") || name == Capability
}

// Of returns the Set with the given attributes.
func Of(m map[string]string) Set {
	b := []byte(None)
	for _, n := range slices.Sorted(maps.Keys(m)) {
		for _, s := range [...]string{n, m[n]} {
			b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
		}
	}
	return Set(b)
}

// All returns the attributes in a Set, or false if they are unknown or the Set is damaged.
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

// Same reports whether two Sets are equal or one of them is unknown.
func (s Set) Same(o Set) bool { return s == "" || o == "" || s == o }

// Without returns the Set without the attributes that drop selects.
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

// Has reports whether an attribute is in the Set.
func (s Set) Has(name string) bool {
	if len(s) <= len(None) {
		return false
	}
	m, _ := s.All()
	_, ok := m[name]
	return ok
}

// Read reads the attributes of the file at a path, following symlinks. It returns "" without
// permission.
func Read(path string) Set {
	return read(func(b []byte) (int, error) { return unix.Listxattr(path, b) },
		func(name string, b []byte) (int, error) { return unix.Getxattr(path, name, b) })
}

// ReadFD reads the attributes of an open file.
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
		size += len(v)
		if err != nil || size > most {
			return ""
		}
		m[name] = string(v)
	}
	return Of(m)
}

// sized calls get once for the size and once for the value. It starts over if the value has grown
// in between.
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
