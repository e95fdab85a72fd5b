package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"cachebro/hooks"
	"cachebro/store/diff"

	"github.com/spf13/pflag"
)

func initCommand() command {
	return command{
		name: "init", group: groupSetup, args: "[DIR]", short: "register cachebro with the agents that are installed",
		long: `Adds the MCP server, and where the client has them the hooks, to the clients'
configuration: Claude Code, Cursor, OpenCode, Gemini CLI, Codex, VS Code, Windsurf
and Zed. Shows what changes and asks. Comments, order and what others wrote stay;
cachebro uninit takes it back to the byte.

With --project the files of the project in DIR are written instead of yours, and
a session that begins there mounts it.

With --git-fsmonitor git asks the mount of DIR what changed instead of looking at
every file, by an includeIf in your own git configuration. git config
core.untrackedCache true spares it the search for new files too, but what changes
underneath in the second of its last look it can then miss, with or without us.

Examples:
  cachebro init
  cachebro init --dry-run
  cachebro init --client claude --stop-line=always
  cachebro init --project --agents-md --yes
  cachebro init --git-fsmonitor ~/src/app`,
		run: runInit,
	}
}

func uninitCommand() command {
	return command{
		name: "uninit", group: groupSetup, args: "[DIR]", short: "take back what init wrote",
		long: `Removes cachebro from the clients' configuration. A file that nobody edited since
is what it was before init, to the byte.

Examples:
  cachebro uninit
  cachebro uninit --client cursor
  cachebro uninit --project`,
		run: runUninit,
	}
}

// initFlags choose what is registered, and where.
type initFlags struct {
	clients                                                  []string
	project, yes, dryRun                                     bool
	noRewrite, alwaysLoad, agentsMD, promptIndex, withStatus bool
	gitMonitor                                               bool
	brief                                                    bool // up: a line for each file instead of a diff
	recovery, stopLine, guard                                string
}

func (f *initFlags) add(fs *pflag.FlagSet) {
	f.addCommon(fs)
	fs.StringVar(&f.recovery, "recovery", "compact", "when the model is told its working set: compact (after a compaction, as far as savings pay for it), always, off")
	fs.StringVar(&f.stopLine, "stop-line", "changes", "when you are told what was saved: changes, always, off")
	fs.StringVar(&f.guard, "guard", "off", "when a file is read again by the client's own Read: off, suggest or deny")
	fs.BoolVar(&f.noRewrite, "no-rewrite", false, "leave the results of the client's own tools alone")
	fs.BoolVar(&f.promptIndex, "prompt-index", false, "give each prompt a short list of files that may matter")
	fs.BoolVar(&f.alwaysLoad, "always-load", false, "load the tools at once instead of behind the client's tool search")
	fs.BoolVar(&f.withStatus, "status-line", false, "also set Claude Code's status line, where none is set")
	fs.BoolVar(&f.gitMonitor, "git-fsmonitor", false, "also let git ask the mount of DIR which files changed, by your own git configuration")
	fs.BoolVar(&f.agentsMD, "agents-md", false, "also add a section to AGENTS.md in the project")
}

func (f *initFlags) addCommon(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.clients, "client", nil, "only these: "+strings.Join(hooks.Clients(), ", "))
	fs.BoolVar(&f.project, "project", false, "the project's own files instead of yours")
	fs.BoolVarP(&f.dryRun, "dry-run", "n", false, "only show what would change")
	fs.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
}

// check refuses values that a hook would silently ignore.
func (f *initFlags) check(e *env) error {
	for _, c := range []struct {
		name, value string
		known       []string
	}{
		{"recovery", f.recovery, []string{"compact", "always", "off"}},
		{"stop-line", f.stopLine, []string{"changes", "always", "off"}},
		{"guard", f.guard, []string{"off", "suggest", "deny"}},
	} {
		if c.value != "" && !slices.Contains(c.known, c.value) {
			return e.usagef("%s: --%s %s: want %s", e.cmd.name, c.name, quote(c.value), strings.Join(c.known, ", "))
		}
	}
	for _, c := range f.clients {
		if !slices.Contains(hooks.Clients(), c) {
			return e.usagef("%s: --client %s: known are %s", e.cmd.name, quote(c), strings.Join(hooks.Clients(), ", "))
		}
	}
	return nil
}

