package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"cachebro/fusefs/mounts"
	"cachebro/fusefs/mounts/supervisor"
	"cachebro/hooks"
)

func upCommand() command {
	return command{
		name: "up", group: groupEvery, args: "[DIR]", short: "all of it: mount the project and tell the agents that are installed",
		long: `Checks the machine, shows what it would write into the agents' configuration and
asks, mounts the project, and sees to it that a session that begins in it later
(after a reboot, say) mounts it again. cachebro down takes all of it back.

Where nothing can be mounted (a container without /dev/fuse) the agents are told
all the same: reads still save, shell changes cannot be undone.

Examples:
  cachebro up
  cachebro up ~/src/app --yes
  cachebro up --client claude --dry-run`,
		run: runUp,
	}
}

func runUp(ctx context.Context, e *env) error {
	var f initFlags
	fs := e.flags()
	f.add(fs)
	noClients := fs.Bool("no-init", false, "leave the agents' configuration alone")
	args, err := e.parse(fs, 0, 1)
	if err != nil {
		return err
	}
	if err := f.check(e); err != nil {
		return err
	}
	m, why := e.planMount(first(args, "."), mountFlags{})
	if why != nil && m.Root == "" {
		return why
	}
	for _, note := range m.notes {
		fmt.Fprintln(e.stderr, "note: "+note)
	}
	e.sayMachine(m, why)
	var partly error
	if !*noClients {
		partly = e.upClients(f, m.Root)
		if !errors.As(partly, new(exitStatus)) && partly != nil {
			return partly
		}
	}
	if f.dryRun {
		return partly
	}
	if err := e.markSetUp(m.Root, true); err != nil {
		return err
	}
	if why != nil {
		fmt.Fprintf(e.stdout, "%s is not mounted: shell changes cannot be undone; reads still save\nleave: cachebro down %s\n", quote(m.Root), arg(m.Root))
		return why
	}
	var report supervisor.Report
	if report = (supervisor.Report{OK: true, PID: m.mountd}); !m.already {
		if report, err = e.launch(ctx, m); err != nil {
			return err
		}
	}
	if err := e.sayMounted(m, report, false); err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "a session that begins here mounts it again · all of it back: cachebro down %s · check: cachebro doctor\n", arg(m.Root))
	return partly
}

// sayMachine is the short form of doctor: what was found.
func (e *env) sayMachine(m plannedMount, why error) {
	switch {
	case why != nil:
		fmt.Fprintf(e.stderr, "cachebro: %s\n", oneLine(why.Error()))
	case m.already:
		fmt.Fprintf(e.stdout, "%s is mounted already\n", quote(m.Root))
	default:
		fmt.Fprintf(e.stdout, "will mount %s\n", quote(m.Root))
	}
}

// upClients is init as a part of up: no agent at all is no error here.
func (e *env) upClients(f initFlags, root string) error {
	s, err := e.setup(f, "")
	if err != nil {
		return err
	}
	if f.clients == nil && len(hooks.FoundClients(s)) == 0 && !f.agentsMD {
		fmt.Fprintf(e.stdout, "no agent was found (%s); cachebro run -- COMMAND works without\n", strings.Join(hooks.Clients(), ", "))
		return nil
	}
	changes, s, err := e.planInit(f, root)
	if err != nil {
		return err
	}
	f.brief = true
	err = e.applyChanges(s, changes, f, "write")
	if !f.dryRun && !errors.Is(err, errDeclined) {
		e.sayNotes(changes)
	}
	return err
}

func downCommand() command {
	return command{
		name: "down", group: groupEvery, args: "[DIR]", short: "take back what up did; the history stays",
		long: `Unmounts the project and removes cachebro from the agents' configuration, unless
another project of yours is still up. The history stays; cachebro up goes on
with it.

Examples:
  cachebro down
  cachebro down ~/src/app --yes
  cachebro down --lazy      although somebody is still in there`,
		run: runDown,
	}
}

func runDown(ctx context.Context, e *env) error {
	var f initFlags
	fs := e.flags()
	f.addCommon(fs)
	lazy := fs.Bool("lazy", false, "detach now; who is still inside is served until they leave")
	args, err := e.parse(fs, 0, 1)
	if err != nil {
		return err
	}
	if err := f.check(e); err != nil {
		return err
	}
	t, err := e.directory(args)
	if err != nil {
		return err
	}
	partly := e.downClients(t.root, f)
	if !errors.As(partly, new(exitStatus)) && partly != nil || f.dryRun {
		return partly
	}
	if err := e.markSetUp(t.root, false); err != nil {
		return err
	}
	overlays, err := mounts.Overlays()
	if err != nil {
		return err
	}
	for _, m := range overlays {
		if m.Source == t.root {
			if err := e.umount(ctx, m.Point, *lazy); err != nil {
				return err
			}
			return partly
		}
	}
	fmt.Fprintf(e.stdout, "%s is not mounted; its history stays (cachebro log)\n", quote(t.root))
	return partly
}

// umount runs the command of that name.
func (e *env) umount(ctx context.Context, point string, lazy bool) error {
	sub := *e
	sub.cmd, sub.name, sub.args = umountCommand(), "umount", []string{point}
	if lazy {
		sub.args = append(sub.args, "--lazy")
	}
	return runUmount(ctx, &sub)
}

// downClients removes the configuration, which belongs to all projects.
func (e *env) downClients(root string, f initFlags) error {
	for _, other := range e.setUpRoots() {
		if other != root && f.clients == nil {
			fmt.Fprintf(e.stdout, "the agents stay configured: %s is up too (cachebro uninit removes it all the same)\n", quote(other))
			return nil
		}
	}
	s, err := e.setup(f, "")
	if err != nil {
		return err
	}
	if f.clients == nil {
		s.AgentsMD = e.agentsMD([]string{root})
	}
	if f.project {
		s.Project = root
	}
	changes, err := hooks.PlanUninit(s, f.clients)
	if err != nil {
		return err
	}
	f.brief = true
	return e.applyChanges(s, onlyReal(changes), f, "take back")
}

// onlyReal leaves out files that stay as they are: down looks at all clients.
// A file that cannot be read as configuration matters only if we are in it.
func onlyReal(changes []hooks.Change) []hooks.Change {
	var out []hooks.Change
	for _, c := range changes {
		if c.Err != nil && bytes.Contains(c.Before, []byte("cachebro")) || !c.None() {
			out = append(out, c)
		}
	}
	return out
}
