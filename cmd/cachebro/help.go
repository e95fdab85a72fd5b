package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/doctor"
	"cachebro/cmd/cachebro/fork"
	"cachebro/cmd/cachebro/history"
	"cachebro/cmd/cachebro/knowledge"
	"cachebro/cmd/cachebro/mounting"
	"cachebro/cmd/cachebro/past"
	"cachebro/cmd/cachebro/running"
	"cachebro/cmd/cachebro/setup"
	"cachebro/cmd/cachebro/storage"
	"cachebro/cmd/cachebro/ui"
	"cachebro/store/leaf/text"

	"github.com/spf13/pflag"
)

// commands is the table of everything cachebro can be told to do.
func commands() []cli.Command {
	return []cli.Command{
		// Everyday.
		running.RunCommand(), setup.UpCommand(), setup.DownCommand(), doctor.StatusCommand(),
		history.LogCommand(), history.ShowCommand(), history.DiffCommand(), history.BlameCommand(), knowledge.SearchCommand(),
		history.UndoCommand(), history.RedoCommand(), history.RestoreCommand(), past.Command(), fork.Command(), ui.Command(), doctor.DoctorCommand(),
		// History.
		history.WhatChangedCommand(), history.RevertCommand(), history.GitCommand(), past.LabelCommand(), knowledge.WorkingSetCommand(),
		// Notes, documents, results.
		knowledge.NoteCommand(), knowledge.ContextCommand(), knowledge.SyncCheckCommand(), knowledge.MarkSyncedCommand(), knowledge.MemoCommand(), knowledge.MetricsCommand(),
		// Setting up.
		mounting.MountCommand(), mounting.UmountCommand(), mounting.RelocateCommand(), setup.InitCommand(), setup.UninitCommand(), setup.UpgradeCommand(), setup.UninstallCommand(), versionCommand(), completionCommand(),
		// Store.
		storage.PruneCommand(), storage.DuCommand(), storage.FsckCommand(), storage.PurgeCommand(), storage.ExportCommand(), storage.ImportCommand(), storage.RemoteCommand(), storage.MachinesCommand(), storage.ResumeCommand(), knowledge.ReindexCommand(), knowledge.IndexCommand(),
		// Plumbing.
		serveCommand(), hookCommand(), fsmonitorCommand(), statusLineCommand(), knowledge.ReadCommand(), knowledge.OutputCommand(),
		// Started by cachebro itself.
		mounting.SuperviseCommand(), mounting.MountdCommand(), past.ServeCommand(), storage.DaemonCommand(), running.PrivateCommand(), running.NetCommand(), knowledge.TracedCommand(), completeCommand(),
	}
}

// choose finds the command that was typed.
func choose(e *cli.Env) (cli.Command, error) {
	name := e.Name
	switch name {
	case "", "help", "-h", "--help":
		return cli.Command{Run: func(_ context.Context, e *cli.Env) error { return help(e) }}, nil
	case "--version", "-V":
		name = "version"
	}
	for _, c := range commands() {
		if c.Name == name {
			return c, nil
		}
	}
	if strings.HasPrefix(name, "-") {
		return cli.Command{}, e.Usagef("unknown flag %s", cli.Quote(name))
	}
	hint := "cachebro help"
	if near := nearest(name); near != "" {
		hint = "did you mean cachebro " + near + "?"
	}
	return cli.Command{}, cli.UsageHint(hint, "unknown command %s", cli.Quote(name))
}

// nearest is the command whose name is at most two edits away, "" if none.
func nearest(name string) string {
	best, found := 3, ""
	for _, c := range commands() {
		if d := text.Distance(name, c.Name); c.Group != "" && d < best && d < len(name) {
			best, found = d, c.Name
		}
	}
	return found
}

// described is one command for whoever wants to know all of them: the man page, the
// completion of a shell, a test.
type described struct {
	Name  string          `json:"name"`
	Group string          `json:"group"`
	Args  string          `json:"args,omitempty"`
	Short string          `json:"short"`
	Long  string          `json:"long,omitempty"`
	Flags []describedFlag `json:"flags,omitempty"`
}

