package mounting

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"cachebro/cmd/cachebro/cli"
	"cachebro/fusefs/mounts"
	"cachebro/fusefs/mounts/supervisor"
	"cachebro/store/leaf/procfs"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
)

// MountCommand returns the command cachebro mount.
func MountCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "mount [DIR]", Short: "watch a project: mount the overlay over it",
		Long: `Mounts the overlay over the project, in place: the same path, the same files,
but everything that any process does there is recorded. The files stay plain
files in the same directory; cachebro umount, a crash or a reboot leave them
exactly as they are.

Inside a git work tree the top level of the work tree is mounted.`,
		Example: `  cachebro mount
  cachebro mount ~/src/app
  cachebro mount ~/src/app --at /tmp/watched
  cachebro mount --upgrade          let this version serve the existing mount
  cachebro mount --all              every project that is up, after a reboot`,
		Args: e.Args(0, 1),
	}

	var f MountFlags
	fs := cmd.Flags()
	fs.StringVar(&f.At, "at", "", "mount on this empty directory instead of in place")
	fs.BoolVar(&f.Exact, "exact", false, "mount DIR itself, not the top level of its git work tree; also allows your home directory and system directories")
	fs.BoolVar(&f.foreground, "foreground", false, "stay in the foreground until the mount ends; ^C unmounts")
	fs.BoolVar(&f.allowOther, "allow-other", false, "let other users use the mount (the default for root, and if /etc/fuse.conf allows it)")
	fs.BoolVar(&f.noAllowOther, "no-allow-other", false, "do not let other users use the mount, not even root")
	fs.BoolVar(&f.readOnly, "read-only", false, "refuse writes through the mount")
	fs.BoolVar(&f.upgrade, "upgrade", false, "let this binary take over a running mount; open files stay open")
	fs.BoolVar(&f.all, "all", false, "mount every project that cachebro up was run for")
	fs.BoolVar(&f.Beside, "beside", false, "mount even if a process has a file of the project open for reading and writing, mapped or locked")
	fs.BoolVar(&f.json, "json", false, "print what was mounted as JSON")
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		if f.allowOther && f.noAllowOther {
			return e.Usagef("mount: --allow-other and --no-allow-other contradict each other")
		}
		if f.all {
			if len(args) > 0 {
				return e.Usagef("mount: --all and a directory contradict each other")
			}
			return mountAll(ctx, e)
		}
		m, err := PlanMount(e, cli.First(args, "."), f)
		if err != nil {
			return err
		}
		for _, note := range m.Notes {
			fmt.Fprintln(e.Stderr, "note: "+note)
		}
		if m.Elsewhere != nil {
			return m.Elsewhere
		}
		if m.Already {
			if err := Renew(ctx, e, &m, f.upgrade); err != nil {
				return err
			}
			finishOpen(ctx, e, m)
			return SayMounted(e, m, supervisor.Report{OK: true, PID: m.Mountd}, f.json)
		}
		if f.foreground {
			return mountForeground(ctx, e, m, f.json)
		}
		report, err := Launch(ctx, e, m)
		if err != nil {
			return err
		}
		return SayMounted(e, m, report, f.json)
	})
}

// MountFlags control how to mount. The zero value mounts in place, for all users if possible.
type MountFlags struct {
	At                       string // where to mount, "" in place
	Exact, foreground, json  bool
	allowOther, noAllowOther bool
	readOnly, Private        bool
	upgrade, all             bool
	Beside                   bool // mount even if a process uses a file of the project as a database
}

// mountAll mounts each project that cachebro up was run for. It continues if one of them cannot be
// mounted.
func mountAll(ctx context.Context, e *cli.Env) error {
	var failed error
	for _, root := range SetUpRoots(e) {
		if _, err := MountForSession(ctx, e, root); err != nil {
			failed = cli.ExitStatus(1)
			fmt.Fprintf(e.Stderr, "cachebro: %s: %s\n", cli.Quote(root), cli.OneLine(err.Error()))
			continue
		}
		fmt.Fprintf(e.Stdout, "mounted %s\n", cli.Quote(root))
	}
	return failed
}

// Renew lets this binary take over a running mount. If asked is false, it does nothing unless the
// mount is served by an older version that can be replaced. If asked is true, it returns an error if
// a newer version serves the mount.
func Renew(ctx context.Context, e *cli.Env, m *PlannedMount, asked bool) error {
	state, err := e.Paths().State(m.Root)
	if err != nil {
		return err
	}
	old, known := supervisor.ReadRecord(state)
	newer := known && wire.Older(cli.Version, old.Version)
	older := known && !newer && old.Version != cli.Version
	if !asked && !(older && old.Replaceable) {
		return nil
	}
	if newer {
		return cli.Hintf("cd / && cachebro umount "+cli.Arg(m.Mountpoint), "%s is served by version %s, which is newer than this one (%s), so it was left alone", cli.Quote(m.Mountpoint), old.Version, cli.Version)
	}
	m.Exe, err = e.SelfOutside(m.Mountpoint, state)
	if err != nil {
		return fmt.Errorf("copy this binary out of the project: %w", err)
	}
	m.State, m.Version = state, cli.Version
	m.Env, m.Paths = serverEnv(e), e.Paths()
	pid, err := supervisor.Renew(ctx, m.Config)
	if err != nil {
		return err
	}
	m.Mountd = pid
	fmt.Fprintf(e.Stderr, "note: version %s took over from version %s\n", cli.Version, old.Version)
	return nil
}

