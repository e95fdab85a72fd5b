package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// command is one entry of the table. Everything but name and run is for help.
type command struct {
	name  string
	group string // "" hides it: started by cachebro itself
	args  string // as in "[PATH]"
	short string // half a line, no full stop
	long  string // paragraphs and examples
	// ownSignals: the command decides what SIGINT and SIGTERM do; else they
	// cancel its context.
	ownSignals bool
	run        func(context.Context, *env) error
}

// The groups of help, in their order.
const (
	groupEvery    = "Everyday"
	groupSetup    = "Setting up"
	groupStore    = "Store"
	groupPlumbing = "Plumbing"
)

// commands is the table of everything cachebro can be told to do.
func commands() []command {
	return []command{
		runCommand(), memoCommand(), statusCommand(), logCommand(), showCommand(), diffCommand(), whatChangedCommand(), blameCommand(), searchCommand(),
		undoCommand(), redoCommand(), revertCommand(), restoreCommand(), workingSetCommand(), metricsCommand(), contextCommand(), noteCommand(), syncCheckCommand(), markSyncedCommand(),
		mountCommand(), umountCommand(), relocateCommand(), versionCommand(), completionCommand(),
		upCommand(), downCommand(), initCommand(), uninitCommand(), uninstallCommand(), doctorCommand(), statusLineCommand(),
		pruneCommand(), duCommand(), fsckCommand(), purgeCommand(), exportCommand(), importCommand(), reindexCommand(), indexCommand(),
		serveCommand(), hookCommand(), fsmonitorCommand(), readCommand(),
		superviseCommand(), mountdCommand(), daemonCommand(), privateCommand(), tracedCommand(), completeCommand(),
	}
}

// choose finds the command that was typed.
func (e *env) choose() (command, error) {
	name := e.name
	switch name {
	case "", "help", "-h", "--help":
		return command{run: func(_ context.Context, e *env) error { return e.help() }}, nil
	case "--version", "-V":
		name = "version"
	}
	for _, c := range commands() {
		if c.name == name {
			return c, nil
		}
	}
	if strings.HasPrefix(name, "-") {
		return command{}, e.usagef("unknown flag %s", quote(name))
	}
	err := &usage{hinted{fmt.Errorf("unknown command %s", quote(name)), "cachebro help"}}
	if near := nearest(name); near != "" {
		err.hint = "did you mean cachebro " + near + "?"
	}
	return command{}, err
}

// nearest is the command whose name is at most two edits away, "" if none.
func nearest(name string) string {
	best, found := 3, ""
	for _, c := range commands() {
		if d := distance(name, c.name); c.group != "" && d < best && d < len(name) {
			best, found = d, c.name
		}
	}
	return found
}

// distance is the number of single-byte edits between two names.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
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
func (e *env) describe(c command) described {
	d := described{Name: c.name, Group: c.group, Args: c.args, Short: c.short, Long: c.long}
	sub := *e
	sub.cmd, sub.name, sub.args, sub.stdout, sub.stderr = c, c.name, []string{"--help"}, io.Discard, io.Discard
	sub.described = func(fs *pflag.FlagSet) {
		fs.VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			_, usage := pflag.UnquoteUsage(f)
			d.Flags = append(d.Flags, describedFlag{f.Name, f.Shorthand, f.Value.Type(), f.DefValue, usage})
		})
	}
	_ = c.run(context.Background(), &sub)
	return d
}

// describeAll describes what help shows, in its order.
func (e *env) describeAll() []described {
	var all []described
	for _, g := range []string{groupEvery, groupSetup, groupStore, groupPlumbing} {
		for _, c := range commands() {
			if c.group == g {
				all = append(all, e.describe(c))
			}
		}
	}
	return all
}

// help prints the overview, one command's page, or all there is to know as JSON.
func (e *env) help() error {
	if len(e.args) == 1 && e.args[0] == "--json" {
		return e.printJSON(e.describeAll())
	}
	if len(e.args) > 0 {
		sub := *e
		sub.name, sub.args = e.args[0], []string{"--help"}
		c, err := sub.choose()
		if err != nil || c.name == "" {
			return err
		}
		sub.cmd = c
		return c.run(context.Background(), &sub)
	}
	fmt.Fprint(e.stdout, "cachebro keeps every version of every file in your project while you and your\nagents work, and shows an agent only what it has not seen yet.\n\n"+
		"  cachebro up               watch this project and set up your agents; files stay plain files\n"+
		"  cachebro run -- claude    mount if needed and start an agent in it\n"+
		"  cachebro down             take it back; the history stays\n")
	for _, g := range []string{groupEvery, groupSetup, groupStore, groupPlumbing} {
		fmt.Fprintf(e.stdout, "\n%s\n", g)
		for _, c := range commands() {
			if c.group == g {
				fmt.Fprintf(e.stdout, "  %-13s %s\n", c.name, c.short)
			}
		}
	}
	fmt.Fprint(e.stdout, "\ncachebro help COMMAND tells more.\n")
	return nil
}

// printHelp prints the page of the running command.
func (e *env) printHelp(fs *pflag.FlagSet) {
	line := "cachebro " + e.cmd.name
	if fs.HasFlags() {
		line += " [flags]"
	}
	fmt.Fprintf(e.stdout, "%s\n\nUsage:\n  %s\n", e.cmd.short, strings.TrimSpace(line+" "+e.cmd.args))
	if e.cmd.long != "" {
		fmt.Fprintf(e.stdout, "\n%s\n", e.cmd.long)
	}
	if fs.HasFlags() {
		fmt.Fprintf(e.stdout, "\nFlags:\n%s", fs.FlagUsages())
	}
}
