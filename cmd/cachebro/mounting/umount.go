package mounting

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/fusefs"
	"cachebro/fusefs/mounts"
	"cachebro/fusefs/mounts/supervisor"
	"cachebro/fusefs/past"
	"cachebro/store/leaf/loop"
	"cachebro/store/leaf/procfs"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
)

// UmountCommand returns the command cachebro umount.
func UmountCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "umount [DIR]", Short: "stop watching a project; its files stay as they are",
		Long: `Unmounts the overlay and waits until everything that it recorded is stored. The
history stays, and the next mount continues it. A dead mount is removed.

Another mount namespace (a container, a service) may hold a copy of the mount.
umount lists such copies, which continue to work. If a process has something open
in a copy, the exit status is 3.`,
		Example: `  cachebro umount
  cachebro umount --lazy ~/src/app   even if processes still use the mount
  cachebro umount --force            those processes get errors from now on`,
		Args: e.Args(0, 1),
	}

	fs := cmd.Flags()
	lazy := fs.Bool("lazy", false, "detach now; processes that use the mount are served until they leave it")
	force := fs.Bool("force", false, "detach now, and end the mount for every process that uses it, including those in other mount namespaces")
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		return Umount(ctx, e, cli.First(args, "."), *lazy, *force)
	})
}

// Umount unmounts the mount of dir.
func Umount(ctx context.Context, e *cli.Env, dir string, lazy, force bool) error {
	m, err := findMount(e, dir)
	if err != nil {
		if left, ok := findDetached(e, dir); ok {
			return finishDetached(ctx, e, left, force)
		}
		return err
	}
	state, _ := e.Paths().State(m.Source)
	if other := e.Elsewhere(m); other != nil {
		// HOME is not the home directory of the mount's owner (sudo -H), so use the state directory
		// of the mount.
		state = other.State
		e = e.WithState(filepath.Dir(state))
	}
	e.LeaveMount(m.Point, state)
	record, known := supervisor.ReadRecord(state)
	if !known || record.Mountpoint != m.Point {
		record = supervisor.Record{PID: mounts.FindMountd(m.Point), Mountpoint: m.Point, MountID: m.ID, Dev: m.Dev}
	}
	answer := mounts.Answers(m.Point, 3*time.Second)
	switch {
	case errors.Is(answer, mounts.ErrDead):
		if err := clearDead(m); err != nil {
			return err
		}
		fmt.Fprintf(e.Stdout, "removed the dead mount on %s\n", cli.Quote(m.Point))
		return nil
	case errors.Is(answer, mounts.ErrHung) && !lazy && !force:
		return cli.Hintf("cachebro umount --force "+cli.Arg(m.Point)+" aborts it", "the mount on %s does not answer", cli.Quote(m.Point))
	case errors.Is(answer, mounts.ErrHung):
		if err := abort(m, record); err != nil {
			return err
		}
	}
	if err := CheckExists(e, m.Point, dir); err != nil {
		return err
	}
	// This process's working directory must not keep the mount busy.
	if err := os.Chdir("/"); err != nil {
		return err
	}
	users := mounts.Scan(m.Point, map[int]bool{m.ID: true}, true, nil)
	if lazy && !force {
		if open := mounts.DatabaseUsers(m.Point, mounts.Ours); len(open) > 0 {
			fmt.Fprintf(e.Stderr, "note: the processes below have files open on the detached mount, while other processes may now open the same files without the mount. Locks work for both. A file that a process on one side has mapped into memory is locked for the other side. Restart these processes when you can:\n  %s\n", cli.OneLine(mounts.Describe(open, 8)))
		}
	}
	if err := unmount(m, lazy || force); err != nil {
		if errors.Is(err, syscall.EBUSY) {
			return busy(m, users)
		}
		return fmt.Errorf("unmount %s: %w", cli.Quote(m.Point), err)
	}
	past.Leave(m.Source)
	if lazy && !force && len(users) > 0 {
		fmt.Fprintf(e.Stdout, "detached %s; still using it, and served until they leave it: %s\n", cli.Quote(m.Point), cli.OneLine(mounts.Describe(users, 8)))
		return nil
	}
	left := detachedMount{root: m.Source, state: state, record: record}
	left.record.Dev = cmp.Or(left.record.Dev, m.Dev)
	return finish(ctx, e, left, force)
}

// statusHeld is the exit status if the mount was unmounted but other namespaces or processes still
// use it.
const statusHeld cli.ExitStatus = 3

// detachedMount is a mount that was unmounted in this mount namespace while its mountd still runs.
type detachedMount struct {
	root, state string
	record      supervisor.Record
}

