package memo

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// recordVersion is part of the key, so records of other versions are not found.
const recordVersion = 4

// Record is the stored result of a run.
type Record struct {
	Root   string        `cbor:"1,keyasint"` // root of the project
	Seen   []Seen        `cbor:"2,keyasint,omitempty"`
	Output []Chunk       `cbor:"3,keyasint,omitempty"`
	Why    []string      `cbor:"4,keyasint,omitempty"` // reasons against a replay
	Took   time.Duration `cbor:"5,keyasint,omitempty"`
	At     int64         `cbor:"6,keyasint,omitempty"` // ns since the epoch
}

// NewRecord returns the record of an outcome. If the outcome cannot be replayed, the record holds
// only the reasons.
func NewRecord(root string, o Outcome, at time.Time) Record {
	r := Record{Root: root, Why: o.Why, Took: o.Took, At: at.UnixNano()}
	if len(o.Why) == 0 {
		r.Seen, r.Output = o.Seen, o.Output
	}
	return r
}

// Encode encodes a record.
func (r Record) Encode() ([]byte, error) { return cbor.Marshal(r) }

// Decode decodes a record, which another machine may have written.
func Decode(b []byte) (Record, error) {
	dec, err := cbor.DecOptions{MaxArrayElements: 4 * maxPaths, MaxMapPairs: 4 * maxPaths}.DecMode()
	if err != nil {
		return Record{}, err
	}
	var r Record
	if err := dec.Unmarshal(b, &r); err != nil {
		return r, err
	}
	for _, s := range r.Seen {
		if s.Stat.Kind == kernel && s.Path != unameOf && !stableFile(s.Path) {
			return r, errors.New("a kernel file that must not be read")
		}
		if s.Inside == filepath.IsAbs(s.Path) || s.Inside && s.Path != "" && !filepath.IsLocal(s.Path) {
			return r, errors.New("an impossible path")
		}
	}
	return r, nil
}

// Call holds all properties of a call. Calls with equal properties are the same call.
type Call struct {
	Version  int      `json:"version"`
	Project  string   `json:"project"` // name of the project's directory
	Cwd      string   `json:"cwd"`     // relative to the project
	Program  string   `json:"program"`
	Args     [][]byte `json:"args"` // need not be UTF-8
	Env      [][]byte `json:"env"`
	Stdin    string   `json:"stdin"`
	Merged   bool     `json:"merged"` // stdout and stderr are the same file
	Umask    int      `json:"umask"`
	UID      int      `json:"uid"`
	Outside  bool     `json:"outside"` // accesses outside the project are allowed
	Timeless bool     `json:"timeless,omitempty"`
	Machine  string   `json:"machine"` // limits, processors, groups, capabilities
}

// NewCall describes a call with options o. cwd is relative to the project.
func NewCall(o Options, cwd string) Call {
	umask := syscall.Umask(0)
	syscall.Umask(umask)
	c := Call{Version: recordVersion, Project: filepath.Base(o.Places.Root), Cwd: cwd, Program: o.Program, Stdin: stdinKind(o.Stdin),
		Merged: SameFile(o.Stdout, o.Stderr), Umask: umask, UID: os.Getuid(), Outside: o.AllowOutside, Timeless: o.Timeless}
	for _, a := range o.Args {
		c.Args = append(c.Args, []byte(a))
	}
	c.Machine = machineFacts()
	env := slices.Clone(o.Env)
	slices.Sort(env)
	for _, kv := range slices.Compact(env) {
		if name, _, _ := strings.Cut(kv, "="); name != "PWD" { // Cwd holds the working directory
			c.Env = append(c.Env, []byte(kv))
		}
	}
	return c
}

// stdinKind classifies a standard input: null, tty, file, pipe, socket, closed.
func stdinKind(f *os.File) string {
	fi, err := f.Stat()
	if err != nil {
		return "closed"
	}
	switch mode := fi.Mode(); {
	case mode&os.ModeCharDevice != 0:
		if null, err := os.Stat(os.DevNull); err == nil && os.SameFile(fi, null) {
			return "null"
		}
		return "tty"
	case mode&os.ModeNamedPipe != 0:
		return "pipe"
	case mode&os.ModeSocket != 0:
		return "socket"
	}
	return "file"
}

// WhyLocal returns why a result is valid only where it was made, or "" if another clone of the same
// files may use it.
func (r *Record) WhyLocal() string {
	for _, s := range r.Seen {
		if s.Inside && (s.Times || s.Dated || s.Access) {
			return "it is valid only where it ran, because it depends on times or inode numbers of " + cmp.Or(s.Path, ".") + s.shownBy()
		}
	}
	return ""
}

// StillValid reports whether everything is as the command saw it. If not, why describes the
// difference. If the check had to read files, fresh is the record with their present stats. It
// should then replace the stored record.
func (r *Record) StillValid(root string, now time.Time) (ok bool, why string, fresh *Record) {
	if len(r.Why) > 0 {
		return false, strings.Join(r.Why, "; "), nil
	}
	if root != r.Root {
		return false, "the project was at " + r.Root, nil
	}
	reread, why := r.compare(root)
	if why != "" || len(reread) == 0 {
		return why == "", why, nil
	}
	f := *r
	f.Seen = slices.Clone(r.Seen)
	for _, i := range reread {
		s := &f.Seen[i]
		path := s.pathIn(root)
		// Compare the content again after the new stat, because the file may have changed between
		// the two checks.
		st := look(path)
		if again := (Seen{Stat: st, Hash: s.Hash, Racy: true}); st.Kind == s.Stat.Kind {
			if ok, _, _ := again.holds(path); ok {
				s.Stat, s.Racy = st, !st.stable(now)
			}
		}
	}
	f.Root = r.Root
	return true, "", &f
}

// pathIn returns the path for a project at root.
func (s *Seen) pathIn(root string) string {
	switch {
	case !s.Inside:
		return s.Path
	case s.Path == "":
		return root
	}
	return root + "/" + s.Path
}

// compare checks every path, in parallel, because there may be thousands. It returns the indexes of
// the paths that had to be read, and the first difference.
func (r *Record) compare(root string) (reread []int, why string) {
	const part = 512
	n := (len(r.Seen) + part - 1) / part
	found, whys := make([][]int, n), make([]string, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(n, runtime.NumCPU()) {
		wg.Go(func() {
			for k := int(next.Add(1)) - 1; k < n; k = int(next.Add(1)) - 1 {
				for i := k * part; i < min((k+1)*part, len(r.Seen)) && whys[k] == ""; i++ {
					s := &r.Seen[i]
					ok, hadToRead, because := s.holds(s.pathIn(root))
					switch {
					case !ok:
						whys[k] = cmp.Or(s.Path, ".") + " " + because
						next.Store(int64(n))
					case hadToRead && !s.Times:
						found[k] = append(found[k], i)
					}
				}
			}
		})
	}
	wg.Wait()
	for k := range n {
		if whys[k] != "" {
			return nil, whys[k]
		}
		reread = append(reread, found[k]...)
	}
	return reread, ""
}

// maxPaths limits the paths that a command may access. With more, the result is not stored.
const maxPaths = 50_000
