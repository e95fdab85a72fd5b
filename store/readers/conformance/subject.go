package conformance

import (
	"strings"
	"testing"
	"time"
)

// Subject is what is tested: a project and readers of it. Methods fail the
// test when they cannot do what they are asked.
type Subject interface {
	Write(t testing.TB, path, content string)
	Remove(t testing.TB, path string)
	Rename(t testing.TB, from, to string)
	// Reader is one context window that was registered and has seen nothing.
	Reader(t testing.TB) Reader
}

// Reader reads as one context window.
type Reader interface {
	Read(t testing.TB, r Read) Answer
}

// Read is what a reader asks for; zero values as in the read_file tool.
type Read struct {
	Path       string
	Offset     int
	Limit      int
	Force      bool
	DiffOffset int
}

// Answer is what the model gets, whole.
type Answer struct {
	Text string
	Err  error
}

// Unchanged, Changed and Full tell the kinds apart by their text.
func (a Answer) Unchanged() bool {
	return strings.HasPrefix(a.Text, "[unchanged · ") && !strings.Contains(a.Text, "\n")
}
func (a Answer) Changed() bool { return strings.HasPrefix(a.Text, "[changed · ") }
func (a Answer) Full() bool    { return a.Err == nil && !a.Unchanged() && !a.Changed() }

// Truncated reports whether a diff goes on in a further page.
func (a Answer) Truncated() bool { return strings.Contains(a.Text, "\n[... diff truncated at ") }

// Eventful readers belong to a client that signals what happens to its
// context: start, precompact, postcompact, subagent-start, … (shown.Event).
type Eventful interface {
	Event(t testing.TB, name string)
}

// Forker readers can have a sub-agent: another context of the same session.
type Forker interface {
	Agent(t testing.TB, id string) Reader
}

// Committer readers can hold back what they were given: ReadPending's answer
// counts only when Commit brings it.
type Committer interface {
	ReadPending(t testing.TB, toolUse string, r Read) Answer
	Commit(t testing.TB, toolUse, text string)
}

// Rewinder readers can tell which tool uses their transcript still holds.
type Rewinder interface {
	Alive(t testing.TB, toolUses []string, readable bool)
}

// Editor readers have an edit tool.
type Editor interface {
	Edit(t testing.TB, path, old, new string)
}

// Clocked subjects have a clock that can be put forward.
type Clocked interface {
	Advance(t testing.TB, d time.Duration)
}

// Unknowing subjects have readers that nobody knows.
type Unknowing interface {
	Unknown(t testing.TB) Reader
}

// Stealthy subjects can change a file behind everybody's back: same size and
// times, or underneath the overlay. On a mount that nobody can get around there
// is no such way: Hidden is false.
type Stealthy interface {
	Hidden() bool
	WriteSameStat(t testing.TB, path, content string)
}

// Linker subjects have symbolic links.
type Linker interface {
	Symlink(t testing.TB, target, path string)
}