// findDetached finds a detachedMount by the record of dir's project.
func findDetached(e *cli.Env, dir string) (detachedMount, bool) {
	t, err := e.Locate(dir)
	if err != nil {
		return detachedMount{}, false
	}
	state, err := e.Paths().State(t.Root)
	if err != nil {
		return detachedMount{}, false
	}
	r, ok := supervisor.ReadRecord(state)
	return detachedMount{t.Root, state, r}, ok && r.Unmounted && mounts.Running(r.PID, 0) && mounts.Ours(r.PID)
}

// finishDetached handles umount of a mount that was already unmounted.
func finishDetached(ctx context.Context, e *cli.Env, l detachedMount, force bool) error {
	if !force {
		fmt.Fprintf(e.Stderr, "%s is already unmounted\n", cli.Quote(l.record.Mountpoint))
		return printUsers(e, l)
	}
	return finish(ctx, e, l, true)
}

// finish waits until everything that mountd recorded is stored, and prints who still uses the
// mount.
func finish(ctx context.Context, e *cli.Env, l detachedMount, force bool) error {
	held, err := awaitEnd(ctx, e, l, force)
	if err != nil {
		return err
	}
	if !cli.OwnDir(l.state) {
		// Another user's daemon refuses this user's connection, and a daemon of this user would
		// begin a second history. The owner's daemon stores what is in the spool.
		fmt.Fprintf(e.Stderr, "note: the owner's store daemon stores the latest changes\n")
	} else if left, ok := wire.ReadMountEnd(l.state); ok && left.PID == l.record.PID {
		// No daemon ran, and there was nothing to store.
	} else if err := AwaitStored(ctx, e, l.root); err != nil {
		fmt.Fprintf(e.Stderr, "note: %s\n", cli.OneLine(err.Error()))
	} else {
		sendLast(ctx, e, l.root)
	}
	fmt.Fprintf(e.Stdout, "unmounted %s; its history stays (cachebro log)\n", cli.Quote(l.record.Mountpoint))
	if held {
		return printUsers(e, l)
	}
	return nil
}

// users returns the processes that have something open on a mount that was unmounted, and the mount
// namespaces that have a copy of it. seen is false if it found neither.
func (l detachedMount) users() (users []mounts.Proc, holders []mounts.Holder, seen bool) {
	holders = mounts.Holders(l.record.Dev)
	for _, h := range holders {
		users = append(users, h.Users...)
	}
	users = append(users, mounts.Scan(l.record.Mountpoint, map[int]bool{l.record.MountID: true}, true, mounts.Ours)...)
	return users, holders, len(users)+len(holders) > 0
}

// printUsers prints who still uses a mount that was unmounted. It returns statusHeld, or nil if no
// process has anything open in the copies of the mount.
func printUsers(e *cli.Env, l detachedMount) error {
	users, holders, seen := l.users()
	for _, h := range holders {
		fmt.Fprintf(e.Stderr, "note: the mount namespace %s holds a copy of the mount (pid %d: %s)\n", h.Namespace, h.PID, cli.OneLine(h.Command))
	}
	switch {
	case !seen:
		fmt.Fprintf(e.Stderr, "note: the mount is still in use by a process or a mount namespace that cannot be seen from here\n")
	case len(users) > 0:
		fmt.Fprintf(e.Stderr, "note: the mount is still in use by %s\n", cli.OneLine(mounts.Describe(users, 8)))
	default:
		fmt.Fprintf(e.Stderr, "note: no process has anything open in the copies; mountd (pid %d) runs until these namespaces end, and cachebro mount reuses it\n", l.record.PID)
		return nil
	}
	fmt.Fprintf(e.Stderr, "note: mountd (pid %d) serves these users until they end\nhint: cachebro umount --force %s ends the mount for them\n", l.record.PID, cli.Arg(l.record.Mountpoint))
	return statusHeld
}

// findMount returns the mount that contains dir, or whose source contains dir.
func findMount(e *cli.Env, dir string) (mounts.Mount, error) {
	path, err := e.Abs(dir)
	if err != nil {
		return mounts.Mount{}, err
	}
	overlays, err := mounts.Overlays()
	if err != nil {
		return mounts.Mount{}, err
	}
	real := cli.ResolveParents(path)
	for _, p := range []string{path, real, cli.Followed(real)} {
		if m, ok := mounts.Above(overlays, p); ok {
			return m, nil
		}
	}
	for _, m := range overlays {
		if mounts.Within(real, m.Source) {
			return m, nil
		}
	}
	if _, err := os.Lstat(real); err != nil {
		return mounts.Mount{}, cli.Hintf("cachebro status --all", "%s does not exist, so it is not mounted", cli.Quote(path))
	}
	return mounts.Mount{}, cli.Hintf("cachebro status --all", "%s is not mounted", cli.Quote(path))
}

