package knowledge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/fusefs/mounts"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/ignore"
	"cachebro/store/memo"
	"cachebro/store/wire"
	"cachebro/store/wire/visible"

	"github.com/spf13/cobra"
)

// MemoCommand returns the command cachebro memo.
func MemoCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "memo [--] COMMAND…", Short: "run a command, or repeat its output if nothing has changed since",
		Long: `Runs the command and records its output together with everything that its processes
depended on: files they read, names they did not find, directories they listed, and the
environment. The next call of the same command prints the recorded output at once if none
of this has changed.

The output of a command is never repeated if the command fails, writes tracked files,
reads its standard input, uses the network or talks to another process, or asks the kernel
for something that may change at any time (processes, load, memory, free space, locks).
It is also not repeated if the command reads files outside of the project, except for those
of the system, of toolchains and of your settings; with --allow-outside all such files are
checked like those of the project. Clocks and random numbers cannot be checked, so do not
use memo for commands that depend on them. Variables that name an agent's session or the
parent of this command are not passed on.

With CACHEBRO_REDIS, another clone of the same files at the same path repeats the output
too, unless a program asked for times or inode numbers in the project and may have printed
them. --ignore-times says that the command prints none of these, nor anything that depends
on the order in which a directory is listed.

--explain shows what a call would do, and why.`,
		Example: `  cachebro memo -- go test ./...
  cachebro memo --explain -- go test ./...
  cachebro memo --diff --session s1 -- golangci-lint run`,
		Annotations: cli.OwnSignals,
		Args:        e.Args(1, -1),
	}

	fs := cmd.Flags()
	fs.SetInterspersed(false)
	explain := fs.Bool("explain", false, "only say whether it would be repeated, and why not")
	diff := fs.Bool("diff", false, "print only what changed since the session last saw this command's output")
	session := fs.String("session", "", "with --diff: who reads (default: the session in the environment)")
	outside := fs.Bool("allow-outside", false, "treat files outside of the project like those in it")
	timeless := fs.Bool("ignore-times", false, "ignore times and inode numbers, because the command prints none")
	force := fs.Bool("force", false, "run the command even if its output could be repeated")
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		m := &memoRun{Env: e, diff: *diff, session: cmp.Or(*session, e.Session()), allowed: *outside, timeless: *timeless}
		if err := m.prepare(ctx, args); err != nil {
			return err
		}
		defer m.client.Close()
		rec, why := m.holding(ctx)
		if why != "" && *explain { // a call with merged outputs differs from one with separate outputs, so explain looks for both
			was := why
			if err := m.name(func(c *memo.Call) { c.Merged = !c.Merged }); err != nil {
				return err
			}
			rec, why = m.holding(ctx)
			if why == notRun {
				why = was
			}
		}
		switch {
		case why == "" && *explain:
			age := e.Now().Sub(time.Unix(0, rec.At)).Round(time.Second)
			fmt.Fprintf(e.Stdout, "would be repeated: none of %d paths has changed since it ran %s ago (and took %s)\n", len(rec.Seen), age, rec.Took.Round(time.Millisecond))
			if stays := rec.WhyLocal(); stays != "" {
				fmt.Fprintln(e.Stdout, cli.OneLine(stays))
			}
			return nil
		case why == "" && !*force:
			return m.print(ctx, rec.Output)
		}
		if *explain {
			fmt.Fprintf(e.Stdout, "would be run: %s\n", cli.OneLine(why))
			return nil
		}
		return m.run(ctx)
	})
}

// TracedCommand returns the command cachebro traced.
func TracedCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "traced", Short: "runs a command whose system calls are watched (started by cachebro memo)",
		Annotations:        cli.OwnSignals,
		Hidden:             true,
		DisableFlagParsing: true,
	}
	return cli.Does(cmd, func(_ context.Context, args []string) error {
		if cli.AsksForHelp(args) {
			return cmd.Help()
		}
		return memo.Traced(args, e.Vars)
	})
}

// memoTTL is how long a result is stored. Its inputs are checked before each use.
const memoTTL = 14 * 24 * time.Hour

type memoRun struct {
	*cli.Env
	o        memo.Options
	t        cli.Target
	client   *wire.Client // nil if the daemon does not answer; the command still runs
	call     memo.Call
	args     json.RawMessage // call as JSON
	session  string
	diff     bool
	allowed  bool
	timeless bool
}

// prepare finds the program and the project, and describes the call.
func (m *memoRun) prepare(ctx context.Context, args []string) error {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return cli.Hintf("echo \"$PATH\"", "%s: no such command", cli.Quote(args[0]))
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return err
	}
	m.t, err = m.LocateOrTop(".")
	if err != nil {
		return err
	}
	root, err := filepath.EvalSymlinks(m.t.Base())
	if err != nil {
		return err
	}
	// Name the directory, because this process's own working directory may be the source directory
	// that the mount covers.
	cwd := root
	if mounts.Within(m.Dir, root) {
		cwd = m.Dir
	}
	var vars []string
	for _, kv := range m.Vars {
		name, _, _ := strings.Cut(kv, "=")
		if name != "PWD" && name != "_" && !slices.Contains(event.SessionVariables, name) {
			vars = append(vars, kv)
		}
	}
	m.o = memo.Options{
		Self: m.Exe, Program: path, Args: args, Dir: cwd, Env: append(vars, "PWD="+cwd), Stdin: m.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Places: memo.NewPlaces(root, m.Paths().Home, m.Getenv), AllowOutside: m.allowed, Timeless: m.timeless,
		Pass: func(sig os.Signal) bool { return sig != syscall.SIGINT && sig != syscall.SIGQUIT || !cli.Foreground() },
	}
	m.call = memo.NewCall(m.o, mounts.Rel(cwd, root))
	if err := m.name(func(*memo.Call) {}); err != nil {
		return err
	}
	_, err = m.Locate(".") // do not begin a history just for this
	if err == nil {
		m.client, err = m.Connect(ctx, m.t.Root)
	}
	if err != nil {
		if m.client != nil {
			m.client.Close()
			m.client = nil
		}
		fmt.Fprintf(m.Stderr, "note: the output cannot be recorded: %s\n", cli.OneLine(err.Error()))
	}
	return nil
}

