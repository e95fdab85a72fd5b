package running

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/mounting"
	"cachebro/fusefs/mounts/supervisor"
	"cachebro/store/wire/visible"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// runPrivate runs the command in a new mount namespace. It starts the store daemon outside that
// namespace, because a daemon inside would keep the namespace alive.
//
// A process with several threads cannot enter a user namespace, so a child (cachebro private) is
// started in a new one. The child's uid is mapped to itself. An ambient capability, which survives
// the exec, lets the child mount. If the child cannot start the command, it reports the reason
// through a pipe. began reports whether the command was started.
func (s *session) runPrivate(ctx context.Context) (began bool, err error) {
	c, err := s.Connect(ctx, s.plan.Root)
	if err != nil {
		return false, err
	}
	defer c.Close()
	problems, childEnd, err := os.Pipe()
	if err != nil {
		return false, err
	}
	defer problems.Close()
	defer childEnd.Close()
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
	args := []string{"cachebro", "private", "--root", s.plan.Root, "--mountpoint", s.plan.Mountpoint, "--state", s.plan.State, "--session", s.id, "--client", s.client, "--program", s.path}
	if s.plan.ReadOnly {
		args = append(args, "--read-only")
	}
	cmd := &exec.Cmd{Path: s.Exe, Args: append(append(args, "--"), s.args...), Env: s.Vars, Dir: s.Env.Dir, Stdin: s.Stdin, Stdout: visible.Raw(s.Stdout), Stderr: visible.Raw(s.Stderr), SysProcAttr: attr, ExtraFiles: []*os.File{childEnd}}
	signals, ignore := catch(syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP)
	defer ignore()
	if err := cmd.Start(); err != nil {
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EUSERS) {
			return false, cli.Hintf("sudo sysctl -w kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0, or without --private", "this system does not let you make a user namespace: %v", err)
		}
		return false, fmt.Errorf("enter a namespace: %w", err)
	}
	childEnd.Close()
	stop := passOn(signals, cmd.Process)
	trouble, rerr := io.ReadAll(problems) // returns when the command was started or has failed to start
	err = cli.ChildStatus(cmd.Wait())
	stop()
	if len(trouble) > 0 || rerr != nil {
		return false, cli.Hintf("cachebro run without --private", "%s", trouble)
	}
	if werr := mounting.AwaitStored(ctx, s.Env, s.plan.Root); werr != nil {
		fmt.Fprintf(s.Stderr, "note: %s\n", cli.OneLine(werr.Error()))
	}
	return true, err
}

// PrivateCommand returns the command cachebro private.
func PrivateCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "private", Short: "mounts and runs a command inside a namespace (started by cachebro run --private)",
		Annotations: cli.OwnSignals,
		Hidden:      true,
		Args:        e.Args(1, -1),
	}

	fs := cmd.Flags()
	fs.SetInterspersed(false)
	c := mounting.ConfigFlags(e, fs)
	id := fs.String("session", "", "the session's id")
	client := fs.String("client", "", "the command's name")
	program := fs.String("program", "", "the command's file")
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		if err := mounting.CheckConfig(e, c); err != nil {
			return err
		}
		c.Private = true
		parent := os.NewFile(3, "the parent")
		unix.CloseOnExec(3)
		mountd, err := mountPrivate(c)
		if err != nil {
			_, werr := io.WriteString(parent, cli.OneLine(err.Error()))
			_ = parent.Close()
			if werr != nil {
				return err
			}
			return cli.ExitStatus(1) // the parent reports it
		}
		_ = parent.Close()
		s := session{Env: e, plan: mounting.PlannedMount{Config: *c}, path: *program, args: args, client: *client, id: *id}
		// The command must not inherit this process's capability. Capabilities belong to threads,
		// and the command is started from this one.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
		if err == nil {
			err = s.run(ctx)
		}
		_ = unix.Unmount(c.Mountpoint, unix.MNT_DETACH)
		// Wait for mountd, which still serves processes that the command left in the background.
		mountd.Await(5 * time.Second)
		return err
	})
}

// mountPrivate mounts the project in this namespace and serves it.
func mountPrivate(c *supervisor.Config) (*supervisor.Child, error) {
	// Mounts made in this namespace must not propagate to the outer one.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return nil, fmt.Errorf("make the mount namespace private: %w", err)
	}
	source, err := os.Open(c.Root)
	if err != nil {
		return nil, fmt.Errorf("open the source: %w", err)
	}
	defer source.Close()
	device, err := mountHere(c)
	if err != nil {
		return nil, err
	}
	mountd, err := supervisor.StartMountd(*c, source, device)
	device.Close()
	if err != nil {
		_ = unix.Unmount(c.Mountpoint, unix.MNT_DETACH)
	}
	return mountd, err
}

// mountHere mounts FUSE by mount(2), because fusermount3 has no privileges in a user
// namespace. /dev/fuse must be opened in the namespace that mounts it.
func mountHere(c *supervisor.Config) (*os.File, error) {
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/fuse: %w", err)
	}
	options := []string{
		fmt.Sprintf("fd=%d", device.Fd()), fmt.Sprintf("rootmode=%o", unix.S_IFDIR),
		fmt.Sprintf("user_id=%d", os.Geteuid()), fmt.Sprintf("group_id=%d", os.Getegid()),
		"default_permissions", fmt.Sprintf("max_read=%d", 1<<20),
	}
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV)
	if c.ReadOnly {
		flags |= unix.MS_RDONLY
	}
	if err := unix.Mount(c.Root, c.Mountpoint, "fuse.cachebro", flags, strings.Join(options, ",")); err != nil {
		device.Close()
		return nil, fmt.Errorf("mount inside the namespace: %w", err)
	}
	return device, nil
}
