package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"cachebro/fusefs/ignore"
	"cachebro/fusefs/mounts"
	"cachebro/store/memo"
	"cachebro/store/wire"
	"cachebro/store/wire/visible"
)

func memoCommand() command {
	return command{
		name: "memo", group: groupEvery, args: "[--] COMMAND…", short: "run a command, or repeat what it said if nothing has changed since",
		long: `Runs the command and remembers its output with everything that its processes
looked at: files they read, names that were not there, directories they listed,
and the environment. The next call of the same command prints the same at once,
as long as all of that is as it was.

Not repeated: commands that fail, write tracked files, read their standard input,
use the network or talk to another process, look at files outside of the project
other than the system's, toolchains' and your settings (--allow-outside lets them
count, and be checked, like the others), or ask the kernel for anything that is not
known to stay the same (processes, load, memory, free space, locks).
Clocks and random numbers cannot be checked: do not use it for what depends on them.

Nothing is repeated by guess: --explain tells what a call would do, and why.

Examples:
  cachebro memo -- go test ./...
  cachebro memo --explain -- go test ./...
  cachebro memo --diff --session s1 -- golangci-lint run`,
		ownSignals: true, run: runMemo,
	}
}

func tracedCommand() command {
	return command{
		name: "traced", short: "runs a command while its system calls are shown (started by cachebro memo)", ownSignals: true,
		run: func(_ context.Context, e *env) error {
			if len(e.args) == 1 && e.args[0] == "--help" {
				e.printHelp(e.flags())
				return nil
			}
			return memo.Traced(e.args, e.vars)
		},
	}
}

// memoTTL is how long a result is kept; what it depends on is checked anyway.
const memoTTL = 14 * 24 * time.Hour

// memoRun is one call of memo.
type memoRun struct {
	*env
	o       memo.Options
	t       target
	client  *wire.Client // nil: the daemon does not answer; the command runs all the same
	call    memo.Call
	args    json.RawMessage // call's
	session string
	diff    bool
	allowed bool
}

func runMemo(ctx context.Context, e *env) error {
	fs := e.flags()
	fs.SetInterspersed(false)
	explain := fs.Bool("explain", false, "only say whether it would be repeated, and why not")
	diff := fs.Bool("diff", false, "print only what is new since the session last saw this command's output")
	session := fs.String("session", "", "with --diff: who reads (default: the session in the environment)")
	outside := fs.Bool("allow-outside", false, "let files outside of the project count like those in it")
	force := fs.Bool("force", false, "run it in any case")
	args, err := e.parse(fs, 1, -1)
	if err != nil {
		return err
	}
	m := &memoRun{env: e, diff: *diff, session: *session, allowed: *outside}
	for _, name := range []string{"CACHEBRO_SESSION", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID"} {
		if m.session == "" {
			m.session = e.getenv(name)
		}
	}
	if err := m.prepare(ctx, args); err != nil {
		return err
	}
	if m.client != nil {
		defer m.client.Close()
	}
	rec, found := m.kept(ctx)
	if !found && *explain { // where the answer goes is no part of the question
		if err := m.name(func(c *memo.Call) { c.Merged = !c.Merged }); err != nil {
			return err
		}
		rec, found = m.kept(ctx)
	}
	why := "it has not been run yet"
	if found {
		ok, because, fresh := rec.Holds(m.o.Places.Root, e.now())
		if ok && *explain {
			age := e.now().Sub(time.Unix(0, rec.At)).Round(time.Second)
			fmt.Fprintf(e.stdout, "would be repeated: none of %d paths has changed since it ran %s ago (and took %s)\n", len(rec.Seen), age, rec.Took.Round(time.Millisecond))
			return nil
		}
		if ok && !*force {
			if fresh != nil {
				m.keep(ctx, *fresh)
			}
			return m.print(ctx, rec.Output)
		}
		why = because
	}
	if *explain {
		fmt.Fprintf(e.stdout, "would be run: %s\n", oneLine(why))
		return nil
	}
	return m.run(ctx)
}