type describedFlag struct {
	Name    string `json:"name"`
	Short   string `json:"short,omitempty"`
	Type    string `json:"type"` // bool, string, int, …
	Default string `json:"default,omitempty"`
	Usage   string `json:"usage"`
}

// takesValue: the next word belongs to the flag.
func (f describedFlag) takesValue() bool { return f.Type != "bool" }

// describe tells what a command takes, without running it: every command parses its
// arguments before it does anything.
func describe(e *cli.Env, c cli.Command) described {
	d := described{Name: c.Name, Group: c.Group, Args: c.Args, Short: c.Short, Long: c.Long}
	sub := *e
	sub.Cmd, sub.Name, sub.Args, sub.Stdout, sub.Stderr = c, c.Name, []string{"--help"}, io.Discard, io.Discard
	sub.Described = func(fs *pflag.FlagSet) {
		fs.VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			_, usage := pflag.UnquoteUsage(f)
			d.Flags = append(d.Flags, describedFlag{f.Name, f.Shorthand, f.Value.Type(), f.DefValue, usage})
		})
	}
	_ = c.Run(context.Background(), &sub)
	return d
}

// describeAll describes what help shows, in its order.
func describeAll(e *cli.Env) []described {
	var all []described
	for _, g := range cli.Groups() {
		for _, c := range commands() {
			if c.Group == g {
				all = append(all, describe(e, c))
			}
		}
	}
	return all
}

// manual prints the man page of cachebro, or of the command that is named.
func manual(e *cli.Env, names []string) error {
	all := describeAll(e)
	if len(names) == 0 {
		_, err := io.WriteString(e.Stdout, wholePage(all))
		return err
	}
	for _, d := range all {
		if d.Name == names[0] {
			_, err := io.WriteString(e.Stdout, commandPage(d))
			return err
		}
	}
	return cli.UsageHint("cachebro help", "unknown command %s", cli.Quote(names[0]))
}

// help prints the overview, one command's page, or all there is to know as JSON.
func help(e *cli.Env) error {
	if len(e.Args) == 1 && e.Args[0] == "--json" {
		return e.PrintJSON(describeAll(e))
	}
	if len(e.Args) > 0 && e.Args[0] == "--man" {
		return manual(e, e.Args[1:])
	}
	if len(e.Args) > 0 && e.Args[0] != "--all" {
		sub := *e
		sub.Name, sub.Args = e.Args[0], []string{"--help"}
		c, err := choose(&sub)
		if err != nil || c.Name == "" {
			return err
		}
		sub.Cmd = c
		return c.Run(context.Background(), &sub)
	}
	fmt.Fprint(e.Stdout, "cachebro keeps every version of every file in your project while you and your\nagents work, and shows an agent only what it has not seen yet.\n\n"+
		"  cachebro up               watch this project and set up your agents\n"+
		"  cachebro run -- claude    mount if needed and start an agent in it\n"+
		"  cachebro down             take it back; the history stays\n")
	all := len(e.Args) > 0 // --all
	for _, g := range cli.Groups() {
		var names []string
		if all || g == cli.GroupEvery {
			fmt.Fprintf(e.Stdout, "\n%s\n", g)
		}
		for _, c := range commands() {
			switch {
			case c.Group != g:
			case all || g == cli.GroupEvery:
				fmt.Fprintf(e.Stdout, "  %-13s %s\n", c.Name, c.Short)
			default:
				names = append(names, c.Name)
			}
		}
		if g == cli.GroupHistory && !all {
			fmt.Fprint(e.Stdout, "\nMore\n")
		}
		if len(names) > 0 && g != cli.GroupPlumbing {
			fmt.Fprintf(e.Stdout, "  %s:\n    %s\n", g, strings.Join(names, ", "))
		}
	}
	fmt.Fprint(e.Stdout, "\ncachebro help COMMAND tells more, cachebro help --all lists all commands.\n")
	return nil
}
