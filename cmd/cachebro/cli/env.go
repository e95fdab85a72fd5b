package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cachebro/cmd/cachebro/fastpath"
	"cachebro/store/leaf/event"
	"cachebro/store/wire"
	"cachebro/store/wire/visible"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Env is the environment of a command: streams, directory, variables and clock. main builds it
// once.
type Env struct {
	Stdin  *os.File
	Stdout io.Writer // on a terminal, package visible escapes control characters
	Stderr io.Writer
	out    *os.File // stdout itself, to check for a terminal; nil in tests
	Dir    string   // working directory, symlinks resolved; "" when it is gone
	Getenv func(string) string
	Vars   []string // the whole environment, for children
	starts bool     // whether to start a store daemon if none is running
	Now    func() time.Time
	Exe    string         // this binary, to start other processes
	Cmd    *cobra.Command // the command that is running or, before that, being parsed
	stop   func()         // ends the signal handling of Cmd's context
}

// NewEnv returns the environment of this process.
func NewEnv() *Env {
	e := &Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, out: os.Stdout, Getenv: os.Getenv, Vars: os.Environ(), starts: true, Now: time.Now}
	if ok, _ := e.Terminal(); ok {
		e.Stdout = visible.New(os.Stdout)
	}
	if term.IsTerminal(int(os.Stderr.Fd())) {
		e.Stderr = visible.New(os.Stderr)
	}
	e.Dir = fastpath.Dir()
	e.Exe = self()
	return e
}

// self returns a path from which this binary can be started again. After an upgrade, the path of
// the running image ends in " (deleted)", and the new binary has the path without that suffix.
func self() string {
	exe, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return strings.TrimSuffix(exe, " (deleted)")
}

// Paths returns the locations of this user's sockets and state.
func (e *Env) Paths() wire.Paths { return fastpath.Paths(e.Getenv) }

// PrintJSON writes one value on one line.
func (e *Env) PrintJSON(v any) error {
	enc := json.NewEncoder(e.Stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Terminal reports whether stdout is a terminal, and its width (0 if unknown).
func (e *Env) Terminal() (ok bool, width int) {
	if e.out == nil || !term.IsTerminal(int(e.out.Fd())) {
		return false, 0
	}
	width, _, _ = term.GetSize(int(e.out.Fd()))
	return true, width
}

// Flush writes buffered output. It is called before the process ends.
func (e *Env) Flush() {
	for _, w := range []io.Writer{e.Stdout, e.Stderr} {
		if v, ok := w.(*visible.Writer); ok {
			_ = v.Flush()
		}
	}
}

// Colour reports whether to use colours on stdout.
func (e *Env) Colour() bool {
	ok, _ := e.Terminal()
	return ok && e.Getenv("NO_COLOR") == "" && e.Getenv("TERM") != "dumb"
}

// Abs makes a path given on the command line absolute and clean. It does not follow symlinks,
// because the path itself may be one.
func (e *Env) Abs(path string) (string, error) {
	if filepath.IsAbs(path) {
		return filepath.Clean(path), nil
	}
	if e.Dir == "" {
		return "", Hintf("cd into the directory again", "the working directory no longer exists, so the relative path %s cannot be resolved", Quote(path))
	}
	return filepath.Join(e.Dir, path), nil
}

// Confirm asks on the terminal. Without a terminal it fails, because a script must pass --yes.
func (e *Env) Confirm(question string) error {
	if !term.IsTerminal(int(e.Stdin.Fd())) {
		return &usage{hinted{fmt.Errorf("%s needs --yes when it is not run on a terminal", e.Cmd.Name()), e.Cmd.CommandPath() + " --dry-run … shows what would be done"}}
	}
	fmt.Fprintf(e.Stderr, "%s [y/N] ", question)
	var answer string
	fmt.Fscanln(e.Stdin, &answer)
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return ErrDeclined
	}
	return nil
}

// Session returns the id of the agent's session in which the command runs, or "" if it runs in a
// person's shell.
func (e *Env) Session() string {
	for _, name := range event.SessionVariables {
		if s := e.Getenv(name); s != "" {
			return s
		}
	}
	return ""
}

// Version is the version of this program.
const Version = fastpath.Version

// First returns the first argument, or the value of none if there are no arguments.
func First(args []string, none string) string {
	if len(args) > 0 {
		return args[0]
	}
	return none
}