// prepare finds the program and the project, and says what makes this call.
func (m *memoRun) prepare(ctx context.Context, args []string) error {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return hintf("echo \"$PATH\"", "%s: no such command", quote(args[0]))
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	if m.t, err = m.locateOrTop("."); err != nil {
		return err
	}
	root, err := filepath.EvalSymlinks(m.t.base())
	if err != nil {
		return err
	}
	// By name, not by the descriptor we stand on, which may be below the mount.
	cwd := root
	if mounts.Within(m.dir, root) {
		cwd = m.dir
	}
	var vars []string
	for _, kv := range m.vars {
		if !strings.HasPrefix(kv, "PWD=") {
			vars = append(vars, kv)
		}
	}
	m.o = memo.Options{
		Self: m.exe, Program: path, Args: args, Dir: cwd, Env: append(vars, "PWD="+cwd), Stdin: m.stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Places: memo.NewPlaces(root, m.paths().Home, m.getenv), AllowOutside: m.allowed,
		Pass: func(sig os.Signal) bool { return sig != syscall.SIGINT && sig != syscall.SIGQUIT || !foreground() },
	}
	m.call = memo.NewCall(m.o, mounts.Rel(cwd, root))
	if err := m.name(func(*memo.Call) {}); err != nil {
		return err
	}
	if m.client, err = m.connect(ctx, m.t.root); err != nil {
		if m.client != nil {
			m.client.Close()
			m.client = nil
		}
		fmt.Fprintf(m.stderr, "note: nothing can be remembered: %s\n", oneLine(err.Error()))
	}
	return nil
}

// name gives the call its name in the store, after an edit.
func (m *memoRun) name(edit func(*memo.Call)) (err error) {
	edit(&m.call)
	m.args, err = json.Marshal(m.call)
	return err
}

// kept asks the daemon for the last run.
func (m *memoRun) kept(ctx context.Context) (rec memo.Record, ok bool) {
	if m.client == nil {
		return rec, false
	}
	var a wire.ResultsAnswer
	body, err := m.client.Call(ctx, wire.MResults, wire.ResultsRequest{Do: "get", Tool: "memo", Args: m.args, TTLSeconds: int(memoTTL / time.Second)}, nil, &a)
	if err != nil || !a.Found {
		return rec, false
	}
	rec, err = memo.Decode(body)
	return rec, err == nil
}

// keep hands a record to the daemon. That it cannot is no failure of the command.
func (m *memoRun) keep(ctx context.Context, rec memo.Record) {
	if m.client == nil {
		return
	}
	raw, err := rec.Encode()
	if err == nil {
		_, err = m.client.Call(ctx, wire.MResults, wire.ResultsRequest{Do: "put", Tool: "memo", Args: m.args, TTLSeconds: int(memoTTL / time.Second)}, raw, nil)
	}
	if err != nil {
		fmt.Fprintf(m.stderr, "note: the result is not remembered: %s\n", oneLine(err.Error()))
	}
}

// run runs the command and keeps what came of it.
func (m *memoRun) run(ctx context.Context) error {
	if m.client != nil { // else nothing is kept: everything counts as tracked
		if d, err := os.Open(m.o.Places.Root); err == nil {
			defer d.Close()
			if c, err := ignore.New(d, ignore.Options{ExcludesFile: m.excludesFile()}); err == nil {
				defer c.Close()
				m.o.Classifier = c
			}
		}
	}
	var silent *os.File
	if m.diff { // all at once, at the end
		null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer null.Close()
		silent = null
		m.o.Split = !memo.SameFile(m.o.Stdout, m.o.Stderr)
		m.o.Stdout, m.o.Stderr = silent, silent
	}
	out, err := memo.Run(m.o)
	if err != nil {
		return fmt.Errorf("run %s: %w", quote(m.o.Args[0]), err)
	}
	m.keep(ctx, memo.NewRecord(m.o.Places.Root, out, m.now()))
	var exit *exec.ExitError
	if out.Err != nil && !errors.As(out.Err, &exit) {
		return out.Err
	}
	if silent != nil {
		if err := m.print(ctx, out.Output); err != nil {
			return err
		}
	}
	return childStatus(out.Err)
}

// print gives the output again, or what of it the reader has not seen.
func (m *memoRun) print(ctx context.Context, chunks []memo.Chunk) error {
	if m.diff && m.session != "" && m.client != nil {
		var text []byte
		for _, c := range chunks {
			text = append(text, c.Text...)
		}
		// Who was shown what is the daemon's to know, and to forget: compare the
		// listing of a directory with what the same reader got before.
		var a wire.ReadAnswer
		body, err := m.client.Call(ctx, wire.MRead, wire.ReadRequest{Reader: wire.Reader{Session: m.session}, Path: []byte("memo: " + strings.Join(m.o.Args, " ")), Tool: "memo", Listing: true}, text, &a)
		if err == nil {
			if a.Label != "" {
				fmt.Fprintln(m.stdout, a.Label)
			}
			_, err = m.stdout.Write(body)
			return err
		}
	}
	for _, c := range chunks {
		w := visible.Raw(m.stdout) // as the command itself would
		if c.To == 2 {
			w = visible.Raw(m.stderr)
		}
		if _, err := w.Write(c.Text); err != nil {
			return err
		}
	}
	return nil
}