// CheckExists returns an error if dir is a missing name in a project that answers. The commands that
// end a mount would take it for the whole project.
func CheckExists(e *cli.Env, project, dir string) error {
	path, err := e.Abs(dir)
	if err != nil || path == project || mounts.Answers(project, 3*time.Second) != nil {
		return err
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return cli.UsageHint("the project is "+cli.Quote(project), "%s: there is no such directory", cli.Quote(dir))
	}
	return nil
}

// unmount unmounts m, through fusermount3 if umount(2) is not permitted.
func unmount(m mounts.Mount, lazy bool) error {
	if lazy {
		return fusefs.Detach(m.Point)
	}
	var err error
	for try := range 12 {
		// Try more than once, because recently closed files are released in the background, and a
		// signalled process takes a moment to end.
		err = syscall.Unmount(m.Point, 0)
		if !errors.Is(err, syscall.EBUSY) {
			break
		}
		time.Sleep(time.Duration(try+1) * 10 * time.Millisecond)
	}
	if err == nil || errors.Is(err, syscall.EBUSY) {
		return err
	}
	out, ferr := exec.Command("fusermount3", "-u", "--", m.Point).CombinedOutput()
	if ferr == nil {
		return nil
	}
	output := strings.TrimSpace(string(out))
	switch {
	case strings.Contains(output, "busy"):
		return syscall.EBUSY
	case output == "":
		return ferr
	}
	return errors.New(output)
}

func busy(m mounts.Mount, users []mounts.Proc) error {
	if inside, ok := mountInside(m); ok {
		return cli.Hintf("umount "+cli.Arg(inside.Point)+" && cachebro umount "+cli.Arg(m.Point), "%s is in use by the mount on %s (%s)", cli.Quote(m.Point), cli.Quote(inside.Point), inside.Type)
	}
	if len(users) == 0 {
		return cli.Hintf("cachebro umount --lazy "+cli.Arg(m.Point), "%s is in use by a process that cannot be seen from here", cli.Quote(m.Point))
	}
	ours := map[int]bool{}
	for pid := os.Getppid(); pid > 1; pid = parentOf(pid) {
		ours[pid] = true
	}
	leaving := true // true if all users are ancestors of this process, so that a cd in the shell is enough
	for _, p := range users {
		leaving = leaving && ours[p.PID]
		for pid := p.PID; pid > 1; pid = parentOf(pid) {
			if command := strings.Join(procfs.Args(pid), " "); strings.Contains(command, "codex") && strings.Contains(command, "app-server") {
				return cli.Hintf(fmt.Sprintf("kill %d && cachebro umount %s", pid, cli.Arg(m.Point)),
					"%s is in use by %s, which belongs to an app server that Codex left running (pid %d); Codex starts a new one when needed", cli.Quote(m.Point), p, pid)
			}
		}
	}
	if leaving {
		return cli.Hintf("cd / && cachebro umount "+cli.Arg(m.Point), "%s is in use by %s", cli.Quote(m.Point), mounts.Describe(users, 8))
	}
	return cli.Hintf("cachebro umount --lazy "+cli.Arg(m.Point)+" detaches it nevertheless", "%s is in use by %s", cli.Quote(m.Point), mounts.Describe(users, 8))
}

// mountInside returns the newest file system that is mounted on a directory of m.
func mountInside(m mounts.Mount) (inside mounts.Mount, ok bool) {
	all, _ := mounts.Mounts() // if this fails, busy still names the processes
	byID := map[int]int{}
	for _, a := range all {
		byID[a.ID] = a.Parent
	}
	for _, a := range all {
		for id := a.Parent; id != 0 && byID[id] != id; id = byID[id] {
			if id == m.ID {
				inside, ok = a, true
				break
			}
		}
	}
	return inside, ok
}

// clearDead detaches a mount whose processes are all gone.
func clearDead(m mounts.Mount) error {
	if err := fusefs.Detach(m.Point); err != nil {
		return cli.Hintf("umount -l "+cli.Arg(m.Point)+" as the user who mounted it, or as root", "the dead mount on %s cannot be removed: %v", cli.Quote(m.Point), err)
	}
	return nil
}

