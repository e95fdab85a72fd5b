package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"cachebro/fusefs/mounts"
	"cachebro/fusefs/mounts/supervisor"
)

func mountCommand() command {
	return command{
		name: "mount", group: groupSetup, args: "[DIR]", short: "watch a project: mount the overlay over it",
		long: `Mounts the overlay over the project, in place: the same path, the same files,
but everything that any process does there is seen and kept. The files stay
plain files in the same directory; cachebro umount, a crash or a reboot leave
them exactly as they are.

Inside a git work tree the top level of the work tree is mounted.

Examples:
  cachebro mount
  cachebro mount ~/src/app
  cachebro mount ~/src/app --at /tmp/watched
  cachebro mount --upgrade          have this version serve the mount there is`,
		run: runMount,
	}
}

type mountFlags struct {
	at                       string
	exact, foreground, json  bool
	allowOther, noAllowOther bool
	readOnly, private        bool
	upgrade                  bool
}

func runMount(ctx context.Context, e *env) error {
	var f mountFlags
	fs := e.flags()
	fs.StringVar(&f.at, "at", "", "mount on this empty directory instead of in place")
	fs.BoolVar(&f.exact, "exact", false, "mount DIR itself, not the top level of its git work tree")
	fs.BoolVar(&f.foreground, "foreground", false, "stay until the mount ends; ^C unmounts")
	fs.BoolVar(&f.allowOther, "allow-other", false, "let other users in (default for root, and where /etc/fuse.conf allows it)")
	fs.BoolVar(&f.noAllowOther, "no-allow-other", false, "keep other users out, root included")
	fs.BoolVar(&f.readOnly, "read-only", false, "refuse writes through the mount")
	fs.BoolVar(&f.upgrade, "upgrade", false, "let this binary take over a running mount; open files go on")
	fs.BoolVar(&f.json, "json", false, "print what was mounted as JSON")
	args, err := e.parse(fs, 0, 1)
	if err != nil {
		return err
	}
	if f.allowOther && f.noAllowOther {
		return e.usagef("mount: --allow-other and --no-allow-other contradict each other")
	}
	dir := "."
	if len(args) > 0 {
		dir = args[0]
	}
	m, err := e.planMount(dir, f)
	if err != nil {
		return err
	}
	for _, note := range m.notes {
		fmt.Fprintln(e.stderr, "note: "+note)
	}
	if m.already {
		if err := e.renewMount(ctx, &m, f.upgrade); err != nil {
			return err
		}
		e.finishOpen(ctx, m)
		return e.sayMounted(m, supervisor.Report{OK: true, PID: m.mountd}, f.json)
	}
	if f.foreground {
		return e.mountForeground(ctx, m, f.json)
	}
	report, err := e.launch(ctx, m)
	if err != nil {
		return err
	}
	return e.sayMounted(m, report, f.json)
}

// renewMount has this binary take over a mount that another version serves. Where
// that cannot be, the mount stays as it is, unless it was asked for.
func (e *env) renewMount(ctx context.Context, m *plannedMount, asked bool) error {
	state, err := e.paths().State(m.Root)
	if err != nil {
		return err
	}
	old, known := supervisor.ReadRecord(state)
	if !asked && (!known || old.Version == version || !old.Replaceable) {
		return nil
	}
	m.State, m.Exe, m.Version, m.Env, m.Paths = state, e.exe, version, e.standingNowhere(), e.paths()
	pid, err := supervisor.Renew(ctx, m.Config)
	if err != nil {
		return err
	}
	m.mountd = pid
	fmt.Fprintf(e.stderr, "note: version %s took over from version %s\n", version, old.Version)
	return nil
}

// mountForeground is the supervisor itself, with its log on stderr.
func (e *env) mountForeground(ctx context.Context, m plannedMount, asJSON bool) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, w := io.Pipe()
	said := make(chan error, 1)
	go func() {
		report := supervisor.Receive(r, "the log above")
		if report.OK {
			said <- e.sayMounted(m, report, asJSON)
		} else {
			said <- nil
		}
		r.Close()
	}()
	err := supervisor.Supervise(ctx, m.Config, w, slog.New(slog.NewTextHandler(e.stderr, nil)))
	w.Close()
	if serr := <-said; err == nil {
		err = serr
	}
	return err
}

// sayPath has what we print from now on work where it is pasted: a first try runs
// from a checkout, and no shell knows the name.
func (e *env) sayPath(w io.Writer) {
	if _, err := exec.LookPath("cachebro"); err != nil && filepath.Base(e.exe) == "cachebro" {
		fmt.Fprintf(w, "cachebro is not in PATH: export PATH=%s:\"$PATH\"\n", arg(filepath.Dir(e.exe)))
	}
}

// sayMounted tells what is on now, who is not yet in it, and how to leave.
func (e *env) sayMounted(m plannedMount, r supervisor.Report, asJSON bool) error {
	if asJSON {
		return e.printJSON(map[string]any{"root": m.Root, "mountpoint": m.Mountpoint, "already_mounted": m.already, "mountd_pid": r.PID, "state": m.State, "outside": r.Outside, "notes": m.notes})
	}
	at := ""
	if !m.InPlace() {
		at = " at " + quote(m.Mountpoint)
	}
	if m.already {
		fmt.Fprintf(e.stdout, "%s is already mounted%s (mountd pid %d)\n", quote(m.Root), at, r.PID)
		return nil
	}
	fmt.Fprintf(e.stdout, "mounted %s%s: every change is kept from now on\n", quote(m.Root), at)
	stand, ways := mounts.Split(r.Outside)
	if len(stand) > 0 {
		fmt.Fprintf(e.stdout, "these were there before and still work beside the overlay until they change directory (cd .) or reopen:\n  %s\n", oneLine(mounts.Describe(stand, 8)))
	}
	if len(ways) > 0 {
		fmt.Fprintf(e.stdout, "mounts that lead to the project beside the overlay (what is changed there is seen within a second, without its author):\n  %s\n", oneLine(mounts.Describe(ways, 8)))
	}
	if r.Shared != "" {
		fmt.Fprintf(e.stdout, "the project lies on %s: what other machines change is seen within a second, without its author\n", r.Shared)
	}
	if m.InPlace() && e.dir != "" && mounts.Within(e.dir, m.Root) {
		fmt.Fprintln(e.stdout, "run: cd .            (this shell was here before)")
	}
	e.sayPath(e.stdout)
	// Who stands in the mount keeps it busy, the shell that this is pasted into too.
	fmt.Fprintf(e.stdout, "see:   cachebro log      what changed, and who did it\nleave: cd / && cachebro umount %s\n", arg(m.Mountpoint))
	return nil
}
