package wire

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cachebro/store/leaf/text"
)

// A session may work in several projects, each with its own daemon. A file per session, next to the
// state directories, lists the roots of these projects. It has one root per line, in the order of
// first use.

// sessionFile returns the path of a session's file, or "" if no state directory is known.
func (p Paths) sessionFile(session string) string {
	base, err := p.StateBase()
	if err != nil || session == "" {
		return ""
	}
	return filepath.Join(base, "clients", "sessions", text.Hash([]byte(session))[:32])
}

// SessionProjects returns the roots of the projects that a session works in.
func (p Paths) SessionProjects(session string) []string {
	return slices.DeleteFunc(noted(p.sessionFile(session)), func(root string) bool { return !filepath.IsAbs(root) })
}

// JoinSession records that a session works in the project root.
func (p Paths) JoinSession(session, root string) error { return note(p.sessionFile(session), root) }

// SessionsWithin returns the sessions that clients began inside a "cachebro run".
func (p Paths) SessionsWithin(run string) []string { return noted(p.sessionFile(run) + withinSuffix) }

// NestSession records that a client began a session inside a "cachebro run".
func (p Paths) NestSession(run, session string) error {
	return note(p.sessionFile(run)+withinSuffix, session)
}

const withinSuffix = ".within"

// noted returns the lines of a file that note wrote.
func noted(file string) []string {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// note adds a line to a file unless the file has it. Two concurrent calls may write the line twice,
// which does no harm.
func note(file, line string) error {
	if !filepath.IsAbs(file) || strings.Contains(line, "\n") || slices.Contains(noted(file), line) {
		return nil
	}
	return AppendTo(file, line+"\n")
}

// QueuedPrompt returns the IDs of two prompts: the one that began a turn of a session, and the one
// that the user typed during that turn.
func (p Paths) QueuedPrompt(session string) (turn, prompt string) {
	b, err := os.ReadFile(p.sessionFile(session) + queuedSuffix)
	if err != nil {
		return "", ""
	}
	turn, prompt, _ = strings.Cut(string(b), "\n")
	return turn, prompt
}

// NoteQueuedPrompt stores what QueuedPrompt returns.
func (p Paths) NoteQueuedPrompt(session, turn, prompt string) error {
	file := p.sessionFile(session)
	if file == "" || strings.Contains(turn+prompt, "\n") {
		return fs.ErrInvalid
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return os.WriteFile(file+queuedSuffix, []byte(turn+"\n"+prompt), 0o600)
}

const queuedSuffix = ".queued"

// ForgetSessions removes the files of sessions that have not begun to use a project since a time.
func (p Paths) ForgetSessions(since time.Time) {
	dir := filepath.Dir(p.sessionFile("any"))
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if fi, err := e.Info(); err == nil && fi.ModTime().Before(since) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// MNames takes a NamesQuery and returns a NamesAnswer with completions for the command line.
const MNames = "names"

// NamesQuery asks for names that begin with Prefix. Kind is session, prompt, tool-call, agent or
// path. Session restricts prompt, tool-call and agent. For path, the answer lists present and
// former entries of Dir.
type NamesQuery struct {
	Kind    string `json:"kind"`
	Session string `json:"session,omitempty"`
	Dir     []byte `json:"dir,omitempty"`
	Prefix  []byte `json:"prefix,omitempty"`
}

// NamesAnswer holds at most 200 names, newest first. Paths are sorted by name.
type NamesAnswer struct {
	Names []Name `json:"names"`
}

// Name is one completion.
type Name struct {
	Name []byte `json:"name"` // paths are relative to the root
	Note string `json:"note,omitempty"`
	Dir  bool   `json:"dir,omitempty"`
	Gone bool   `json:"gone,omitempty"` // the path does not exist
}