// hookOptions are the words on the registered command line; what is the default
// is not written.
func (f *initFlags) hookOptions() []string {
	var o []string
	if f.recovery != "" && f.recovery != "compact" {
		o = append(o, "--recovery="+f.recovery)
	}
	if f.stopLine != "" && f.stopLine != "changes" {
		o = append(o, "--stop-line="+f.stopLine)
	}
	if f.noRewrite {
		o = append(o, "--no-rewrite")
	}
	if f.promptIndex {
		o = append(o, "--prompt-index")
	}
	if f.guard == "suggest" || f.guard == "deny" {
		o = append(o, "--guard="+f.guard)
	}
	return o
}

// setup describes this user's surroundings to the hooks room. project is the
// project's root where its own files are meant, "" for the user's.
func (e *env) setup(f initFlags, project string) (hooks.Setup, error) {
	p := e.paths()
	base, err := p.StateBase()
	if err != nil {
		return hooks.Setup{}, err
	}
	if !filepath.IsAbs(p.Home) {
		return hooks.Setup{}, hintf("export HOME=/home/you", "no home directory is known, so the clients' files cannot be found")
	}
	s := hooks.Setup{
		Home: p.Home, ConfigHome: e.absVar("XDG_CONFIG_HOME"), ClaudeConfig: e.absVar("CLAUDE_CONFIG_DIR"), CodexHome: e.absVar("CODEX_HOME"),
		Backups: filepath.Join(base, "clients"), Project: project, Exe: e.exe,
		HookOptions: f.hookOptions(), AlwaysLoad: f.alwaysLoad, StatusLine: f.withStatus,
		HasProgram: func(name string) bool { _, err := exec.LookPath(name); return err == nil },
		PathExists: func(path string) bool { _, err := os.Stat(path); return path != "" && err == nil },
	}
	if project != "" {
		s.Exe = "cachebro" // these files are shared: each has it somewhere else
	}
	if f.guard == "suggest" || f.guard == "deny" {
		s.ServeArgs = []string{"--tools=default"} // it points at read_file
	}
	return s, nil
}

func (e *env) absVar(name string) string {
	if v := e.getenv(name); filepath.IsAbs(v) {
		return filepath.Clean(v)
	}
	return ""
}

func runInit(_ context.Context, e *env) error {
	var f initFlags
	fs := e.flags()
	f.add(fs)
	args, err := e.parse(fs, 0, 1)
	if err != nil {
		return err
	}
	if err := f.check(e); err != nil {
		return err
	}
	root, err := e.initRoot(f, args)
	if err != nil {
		return err
	}
	changes, s, err := e.planInit(f, root)
	if err != nil {
		return err
	}
	if f.project && s.HasProgram != nil && !s.HasProgram("cachebro") {
		fmt.Fprintf(e.stderr, "note: cachebro is not in PATH, where the project's files look for it: sudo ln -s %s /usr/local/bin/cachebro\n", arg(e.exe))
	}
	if err := e.applyChanges(s, changes, f, "write"); err != nil {
		return err
	}
	if f.dryRun {
		return nil
	}
	if f.project {
		if err := e.markSetUp(root, true); err != nil {
			return err
		}
	}
	e.sayNotes(changes)
	fmt.Fprintln(e.stdout, "on from the client's next start · back: cachebro "+backCommand(f)+" · check: cachebro doctor")
	return nil
}

func backCommand(f initFlags) string {
	if f.project {
		return "uninit --project"
	}
	return "uninit"
}

// sayNotes tells what a person has to do in the clients besides.
func (e *env) sayNotes(changes []hooks.Change) {
	var said []string
	for _, c := range changes {
		if c.Note != "" && c.Err == nil && !slices.Contains(said, c.Note) {
			said = append(said, c.Note)
			fmt.Fprintln(e.stdout, "note: "+c.Note)
		}
	}
}

// initRoot is the project that --project and --agents-md are about.
func (e *env) initRoot(f initFlags, args []string) (string, error) {
	if !f.project && !f.agentsMD && !f.gitMonitor {
		if len(args) > 0 {
			return "", e.usagef("%s: %s: a directory needs --project, --agents-md or --git-fsmonitor", e.cmd.name, quote(args[0]))
		}
		return "", nil
	}
	t, err := e.locateOrTop(first(args, "."))
	if err != nil {
		return "", err
	}
	if !isDir(t.base()) {
		return "", hintf("ls -ld "+arg(t.root), "%s is not a directory", quote(t.root))
	}
	return t.base(), nil
}