// abort ends the FUSE connection of a hung mount, so that its users get errors instead of waiting
// forever. Without write access to the kernel's abort file, it kills the processes that serve the
// mount.
func abort(m mounts.Mount, r supervisor.Record) error {
	_, minor, _ := strings.Cut(m.Dev, ":")
	name := filepath.Join("/sys/fs/fuse/connections", minor, "abort")
	err := os.WriteFile(name, []byte("1"), 0)
	if err == nil {
		return nil
	}
	killed := false
	for _, pid := range []int{r.Supervisor, r.PID} { // the supervisor first, because it would replace mountd
		if pid > 0 && mounts.Ours(pid) && syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed = true
		}
	}
	if !killed {
		return cli.Hintf("echo 1 | sudo tee "+name, "the hung mount on %s cannot be aborted: %v", cli.Quote(m.Point), err)
	}
	return nil
}

const (
	// copyWait is how long umount waits for processes that still have a copy of the mount. Most of
	// them end soon.
	copyWait = 3 * time.Second
	// endWait is how long umount waits for mountd to store what it saw.
	endWait = 30 * time.Second
)

// awaitEnd waits until mountd has handed over everything and ended. held is true if mountd keeps
// running to serve copies of the mount in other namespaces. With force, awaitEnd sends mountd a
// SIGTERM.
func awaitEnd(ctx context.Context, e *cli.Env, l detachedMount, force bool) (held bool, err error) {
	reported, killed := false, false
	start := time.Now()
	for pause := 5 * time.Millisecond; mounts.Running(l.record.PID, 0); pause = min(2*pause, 100*time.Millisecond) {
		waited := time.Since(start)
		r, ok := supervisor.ReadRecord(l.state)
		left := ok && r.Unmounted && r.PID == l.record.PID
		switch {
		case left && !force && waited > copyWait:
			return true, nil
		case left && force && !killed:
			killed = true
			if err := syscall.Kill(l.record.PID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
				return true, fmt.Errorf("end mountd (pid %d): %w", l.record.PID, err)
			}
		case waited > endWait:
			return true, cli.Hintf("cachebro status", "mountd (pid %d) has not stored everything that it recorded within %v; it continues to do so", l.record.PID, endWait)
		case waited > 2*time.Second && !reported && !left:
			reported = true
			fmt.Fprintf(e.Stderr, "waiting until mountd (pid %d) has stored what it recorded …\n", l.record.PID)
		}
		if !loop.Pause(ctx, pause) {
			return false, ctx.Err()
		}
	}
	return false, nil
}

// AwaitStored waits up to 30 s until the daemon has stored everything from the spool. After that,
// the daemon continues by itself.
func AwaitStored(ctx context.Context, e *cli.Env, root string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	c, err := e.Connect(ctx, root)
	if err != nil {
		return fmt.Errorf("the latest changes are in the spool, and not yet stored: %w", err)
	}
	defer c.Close()
	pause := 5 * time.Millisecond
	for {
		st, err := wire.Call[wire.Status](ctx, c, wire.MStatus, wire.Empty{})
		if err != nil {
			return fmt.Errorf("the latest changes are in the spool, and not yet stored: %w", err)
		}
		if st.Store.Lag == 0 {
			return nil
		}
		if !st.Store.Healthy {
			return fmt.Errorf("the spool holds about %s not yet stored: %s", text.Count(st.Store.Lag, "record"), st.Store.Reason)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the spool holds about %s not yet stored: %w", text.Count(st.Store.Lag, "record"), ctx.Err())
		case <-time.After(pause):
			pause = min(2*pause, 200*time.Millisecond)
		}
	}
}

const sendWithin = 10 * time.Second

// sendLast sends stored versions to the project's bucket, if there is one, and prints how many
// could not be sent.
func sendLast(ctx context.Context, e *cli.Env, root string) {
	c, err := e.ConnectAs(ctx, root, "cli", wire.Timeouts{Answer: sendWithin + 5*time.Second})
	if err != nil {
		return // unlikely, because AwaitStored has just reached the daemon
	}
	defer c.Close()
	st, err := wire.Call[wire.RemoteState](ctx, c, wire.MRemote, wire.RemoteRequest{})
	if err != nil || st.URL == "" {
		return
	}
	if now, err := wire.Call[wire.RemoteState](ctx, c, wire.MRemote, wire.RemoteRequest{Do: "send", Within: sendWithin}); err == nil {
		st = now
	}
	if st.Unsent == 0 {
		return
	}
	why := ""
	if st.Error != "" {
		why = ": " + cli.OneLine(st.Error)
	}
	fmt.Fprintf(e.Stderr, "note: %s not yet sent to the bucket%s\nhint: cachebro remote send --dir %s\n", text.Count(int(st.Unsent), "version"), why, cli.Arg(root))
}

func parentOf(pid int) int {
	st, _ := procfs.ReadStat(pid)
	return st.Parent
}
