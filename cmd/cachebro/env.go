package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cachebro/cmd/cachebro/fastpath"
	"cachebro/store/wire"
	"cachebro/store/wire/visible"

	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// env is everything a command knows of the world. Built once in main.
type env struct {
	stdin  *os.File
	stdout io.Writer // a terminal shows nothing raw: see visible
	stderr io.Writer
	out    *os.File // what stdout is, to ask whether it is a terminal; nil in tests
	args   []string // after the command's name
	name   string   // the command as it was typed
	dir    string   // working directory, symlinks resolved; "" when it is gone
	getenv func(string) string
	vars   []string // the whole environment, for children
	starts bool     // a store daemon that does not run is started
	now    func() time.Time
	exe    string // this binary, for the processes we start
	cmd    command
	// described, if not nil, gets the command's flags in place of a run of it.
	described func(*pflag.FlagSet)
}

func newEnv(args []string) *env {
	e := &env{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, out: os.Stdout, getenv: os.Getenv, vars: os.Environ(), starts: true, now: time.Now}
	if ok, _ := e.terminal(); ok {
		e.stdout = visible.New(os.Stdout)
	}
	if term.IsTerminal(int(os.Stderr.Fd())) {
		e.stderr = visible.New(os.Stderr)
	}
	if len(args) > 1 {
		e.name, e.args = args[1], args[2:]
	}
	e.dir = fastpath.Dir()
	e.exe = self(args)
	return e
}

// self is the path under which this binary can be started again. After an
// upgrade the running image is "… (deleted)"; the new one has the old name.
func self(args []string) string {
	exe, err := os.Executable()
	if err != nil {
		return args[0]
	}
	return strings.TrimSuffix(exe, " (deleted)")
}

// paths says where sockets and state lie for this user.
func (e *env) paths() wire.Paths { return fastpath.Paths(e.getenv) }

// flags is a new flag set for the running command.
func (e *env) flags() *pflag.FlagSet {
	fs := pflag.NewFlagSet(e.cmd.name, pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.SortFlags = false
	fs.Usage = func() {}
	return fs
}

// parse reads the command's arguments; between min and max (-1: any number)
// must remain. --help prints the command's help and returns errHelp.
func (e *env) parse(fs *pflag.FlagSet, min, max int) ([]string, error) {
	if e.described != nil {
		e.described(fs)
		return nil, errHelp
	}
	if err := fs.Parse(e.args); err != nil {
		if err == pflag.ErrHelp {
			e.printHelp(fs)
			return nil, errHelp
		}
		return nil, e.usagef("%s: %v", e.cmd.name, err)
	}
	for _, name := range []string{"json", "null"} {
		if f := fs.Lookup(name); f != nil && f.Value.String() == "true" {
			e.stdout = visible.Raw(e.stdout)
		}
	}
	rest := fs.Args()
	switch {
	case len(rest) < min:
		return nil, e.usagef("%s: missing argument: usage: cachebro %s %s", e.cmd.name, e.cmd.name, e.cmd.args)
	case max >= 0 && len(rest) > max:
		return nil, e.usagef("%s: unexpected argument %s", e.cmd.name, quote(rest[max]))
	}
	return rest, nil
}

// printJSON writes one value on one line.
func (e *env) printJSON(v any) error {
	enc := json.NewEncoder(e.stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// terminal reports whether stdout is one, and its width (0: unknown).
func (e *env) terminal() (ok bool, width int) {
	if e.out == nil || !term.IsTerminal(int(e.out.Fd())) {
		return false, 0
	}
	width, _, _ = term.GetSize(int(e.out.Fd()))
	return true, width
}

// flush shows what is left of the output, at the end.
func (e *env) flush() {
	for _, w := range []io.Writer{e.stdout, e.stderr} {
		if v, ok := w.(*visible.Writer); ok {
			_ = v.Flush()
		}
	}
}

// colour reports whether to use colours on stdout.
func (e *env) colour() bool {
	ok, _ := e.terminal()
	return ok && e.getenv("NO_COLOR") == "" && e.getenv("TERM") != "dumb"
}

// abs makes a path given on the command line absolute and clean without
// following symlinks: the name itself may be one.
func (e *env) abs(path string) (string, error) {
	if filepath.IsAbs(path) {
		return filepath.Clean(path), nil
	}
	if e.dir == "" {
		return "", hintf("cd again into the directory where you are", "the working directory is gone, so %s has no meaning", quote(path))
	}
	return filepath.Join(e.dir, path), nil
}

// confirm asks on the terminal. Without one the answer must have been given by
// --yes: a script is never taken to have agreed.
func (e *env) confirm(question string) error {
	if !term.IsTerminal(int(e.stdin.Fd())) {
		return &usage{hinted{fmt.Errorf("%s needs --yes when it is not run on a terminal", e.cmd.name), "cachebro " + e.cmd.name + " --dry-run … shows what would be done"}}
	}
	fmt.Fprintf(e.stderr, "%s [y/N] ", question)
	var answer string
	fmt.Fscanln(e.stdin, &answer)
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errDeclined
	}
	return nil
}
