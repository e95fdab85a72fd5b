package setup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/mounting"
	"cachebro/fusefs/mounts"
	"cachebro/fusefs/mounts/supervisor"
	"cachebro/fusefs/outside"
	"cachebro/hooks/clients"

	"github.com/spf13/cobra"
)

// UpCommand returns the command cachebro up.
func UpCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "up [DIR]", Short: "mount the project and register with the installed agents",
		Long: `Checks the machine, shows what it would write into the agents' configuration, asks,
and mounts the project. An agent's session that begins in the project later, for
example after a reboot, mounts it again. cachebro down undoes all of this.

If nothing can be mounted, as in a container without /dev/fuse, the agents are
configured nevertheless, because repeated reads still save tokens. An agent's changes
can then be undone only if it was started by cachebro run; up prints a shell alias
that does so.`,
		Example: `  cachebro up
  cachebro up ~/src/app --yes
  cachebro up --at-login
  cachebro up --client claude --dry-run`,
		Args: e.Args(0, 1),
	}

	var f InitFlags
	fs := cmd.Flags()
	f.add(fs)
	login := fs.Bool("at-login", false, "also mount at your next login (for root: at boot), by a systemd unit or a launchd agent")
	noClients := fs.Bool("no-init", false, "do not change the agents' configuration")
	beside := fs.Bool("beside", false, "mount even if a process has a file of the project open for reading and writing, mapped or locked")
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		if err := f.check(e); err != nil {
			return err
		}
		m, why := mounting.PlanMount(e, cli.First(args, "."), mounting.MountFlags{Beside: *beside})
		if why != nil && m.Root == "" {
			return why
		}
		for _, note := range m.Notes {
			fmt.Fprintln(e.Stderr, "note: "+note)
		}
		printMachine(e, m, why)
		var partly error
		if !*noClients {
			partly = upClients(e, f, m.Root)
			if !errors.As(partly, new(cli.ExitStatus)) && partly != nil {
				return partly
			}
		}
		if f.dryRun {
			return partly
		}
		if err := mounting.MarkSetUp(e, m.Root, true); err != nil {
			return err
		}
		if *login {
			if err := atLogin(e); err != nil {
				return err
			}
		}
		if why != nil {
			fmt.Fprintf(e.Stdout, "%s is not mounted: %s; repeated reads still save tokens\nundo: cachebro down %s\n", cli.Quote(m.Root), mounting.Unmounted(), cli.Arg(m.Root))
			printAliases(e)
			return why
		}
		report := supervisor.Report{OK: true, PID: m.Mountd}
		if !m.Already {
			var err error
			report, err = mounting.Launch(ctx, e, m)
			if err != nil {
				return err
			}
		}
		if err := mounting.SayMounted(e, m, report, false); err != nil {
			return err
		}
		fmt.Fprintf(e.Stdout, "a session that begins here mounts it again · undo: cachebro down %s · check: cachebro doctor\n", cli.Arg(m.Root))
		return partly
	})
}

// printMachine prints whether the project is or will be mounted, or why it cannot be.
func printMachine(e *cli.Env, m mounting.PlannedMount, why error) {
	switch {
	case why != nil:
		fmt.Fprintf(e.Stderr, "cachebro: %s\n", cli.OneLine(why.Error()))
	case m.Already:
		fmt.Fprintf(e.Stdout, "%s is mounted already\n", cli.Quote(m.Root))
	default:
		fmt.Fprintf(e.Stdout, "will mount %s\n", cli.Quote(m.Root))
	}
}

// printAliases prints aliases that start agents with cachebro run, for projects that cannot be
// mounted. It would not be enough to set CLAUDE_CODE_SHELL_PREFIX, which puts a program in front of
// the client's shell commands, because the client's own tools write files too.
func printAliases(e *cli.Env) {
	s, err := Setup(e, InitFlags{}, "")
	if err != nil || !outside.Possible() {
		return
	}
	programs := clients.TerminalPrograms(s)
	if len(programs) == 0 {
		return
	}
	fmt.Fprintln(e.Stdout, "an agent's changes can be undone only if cachebro run starts it; add to your shell's configuration:")
	for _, p := range programs {
		fmt.Fprintf(e.Stdout, "  alias %s='cachebro run -- %s'\n", p, p)
	}
}