// name applies edit to the call, then encodes the call as the name of its result in the store.
func (m *memoRun) name(edit func(*memo.Call)) (err error) {
	edit(&m.call)
	m.args, err = json.Marshal(m.call)
	return err
}

const notRun = "it has not been run yet"

// holding returns a recorded run whose inputs are all unchanged. The run was made here or in
// another clone. If there is none, why is the reason.
func (m *memoRun) holding(ctx context.Context) (rec memo.Record, why string) {
	why = notRun
	for _, shared := range []bool{false, true} {
		rec, ok := m.lastRun(ctx, shared)
		if !ok {
			continue
		}
		ok, because, fresh := rec.StillValid(m.o.Places.Root, m.Now())
		if !ok {
			if why == notRun {
				why = because
			}
			continue
		}
		if fresh != nil {
			rec = *fresh
		}
		if fresh != nil || shared {
			m.keep(ctx, rec, false)
		}
		return rec, ""
	}
	return rec, why
}

// lastRun asks the daemon for the last recorded run of this call. If shared is set, other clones may
// have made the run.
func (m *memoRun) lastRun(ctx context.Context, shared bool) (rec memo.Record, ok bool) {
	if m.client == nil {
		return rec, false
	}
	var a wire.ResultsAnswer
	body, err := m.client.Call(ctx, wire.MResults, wire.ResultsRequest{Do: "get", Tool: "memo", Args: m.args, TTLSeconds: int(memoTTL / time.Second), Shared: shared}, nil, &a)
	if err != nil || !a.Found {
		return rec, false
	}
	rec, err = memo.Decode(body)
	return rec, err == nil
}

// keep stores a record in the daemon. If that fails, it prints a note.
func (m *memoRun) keep(ctx context.Context, rec memo.Record, shared bool) {
	if m.client == nil {
		return
	}
	raw, err := rec.Encode()
	if err == nil {
		_, err = m.client.Call(ctx, wire.MResults, wire.ResultsRequest{Do: "put", Tool: "memo", Args: m.args, TTLSeconds: int(memoTTL / time.Second), Shared: shared}, raw, nil)
	}
	if err != nil {
		fmt.Fprintf(m.Stderr, "note: the output was not recorded: %s\n", cli.OneLine(err.Error()))
	}
}

func (m *memoRun) run(ctx context.Context) error {
	if m.client != nil { // paths are classified only to store the result, which needs a daemon
		if d, err := os.Open(m.o.Places.Root); err == nil {
			defer d.Close()
			if c, err := ignore.New(d, ignore.Options{ExcludesFile: m.ExcludesFile()}); err == nil {
				defer c.Close()
				m.o.Classifier = c
			}
		}
	}
	var silent *os.File
	if m.diff { // the output is compared and printed at the end
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
		return fmt.Errorf("run %s: %w", cli.Quote(m.o.Args[0]), err)
	}
	rec := memo.NewRecord(m.o.Places.Root, out, m.Now())
	m.keep(ctx, rec, false)
	if len(rec.Why) == 0 {
		if stays := rec.WhyLocal(); stays != "" { // the shared record tells other clones why the output is not shared
			rec = memo.NewRecord(m.o.Places.Root, memo.Outcome{Why: []string{stays}, Took: out.Took}, m.Now())
		}
		m.keep(ctx, rec, true)
	}
	var exit *exec.ExitError
	if out.Err != nil && !errors.As(out.Err, &exit) {
		return out.Err
	}
	if silent != nil {
		if err := m.print(ctx, out.Output); err != nil {
			return err
		}
	}
	return cli.ChildStatus(out.Err)
}

// print prints the recorded output. With --diff it prints only what the reader has not seen.
func (m *memoRun) print(ctx context.Context, chunks []memo.Chunk) error {
	if m.diff && m.session != "" && m.client != nil {
		var text []byte
		for _, c := range chunks {
			text = append(text, c.Text...)
		}
		// The daemon knows what the reader was shown. It compares this text with the one that the
		// reader got before, as it does for the listing of a directory.
		var a wire.ReadAnswer
		body, err := m.client.Call(ctx, wire.MRead, wire.ReadRequest{Reader: wire.Reader{Session: m.session}, Path: []byte("memo: " + strings.Join(m.o.Args, " ")), Tool: "memo", Listing: true}, text, &a)
		if err == nil {
			return printShown(m.Env, a, body)
		}
	}
	for _, c := range chunks {
		w := visible.Raw(m.Stdout) // byte for byte, as the command would write it
		if c.To == 2 {
			w = visible.Raw(m.Stderr)
		}
		if _, err := w.Write(c.Text); err != nil {
			return err
		}
	}
	return nil
}
