package setup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/mounting"
	"cachebro/hooks/clients"
	"cachebro/hooks/reshape"
	"cachebro/store/diff"
	"cachebro/store/leaf/text"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// InitCommand returns the command cachebro init.
func InitCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "init [DIR]", Short: "register cachebro with the agents that are installed",
		Long: `Adds the MCP server, and the hooks if the client supports hooks, to the
configuration of each client that is installed (--client lists those it knows). It
shows the changes and asks before it writes them. Comments, order and other settings
are preserved, and cachebro uninit removes the changes exactly.

With --project the configuration files of the project in DIR are changed instead of
yours, and an agent's session that begins in the project mounts it.

With --git-fsmonitor git asks the mount of DIR which files changed instead of
checking every file. An includeIf in your own git configuration sets this up. With
git config core.untrackedCache true, git need not search for new files either. It
can then miss a file that was changed outside the mount in the second of git's last
check, as it can without cachebro.`,
		Example: `  cachebro init
  cachebro init --dry-run
  cachebro init --client claude --stop-line=always
  cachebro init --project --agents-md --yes
  cachebro init --git-fsmonitor ~/src/app`,
		Args: e.Args(0, 1),
	}

	var f InitFlags
	fs := cmd.Flags()
	f.add(fs)
	return cli.Does(cmd, func(_ context.Context, args []string) error {
		if err := f.check(e); err != nil {
			return err
		}
		root, err := initRoot(e, f, args)
		if err != nil {
			return err
		}
		changes, s, err := planInit(e, f, root)
		if err != nil {
			return err
		}
		if f.project && s.HasProgram != nil && !s.HasProgram("cachebro") {
			fmt.Fprintf(e.Stderr, "note: the project's files expect cachebro in PATH, but it is not in PATH: sudo ln -s %s /usr/local/bin/cachebro\n", cli.Arg(e.Exe))
		}
		if err := applyChanges(e, s, changes, f, "write"); err != nil {
			return err
		}
		if f.dryRun {
			return nil
		}
		if f.project {
			if err := mounting.MarkSetUp(e, root, true); err != nil {
				return err
			}
		}
		printNotes(e, changes)
		fmt.Fprintln(e.Stdout, "takes effect at the client's next start · undo: cachebro "+backCommand(f)+" · check: cachebro doctor")
		return nil
	})
}

// UninitCommand returns the command cachebro uninit.
func UninitCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "uninit [DIR]", Short: "remove what init wrote",
		Long: `Removes cachebro from the clients' configuration. A file that nobody has edited since
init becomes exactly what it was before.`,
		Example: `  cachebro uninit
  cachebro uninit --client cursor
  cachebro uninit --project`,
		Args: e.Args(0, 1),
	}

	var f InitFlags
	fs := cmd.Flags()
	f.addCommon(fs)
	return cli.Does(cmd, func(_ context.Context, args []string) error {
		if err := f.check(e); err != nil {
			return err
		}
		root, err := initRoot(e, f, args)
		if err != nil {
			return err
		}
		s, err := Setup(e, f, root)
		if err != nil {
			return err
		}
		if f.clients == nil {
			s.AgentsMD = agentsMD(e, args)
			if !f.project {
				s.Git = gitSetupBack(e, s)
			}
		}
		changes, err := clients.PlanUninit(s, f.clients)
		if err != nil {
			return err
		}
		if err := applyChanges(e, s, changes, f, "remove cachebro from"); err != nil || f.dryRun || !f.project {
			return err
		}
		return mounting.MarkSetUp(e, root, false)
	})
}

// InitFlags select what init registers, and with which clients.
type InitFlags struct {
	clients                                            []string
	project, yes, dryRun                               bool
	noRewrite, agentsMD, promptIndex, withStatus, hold bool
	worktrees                                          bool
	gitMonitor                                         bool
	brief                                              bool // print a line per file instead of a diff (up, down)
	stopLine, noReshape                                string
}

func (f *InitFlags) add(fs *pflag.FlagSet) {
	f.addCommon(fs)
	fs.StringVar(&f.stopLine, "stop-line", "changes", "when to show you what was saved: changes, always, off")
	fs.BoolVar(&f.noRewrite, "no-rewrite", false, "do not shorten the results of the client's own tools")
	fs.StringVar(&f.noReshape, "no-reshape", "", "do not shorten the outputs of commands: all, or only by these rules: "+strings.Join(ruleNames(), ", "))
	fs.Lookup("no-reshape").NoOptDefVal = "all"
	fs.BoolVar(&f.hold, "hold", false, "refuse an edit once, showing the changes, if others changed the file since the agent saw it")
	fs.BoolVar(&f.promptIndex, "prompt-index", false, "add to each prompt a short list of files that may matter")
	fs.BoolVar(&f.withStatus, "status-line", false, "also set Claude Code's status line, unless one is set already")
	fs.BoolVar(&f.worktrees, "worktrees", false, "let Claude Code's worktrees be forks of the project, which include ignored files")
	fs.BoolVar(&f.gitMonitor, "git-fsmonitor", false, "also configure your git to ask the mount of DIR which files changed")
	fs.BoolVar(&f.agentsMD, "agents-md", false, "also add a section to AGENTS.md in the project")
}