// upClients does what init does, as a part of up. Unlike init, it does not fail if no agent is
// installed.
func upClients(e *cli.Env, f InitFlags, root string) error {
	s, err := Setup(e, f, "")
	if err != nil {
		return err
	}
	if f.clients == nil && len(clients.FoundClients(s)) == 0 && !f.agentsMD {
		fmt.Fprintf(e.Stdout, "no agent was found (%s); cachebro run -- COMMAND works without one\n", strings.Join(clients.Clients(), ", "))
		return nil
	}
	changes, s, err := planInit(e, f, root)
	if err != nil {
		return err
	}
	f.brief = true
	err = applyChanges(e, s, changes, f, "write")
	if !f.dryRun && !errors.Is(err, cli.ErrDeclined) {
		printNotes(e, changes)
	}
	return err
}

// DownCommand returns the command cachebro down.
func DownCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "down [DIR]", Short: "undo what up did; the history stays",
		Long: `Unmounts the project and removes cachebro from the agents' configuration, unless
another project of yours is still up. The history stays, and a later cachebro up
continues it.`,
		Example: `  cachebro down
  cachebro down ~/src/app --yes
  cachebro down --lazy      even if processes still use the mount`,
		Args: e.Args(0, 1),
	}

	var f InitFlags
	fs := cmd.Flags()
	f.addCommon(fs)
	lazy := fs.Bool("lazy", false, "detach now; processes that use the mount are served until they leave it")
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		if err := f.check(e); err != nil {
			return err
		}
		t, err := e.Locate(cli.First(args, "."))
		if err != nil {
			return err
		}
		if err := mounting.CheckExists(e, t.Base(), cli.First(args, ".")); err != nil {
			return err
		}
		partly := downClients(e, t.Root, f)
		if !errors.As(partly, new(cli.ExitStatus)) && partly != nil || f.dryRun {
			return partly
		}
		if err := mounting.MarkSetUp(e, t.Root, false); err != nil {
			return err
		}
		if len(mounting.SetUpRoots(e)) == 0 {
			if err := notAtLogin(e); err != nil {
				return err
			}
		}
		overlays, err := mounts.Overlays()
		if err != nil {
			return err
		}
		for _, m := range overlays {
			if m.Source == t.Root {
				if err := mounting.Umount(ctx, e, m.Point, *lazy, false); err != nil {
					return err
				}
				return partly
			}
		}
		fmt.Fprintf(e.Stdout, "%s is not mounted; its history stays (cachebro log)\n", cli.Quote(t.Root))
		return partly
	})
}

// downClients removes the agents' configuration, unless another project is still up.
func downClients(e *cli.Env, root string, f InitFlags) error {
	for _, other := range mounting.SetUpRoots(e) {
		if other != root && f.clients == nil {
			fmt.Fprintf(e.Stdout, "the agents stay configured, because %s is up too (cachebro uninit removes the configuration nevertheless)\n", cli.Quote(other))
			return nil
		}
	}
	s, err := Setup(e, f, "")
	if err != nil {
		return err
	}
	if f.clients == nil {
		s.AgentsMD = agentsMD(e, []string{root})
	}
	if f.project {
		s.Project = root
	}
	changes, err := clients.PlanUninit(s, f.clients)
	if err != nil {
		return err
	}
	f.brief = true
	return applyChanges(e, s, onlyReal(changes), f, "remove cachebro from")
}

// onlyReal drops the files that would not change, because down looks at all clients. It keeps a
// file that cannot be parsed only if the file mentions cachebro.
func onlyReal(changes []clients.Change) []clients.Change {
	var out []clients.Change
	for _, c := range changes {
		if c.Err != nil && bytes.Contains(c.Before, []byte("cachebro")) || !c.None() {
			out = append(out, c)
		}
	}
	return out
}