func (e *env) planInit(f initFlags, root string) ([]hooks.Change, hooks.Setup, error) {
	project := ""
	if f.project {
		project = root
	}
	s, err := e.setup(f, project)
	if err != nil {
		return nil, s, err
	}
	if f.agentsMD {
		s.AgentsMD = filepath.Join(root, "AGENTS.md")
	}
	if f.gitMonitor {
		if s.Git, err = e.gitSetup(s, root); err != nil {
			return nil, s, err
		}
	}
	changes, err := hooks.PlanInit(s, f.clients)
	if err == nil && len(changes) == 0 {
		err = hintf("cachebro init --client claude, or one of "+strings.Join(hooks.Clients()[1:], ", "), "no agent was found on this machine")
	}
	return changes, s, err
}

func runUninit(_ context.Context, e *env) error {
	var f initFlags
	fs := e.flags()
	f.addCommon(fs)
	args, err := e.parse(fs, 0, 1)
	if err != nil {
		return err
	}
	if err := f.check(e); err != nil {
		return err
	}
	root, err := e.initRoot(f, args)
	if err != nil {
		return err
	}
	s, err := e.setup(f, root)
	if err != nil {
		return err
	}
	if f.clients == nil {
		s.AgentsMD = e.agentsMD(args)
		if !f.project {
			s.Git = e.gitSetupBack(s)
		}
	}
	changes, err := hooks.PlanUninit(s, f.clients)
	if err != nil {
		return err
	}
	if err := e.applyChanges(s, changes, f, "take back"); err != nil || f.dryRun || !f.project {
		return err
	}
	return e.markSetUp(root, false)
}

// agentsMD is the file in the project that the command runs in, if any.
func (e *env) agentsMD(args []string) string {
	t, err := e.locateOrTop(first(args, "."))
	if err != nil || t.base() == "/" {
		return ""
	}
	return filepath.Join(t.base(), "AGENTS.md")
}

// applyChanges shows what would change, asks, and writes. Files that cannot be
// changed are named, and make the command fail after all others were written.
func (e *env) applyChanges(s hooks.Setup, changes []hooks.Change, f initFlags, verb string) error {
	n, bad := e.showChanges(changes, f.brief && !f.dryRun)
	if n == 0 {
		if bad > 0 {
			return exitStatus(1)
		}
		fmt.Fprintln(e.stdout, "nothing to "+verb)
		return nil
	}
	if f.dryRun {
		fmt.Fprintf(e.stdout, "%s would change\n", count(n, "file"))
		if bad > 0 {
			return exitStatus(1)
		}
		return nil
	}
	if !f.yes {
		if err := e.confirm(fmt.Sprintf("%s %s?", verb, count(n, "file"))); err != nil {
			return err
		}
	}
	err := hooks.Apply(s, changes)
	if err == nil && bad > 0 {
		return exitStatus(1)
	}
	return err
}

// showChanges prints each change as a diff, or in brief as a line; the errors go to
// stderr.
func (e *env) showChanges(changes []hooks.Change, brief bool) (n, bad int) {
	p := paint{e.colour()}
	for _, c := range changes {
		switch {
		case c.Err != nil:
			bad++
			fmt.Fprintf(e.stderr, "cachebro: %s: %s\n", c.Title, oneLine(c.Err.Error()))
			if c.Hint != "" {
				fmt.Fprintf(e.stderr, "hint: %s\n", c.Hint)
			}
		case c.None():
			if !brief {
				fmt.Fprintf(e.stdout, "%s: %s stays as it is\n", c.Title, quote(c.Path))
			}
		case brief:
			if n == 0 {
				fmt.Fprintf(e.stdout, "will change (each line of it: cachebro %s --dry-run):\n", e.name)
			}
			n++
			d := diff.Compare(c.Before, c.After)
			fmt.Fprintf(e.stdout, "  %-12s %s  %s %s\n", c.Title, quote(c.Path), p.green(fmt.Sprintf("+%d", d.Added())), p.red(fmt.Sprintf("-%d", d.Removed())))
		default:
			n++
			from, to := c.Path, c.Path
			if c.Before == nil {
				from = "/dev/null"
			}
			if c.After == nil {
				to = "/dev/null"
			}
			fmt.Fprintf(e.stdout, "%s\n%s", p.bold(c.Title), p.diff(string(diff.Unified(quote(from), quote(to), c.Before, c.After, 3))))
		}
	}
	return n, bad
}