func (f *InitFlags) addCommon(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.clients, "client", nil, "only these clients: "+strings.Join(clients.Clients(), ", "))
	fs.BoolVar(&f.project, "project", false, "change the project's configuration files instead of yours")
	fs.BoolVarP(&f.dryRun, "dry-run", "n", false, "only show what would change")
	fs.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
}

// check rejects flag values that a hook would silently ignore.
func (f *InitFlags) check(e *cli.Env) error {
	if !slices.Contains([]string{"", "changes", "always", "off"}, f.stopLine) {
		return e.Usagef("%s: --stop-line %s: want changes, always, off", e.Cmd.Name(), cli.Quote(f.stopLine))
	}
	for _, r := range f.offRules() {
		if r != "all" && !slices.Contains(ruleNames(), r) {
			return e.Usagef("%s: --no-reshape %s: want all, or some of %s", e.Cmd.Name(), cli.Quote(r), strings.Join(ruleNames(), ", "))
		}
	}
	for _, c := range f.clients {
		if !slices.Contains(clients.Clients(), c) {
			return e.Usagef("%s: --client %s: known are %s", e.Cmd.Name(), cli.Quote(c), strings.Join(clients.Clients(), ", "))
		}
	}
	return nil
}

// ruleNames returns the names of the rules that shorten the outputs of commands.
func ruleNames() (names []string) {
	for _, r := range reshape.Rules() {
		names = append(names, string(r))
	}
	return names
}

// offRules returns the names of the rules that --no-reshape turns off.
func (f *InitFlags) offRules() []string {
	return strings.FieldsFunc(f.noReshape, func(r rune) bool { return r == ',' || r == ' ' })
}

// hookOptions returns the options for the command line of the registered hooks. It omits defaults.
func (f *InitFlags) hookOptions() []string {
	var o []string
	if f.stopLine != "" && f.stopLine != "changes" {
		o = append(o, "--stop-line="+f.stopLine)
	}
	if f.noRewrite {
		o = append(o, "--no-rewrite")
	}
	switch off := f.offRules(); {
	case slices.Contains(off, "all"):
		o = append(o, "--no-reshape")
	case len(off) > 0:
		o = append(o, "--no-reshape="+strings.Join(off, ","))
	}
	if f.hold {
		o = append(o, "--hold")
	}
	if f.promptIndex {
		o = append(o, "--prompt-index")
	}
	return o
}

// Setup describes this user's environment to package clients. project is the root of the project
// whose configuration files are to be changed, or "" for the user's.
func Setup(e *cli.Env, f InitFlags, project string) (clients.Setup, error) {
	p := e.Paths()
	base, err := p.StateBase()
	if err != nil {
		return clients.Setup{}, err
	}
	if !filepath.IsAbs(p.Home) {
		return clients.Setup{}, cli.Hintf("export HOME=/home/you", "no home directory is known, so the clients' files cannot be found")
	}
	s := clients.Setup{
		Home: p.Home, ConfigHome: absVar(e, "XDG_CONFIG_HOME"), ClaudeConfig: absVar(e, "CLAUDE_CONFIG_DIR"), CodexHome: absVar(e, "CODEX_HOME"),
		Backups: filepath.Join(base, "clients"), Project: project, Exe: e.Exe,
		HookOptions: f.hookOptions(), StatusLine: f.withStatus, Worktrees: f.worktrees,
		HasProgram: func(name string) bool { _, err := exec.LookPath(name); return err == nil },
		PathExists: func(path string) bool { _, err := os.Stat(path); return path != "" && err == nil },
	}
	if project != "" {
		s.Exe = "cachebro" // the project's files are shared with machines where cachebro is in another directory
	}
	return s, nil
}

func absVar(e *cli.Env, name string) string {
	if v := e.Getenv(name); filepath.IsAbs(v) {
		return filepath.Clean(v)
	}
	return ""
}

func backCommand(f InitFlags) string {
	if f.project {
		return "uninit --project"
	}
	return "uninit"
}

// printNotes prints what the person still has to do in the clients.
func printNotes(e *cli.Env, changes []clients.Change) {
	var notes []string
	for _, c := range changes {
		if c.Note != "" && c.Err == nil && !slices.Contains(notes, c.Note) {
			notes = append(notes, c.Note)
			fmt.Fprintln(e.Stdout, "note: "+c.Note)
		}
	}
}

