//go:build linux && (amd64 || arm64)

package memo

import (
	"debug/buildinfo"
	"go/version"
	"path/filepath"
	"slices"
	"strings"
)

// kind says which facts about files a program may show in its output. An unknown program may show
// all.
type kind uint8

const (
	unknownKind kind = iota // everything: times, inode numbers, access times
	shellKind               // times and inode numbers, but no access times
	datedKind               // content, names, modes and modification times
	contentKind             // only content, names and modes
)

// kinds lists known programs of the system and of toolchains. Programs that can print or sort by
// times (ls, find, rg --sort, diff) are not listed.
var kinds = map[string]kind{
	"sh": shellKind, "dash": shellKind, "bash": shellKind, "make": shellKind, "gmake": shellKind, "xargs": shellKind, "ninja": shellKind,
	"git": shellKind,
	// __TIMESTAMP__ expands to the modification time of the source.
	"gcc": datedKind, "g++": datedKind, "cc": datedKind, "c++": datedKind, "cpp": datedKind, "cc1": datedKind, "cc1plus": datedKind, "clang": datedKind,
}

func init() {
	for name := range strings.FieldsSeq(`cat tac head tail wc nl cut tr sort uniq comm join paste fold fmt grep sed mawk cmp
		md5sum sha1sum sha256sum sha512sum base64 od xxd strings jq echo printf true false basename dirname mkdir rm tee sleep seq
		go compile asm link vet cgo pack buildid gofmt collect2 as ld ld.bfd ld.gold lto-wrapper`) {
		kinds[name] = contentKind
	}
}

// kindOf returns the kind of the program at a path with symlinks resolved.
func (p *Places) kindOf(path string) kind {
	if p.classify(path) != known || under(path, p.home) && p.home != "" && !under(path, filepath.Join(p.home, "go")) {
		return unknownKind
	}
	name := filepath.Base(path)
	if k, ok := kinds[name]; ok {
		return k
	}
	// Cut x86_64-linux-gnu-gcc-12 down to gcc-12.
	if i := strings.LastIndex(name, "-gnu-"); i >= 0 {
		name = name[i+len("-gnu-"):]
	}
	return kinds[strings.TrimRight(name, "-.0123456789")]
}

// program is the program that a process runs.
type program struct {
	name   string
	kind   kind
	golang bool // its runtime reads the limits of its cgroup
}

func (p *Places) program(path string) program {
	r := program{name: filepath.Base(path), kind: p.kindOf(path)}
	if info, err := buildinfo.ReadFile(path); err == nil {
		r.golang = version.Compare(info.GoVersion, "go1.25") >= 0
	}
	return r
}

// atStart reports whether the program reads this file once when it starts, to learn its own stack,
// terminal or limits. A second access counts like an access to any other file.
func (p program) atStart(path string) bool {
	switch path {
	case "/proc/self/maps":
		return p.golang || slices.Contains([]string{"grep", "diff", "rg", "fd"}, p.name)
	case "/dev/tty":
		return p.name == "bash"
	case "/proc/self/mountinfo", "/proc/self/cgroup":
		return p.golang || p.name == "rg" || p.name == "fd"
	}
	return false
}

// owns reports whether the program is one of the owners of a cache. by lists the owners. They check
// the cache's entries themselves; for any other program the entries are ordinary files.
func (p program) owns(by []string) bool {
	return slices.ContainsFunc(by, func(name string) bool {
		return p.name == name || strings.HasSuffix(name, "*") && strings.HasPrefix(p.name, name[:len(name)-1])
	})
}

// unrepeatable lists programs whose output depends on the clock or on chance. Their output is never
// replayed.
var unrepeatable = map[string]bool{"date": true, "cal": true, "ncal": true, "uptime": true, "uuidgen": true, "shuf": true}

// walkers ask for the type of a directory's file system but do not show it.
var walkers = map[string]bool{"find": true, "rm": true, "ls": true, "chmod": true, "chown": true, "cp": true}

// plainDevice reports whether an access to a device, made in manner m by a program of kind k,
// reveals nothing about the machine.
func plainDevice(path string, m manner, k kind) bool {
	switch path {
	case "/dev/null", "/dev/zero", "/dev/full":
		return m != asStat || k != unknownKind
	case "/dev/stdout", "/dev/stderr", "/dev/fd/1", "/dev/fd/2", "/proc/self/fd/1", "/proc/self/fd/2":
		return m >= asChange
	case "/proc/self/exe":
		return m == asThere || m == asRead
	case "/dev", "/proc", "/sys", "/sys/fs/selinux", "/selinux", "/dev/tty":
		return m == asThere || m == asStat && k == contentKind
	}
	return false
}