// mountForeground runs the supervisor in this process, with its log on stderr.
func mountForeground(ctx context.Context, e *cli.Env, m PlannedMount, asJSON bool) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, w := io.Pipe()
	printed := make(chan error, 1)
	go func() {
		report := supervisor.Receive(r, "the log above")
		if report.OK {
			printed <- SayMounted(e, m, report, asJSON)
		} else {
			printed <- nil
		}
		r.Close()
	}()
	err := supervisor.Supervise(ctx, m.Config, w, slog.New(slog.NewTextHandler(e.Stderr, nil)))
	w.Close()
	if serr := <-printed; err == nil {
		err = serr
	}
	return err
}

// SayPath prints how to add this binary to PATH if it is not there, so that the printed commands
// can be pasted. People often try cachebro from a checkout first.
func SayPath(e *cli.Env, w io.Writer) {
	if _, err := exec.LookPath("cachebro"); err != nil && filepath.Base(e.Exe) == "cachebro" {
		fmt.Fprintf(w, "cachebro is not in PATH: export PATH=%s:\"$PATH\"\n", cli.Arg(filepath.Dir(e.Exe)))
	}
}

// npxOf returns the processes that npx starts between a shell and this process. They are not
// reported as users of the project, because they only wait for this process.
func npxOf(parent int) map[int]bool {
	all := map[int]bool{}
	for pid, depth := parent, 0; depth < 6 && pid > 1; depth++ { // usually npm, sh and node
		st, err := procfs.ReadStat(pid)
		if err != nil {
			return nil
		}
		all[pid] = true
		if strings.HasPrefix(st.Comm, "npm ") || st.Comm == "npx" {
			return all
		}
		pid = st.Parent
	}
	return nil
}

// SayMounted prints what is mounted, which processes still bypass the mount, and how to unmount.
func SayMounted(e *cli.Env, m PlannedMount, r supervisor.Report, asJSON bool) error {
	if asJSON {
		return e.PrintJSON(map[string]any{"root": m.Root, "mountpoint": m.Mountpoint, "already_mounted": m.Already, "mountd_pid": r.PID, "state": m.State, "outside": r.Outside, "notes": m.Notes})
	}
	at := ""
	if !m.InPlace() {
		at = " at " + cli.Quote(m.Mountpoint)
	}
	if m.Already {
		fmt.Fprintf(e.Stdout, "%s is already mounted%s (mountd pid %d)\n", cli.Quote(m.Root), at, r.PID)
		return nil
	}
	fmt.Fprintf(e.Stdout, "mounted %s%s: every change is recorded from now on\n", cli.Quote(m.Root), at)
	stand, ways := mounts.Split(r.Outside)
	inside := m.InPlace() && e.Dir != "" && mounts.Within(e.Dir, m.Root)
	npx := npxOf(os.Getppid())
	stand = slices.DeleteFunc(stand, func(p mounts.Proc) bool { return npx[p.PID] || inside && p.PID == os.Getppid() })
	if len(stand) > 0 {
		fmt.Fprintf(e.Stdout, "bypassing the mount until they change directory (cd .) or open their files again: %s\n", cli.OneLine(mounts.Describe(stand, 8)))
	}
	if used, _ := mounts.Used(ways); len(used) > 0 {
		fmt.Fprintf(e.Stdout, "other mounts of the project that bypass the overlay and are in use (cachebro status explains this):\n  %s\n", cli.OneLine(mounts.Describe(used, 8)))
	}
	if r.Shared != "" {
		fmt.Fprintf(e.Stdout, "the project is on %s, so changes by other machines are seen within a second, but without their author\n", r.Shared)
	}
	if m.First && m.InPlace() {
		fmt.Fprintf(e.Stdout, "a backup that stays on one file system (-x) skips the mount, so name it too, as in restic backup -x ~ %s\n", cli.Arg(m.Mountpoint))
	}
	SayPath(e, e.Stdout)
	// The umount command begins with cd, because a shell with its directory in the mount keeps it
	// busy.
	next := "cachebro log             what changed, and who did it"
	if inside {
		next = "cd . && cachebro log     what changed, and who did it (cd . brings this shell into the mount)"
	}
	fmt.Fprintf(e.Stdout, "next:  %s\nleave: cd / && cachebro umount %s\n", next, cli.Arg(m.Mountpoint))
	return nil
}