// initRoot returns the root of the project to which --project, --agents-md and --git-fsmonitor
// apply, or "" without these flags.
func initRoot(e *cli.Env, f InitFlags, args []string) (string, error) {
	if !f.project && !f.agentsMD && !f.gitMonitor {
		if len(args) > 0 {
			return "", e.Usagef("%s: %s: a directory needs --project, --agents-md or --git-fsmonitor", e.Cmd.Name(), cli.Quote(args[0]))
		}
		return "", nil
	}
	t, err := e.LocateOrTop(cli.First(args, "."))
	if err != nil {
		return "", err
	}
	if !cli.IsDir(t.Base()) {
		return "", cli.Hintf("ls -ld "+cli.Arg(t.Root), "%s is not a directory", cli.Quote(t.Root))
	}
	return t.Base(), nil
}

func planInit(e *cli.Env, f InitFlags, root string) ([]clients.Change, clients.Setup, error) {
	project := ""
	if f.project {
		project = root
	}
	s, err := Setup(e, f, project)
	if err != nil {
		return nil, s, err
	}
	if f.agentsMD {
		s.AgentsMD = filepath.Join(root, "AGENTS.md")
	}
	if f.gitMonitor {
		s.Git, err = gitSetup(e, s, root)
		if err != nil {
			return nil, s, err
		}
	}
	changes, err := clients.PlanInit(s, f.clients)
	if err == nil && len(changes) == 0 {
		err = cli.Hintf("cachebro init --client claude, or one of "+strings.Join(clients.Clients()[1:], ", "), "no agent was found on this machine")
	}
	return changes, s, err
}

// agentsMD returns the path of AGENTS.md in the project of args[0] or else of the working
// directory, or "" if there is no project.
func agentsMD(e *cli.Env, args []string) string {
	t, err := e.LocateOrTop(cli.First(args, "."))
	if err != nil || t.Base() == "/" {
		return ""
	}
	return filepath.Join(t.Base(), "AGENTS.md")
}

// applyChanges shows the changes, asks for confirmation, and writes them. If some files cannot be
// changed, it reports them, writes the others, and returns an error.
func applyChanges(e *cli.Env, s clients.Setup, changes []clients.Change, f InitFlags, verb string) error {
	n, bad := showChanges(e, changes, f.brief && !f.dryRun)
	if n == 0 {
		if bad > 0 {
			return cli.ExitStatus(1)
		}
		fmt.Fprintln(e.Stdout, "nothing to "+verb)
		return nil
	}
	if f.dryRun {
		fmt.Fprintf(e.Stdout, "%s would change\n", text.Count(n, "file"))
		if bad > 0 {
			return cli.ExitStatus(1)
		}
		return nil
	}
	if !f.yes {
		if err := e.Confirm(fmt.Sprintf("%s %s?", verb, text.Count(n, "file"))); err != nil {
			return err
		}
	}
	err := clients.Apply(s, changes)
	if err == nil && bad > 0 {
		return cli.ExitStatus(1)
	}
	return err
}

// showChanges prints each change as a diff, or as one line if brief is true. It prints errors to
// stderr. n is the number of changes, bad the number of errors.
func showChanges(e *cli.Env, changes []clients.Change, brief bool) (n, bad int) {
	p := e.Paint()
	for _, c := range changes {
		switch {
		case c.Err != nil:
			bad++
			fmt.Fprintf(e.Stderr, "cachebro: %s: %s\n", c.Title, cli.OneLine(c.Err.Error()))
			if c.Hint != "" {
				fmt.Fprintf(e.Stderr, "hint: %s\n", c.Hint)
			}
		case c.None():
			if !brief {
				fmt.Fprintf(e.Stdout, "%s: %s stays as it is\n", c.Title, cli.Quote(c.Path))
			}
		case brief:
			if n == 0 {
				fmt.Fprintf(e.Stdout, "will change (%s --dry-run shows each line):\n", e.Cmd.CommandPath())
			}
			n++
			d := diff.Compare(c.Before, c.After)
			fmt.Fprintf(e.Stdout, "  %-12s %s  %s %s\n", c.Title, cli.Quote(c.Path), p.Green(fmt.Sprintf("+%d", d.Added())), p.Red(fmt.Sprintf("-%d", d.Removed())))
		default:
			n++
			from, to := c.Path, c.Path
			if c.Before == nil {
				from = "/dev/null"
			}
			if c.After == nil {
				to = "/dev/null"
			}
			fmt.Fprintf(e.Stdout, "%s\n%s", p.Bold(c.Title), p.Diff(string(diff.Unified(cli.Quote(from), cli.Quote(to), c.Before, c.After, 3))))
		}
	}
	return n, bad
}
