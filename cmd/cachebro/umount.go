package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"cachebro/cmd/cachebro/overseer"
	"cachebro/cmd/cachebro/project"
	"cachebro/fusefs"
	"cachebro/store/wire"
)

func umountCommand() command {
	return command{
		name: "umount", group: groupSetup, args: "[DIR]", short: "stop watching a project; its files stay as they are",
		long: `Unmounts the overlay and waits until everything that was seen is stored. The
history stays; the next mount goes on with it. A dead mount is cleared away.

Examples:
  cachebro umount
  cachebro umount --lazy ~/src/app     although somebody is still in there`,
		run: runUmount,
	}
}

func runUmount(ctx context.Context, e *env) error {
	fs := e.flags()
	lazy := fs.Bool("lazy", false, "detach now; who is still inside is served until they leave")
	args, err := e.parse(fs, 0, 1)
	if err != nil {
		return err
	}
	m, err := e.findMount(args)
	if err != nil {
		return err
	}
	state, _ := e.paths().State(m.Source)
	record, known := overseer.ReadRecord(state)
	if !known || record.Mountpoint != m.Point {
		record = overseer.Record{PID: project.FindMountd(m.Point), MountID: m.ID, Dev: m.Dev}
	}
	answer := project.Answers(m.Point, 3*time.Second)
	switch {
	case errors.Is(answer, project.ErrDead):
		if err := clearDead(m); err != nil {
			return err
		}
		fmt.Fprintf(e.stdout, "cleared away the dead mount on %s\n", quote(m.Point))
		return nil
	case errors.Is(answer, project.ErrHung) && !*lazy:
		return hintf("cachebro umount --lazy "+quote(m.Point)+" aborts it", "the mount on %s does not answer", quote(m.Point))
	case errors.Is(answer, project.ErrHung):
		if err := abort(m); err != nil {
			return err
		}
	}
	// Our own working directory must not be what keeps it busy.
	if err := os.Chdir("/"); err != nil {
		return err
	}
	users := project.Scan(m.Point, map[int]bool{m.ID: true}, true, nil)
	if err := unmount(m, *lazy); err != nil {
		if errors.Is(err, syscall.EBUSY) {
			return busy(m, users)
		}
		return fmt.Errorf("unmount %s: %w", quote(m.Point), err)
	}
	if *lazy && len(users) > 0 {
		fmt.Fprintf(e.stdout, "detached %s; still inside, and served until they leave: %s\n", quote(m.Point), oneLine(project.Describe(users, 8)))
		return nil
	}
	if err := e.awaitEnd(ctx, record.PID); err != nil {
		return err
	}
	if err := e.awaitStored(ctx, m.Source); err != nil {
		fmt.Fprintf(e.stderr, "note: %s\n", oneLine(err.Error()))
	}
	fmt.Fprintf(e.stdout, "unmounted %s; its history stays (cachebro log)\n", quote(m.Point))
	return nil
}

// findMount finds the mount that a directory argument means: on it or above it.
func (e *env) findMount(args []string) (project.Mount, error) {
	dir := "."
	if len(args) > 0 {
		dir = args[0]
	}
	path, err := e.abs(dir)
	if err != nil {
		return project.Mount{}, err
	}
	mounts, err := project.Overlays()
	if err != nil {
		return project.Mount{}, err
	}
	real := resolveParents(path)
	for _, p := range []string{path, real} {
		if m, ok := project.Above(mounts, p); ok {
			return m, nil
		}
	}
	for _, m := range mounts {
		if project.Within(real, m.Source) {
			return m, nil
		}
	}
	if _, err := os.Lstat(real); err != nil {
		return project.Mount{}, hintf("cachebro status --all", "%s does not exist, so it is not mounted", quote(path))
	}
	return project.Mount{}, hintf("cachebro status --all", "%s is not mounted", quote(path))
}

// unmount asks the kernel, or fusermount3 where only that may.
func unmount(m project.Mount, lazy bool) error {
	if lazy {
		return fusefs.Detach(m.Point)
	}
	var err error
	for try := range 5 {
		// Files that were closed a moment ago are released in the background.
		if err = syscall.Unmount(m.Point, 0); !errors.Is(err, syscall.EBUSY) {
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
	text := strings.TrimSpace(string(out))
	switch {
	case strings.Contains(text, "busy"):
		return syscall.EBUSY
	case text == "":
		return ferr
	}
	return errors.New(text)
}

func busy(m project.Mount, users []project.Proc) error {
	if len(users) == 0 {
		return hintf("cachebro umount --lazy "+quote(m.Point), "%s is in use by a process that cannot be seen from here", quote(m.Point))
	}
	return hintf("cd / && cachebro umount "+quote(m.Point)+", or --lazy to detach it all the same", "%s is in use by %s", quote(m.Point), project.Describe(users, 8))
}

// clearDead detaches a mount that nobody serves.
func clearDead(m project.Mount) error {
	if err := fusefs.Detach(m.Point); err != nil {
		return hintf("umount -l "+quote(m.Point)+" as the user who mounted it, or as root", "the dead mount on %s cannot be cleared away: %v", quote(m.Point), err)
	}
	return nil
}

// abort ends the connection of a mount that hangs: its users get errors instead
// of waiting for ever.
func abort(m project.Mount) error {
	_, minor, _ := strings.Cut(m.Dev, ":")
	name := filepath.Join("/sys/fs/fuse/connections", minor, "abort")
	if err := os.WriteFile(name, []byte("1"), 0); err != nil {
		return hintf("echo 1 | sudo tee "+name, "the hung mount on %s cannot be aborted: %v", quote(m.Point), err)
	}
	return nil
}

// awaitEnd waits until mountd has handed over everything and ended.
func (e *env) awaitEnd(ctx context.Context, pid int) error {
	said := false
	for start := time.Now(); project.Running(pid, 0); {
		if !said && time.Since(start) > 2*time.Second {
			said = true
			fmt.Fprintf(e.stderr, "waiting until mountd (pid %d) has stored what it saw …\n", pid)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// awaitStored waits until the daemon has everything from the spool, 30 s at
// most: later it goes on by itself.
func (e *env) awaitStored(ctx context.Context, root string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	c, err := e.connect(ctx, root)
	if err != nil {
		return fmt.Errorf("what was seen waits in the spool: %w", err)
	}
	defer c.Close()
	for {
		st, err := wire.Call[wire.Status](ctx, c, wire.MStatus, wire.Empty{})
		if err != nil {
			return fmt.Errorf("what was seen waits in the spool: %w", err)
		}
		if st.Store.Lag == 0 {
			return nil
		}
		if !st.Store.Healthy {
			return fmt.Errorf("%d records wait in the spool: %s", st.Store.Lag, st.Store.Reason)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
