package conformance

import (
	"strings"
	"testing"
	"time"
)

// Subject is the thing under test: a project and its readers. Methods fail the test if they
// cannot do their work.
type Subject interface {
	Write(t testing.TB, path, content string)
	Remove(t testing.TB, path string)
	Rename(t testing.TB, from, to string)
	// Reader returns a context window that is registered and has seen nothing.
	Reader(t testing.TB) Reader
}

// Reader makes the reads of one context window.
type Reader interface {
	Read(t testing.TB, r Read) Answer
}

// Read is a request of a reader. Zero values mean the same as in the read_file tool.
type Read struct {
	Path       string
	Offset     int
	Limit      int
	Force      bool
	DiffOffset int
}

// Answer is everything that the model receives.
type Answer struct {
	Text string
	Err  error
}

// Unchanged, Changed and Full distinguish the kinds of answers by their text.
func (a Answer) Unchanged() bool {
	return strings.HasPrefix(a.Text, "[unchanged · ") && !strings.Contains(a.Text, "\n")
}
func (a Answer) Changed() bool { return strings.HasPrefix(a.Text, "[changed · ") }
func (a Answer) Full() bool    { return a.Err == nil && !a.Unchanged() && !a.Changed() }

// Truncated reports whether a diff continues on another page.
func (a Answer) Truncated() bool { return strings.Contains(a.Text, "\n[... diff truncated at ") }

// Eventful readers belong to a client that reports what happens to its context: start, precompact,
// postcompact, subagent-start, … (readers.Event).
type Eventful interface {
	Event(t testing.TB, name string)
}

// Forker readers can have a sub-agent: another context of the same session.
type Forker interface {
	Agent(t testing.TB, id string) Reader
}

// Committer readers can receive pending answers: an answer of ReadPending does not count until
// Commit confirms it.
type Committer interface {
	ReadPending(t testing.TB, toolUse string, r Read) Answer
	Commit(t testing.TB, toolUse, text string)
}

// Rewinder readers can report which tool uses their transcript still contains.
type Rewinder interface {
	Alive(t testing.TB, toolUses []string, readable bool)
}

// Editor readers have an edit tool.
type Editor interface {
	Edit(t testing.TB, path, old, new string)
}

// Clocked subjects have a clock that can be advanced.
type Clocked interface {
	Advance(t testing.TB, d time.Duration)
}

// Unknowing subjects can have readers that are not registered.
type Unknowing interface {
	Unknown(t testing.TB) Reader
}

// Stealthy subjects can change a file without being noticed, either with the same size and times,
// or in the directory that the overlay covers. On a mount that cannot be bypassed, the second way
// is impossible, and Hidden returns false.
type Stealthy interface {
	Hidden() bool
	WriteSameStat(t testing.TB, path, content string)
}

// Linker subjects have symbolic links.
type Linker interface {
	Symlink(t testing.TB, target, path string)
}
