package commands

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/hooks/clients"
	"cachebro/mcp"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// completeWait is how long completion waits for a running daemon. Completion starts none.
const completeWait = 2 * time.Second

// completeValues adds completion of flag values and arguments to c and its sub-commands. Cobra
// itself completes only commands and flags. An argument's name in the usage line tells what kind of
// argument it is (see completer.argument).
func completeValues(e *cli.Env, c *cobra.Command) {
	for _, sub := range c.Commands() {
		completeValues(e, sub)
	}
	of := func(complete func(*completer)) cobra.CompletionFunc {
		return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
			ctx, cancel := context.WithTimeout(cmd.Context(), completeWait)
			defer cancel()
			if e.EnterDir(cmd) != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			c := completer{Env: e, ctx: ctx, cmd: cmd, args: args, word: word, directive: cobra.ShellCompDirectiveNoFileComp}
			complete(&c)
			if len(c.offers) == 1 && strings.HasSuffix(c.offers[0], "/") {
				c.directive |= cobra.ShellCompDirectiveNoSpace
			}
			return c.offers, c.directive
		}
	}
	add := func(f *pflag.Flag) {
		if f.Value.Type() != "bool" {
			_ = c.RegisterFlagCompletionFunc(f.Name, of(func(c *completer) { c.value(f) })) // fails only if already registered
		}
	}
	c.Flags().VisitAll(add)
	c.PersistentFlags().VisitAll(add)
	if !c.HasSubCommands() || c.Name() == "fork" {
		c.ValidArgsFunction = of((*completer).argument)
	}
	if c.HasParent() {
		return
	}
	// PATH@VERSION is one word, but bash ends a word at an @. So the script for bash begins with a
	// line that removes the @ from the characters that end a word.
	c.InitDefaultCompletionCmd()
	if completion, _, err := c.Find([]string{"completion"}); err == nil {
		e.Group(completion)
	}
	if bash, _, err := c.Find([]string{"completion", "bash"}); err == nil {
		script := bash.RunE
		bash.RunE = func(cmd *cobra.Command, args []string) error {
			fmt.Fprintln(e.Stdout, "COMP_WORDBREAKS=${COMP_WORDBREAKS//@}")
			return script(cmd, args)
		}
	}
}

// completer finds completions for the last word of a command line.
type completer struct {
	*cli.Env
	ctx       context.Context
	cmd       *cobra.Command
	args      []string // the arguments before the word
	word      string
	offers    []cobra.Completion
	directive cobra.ShellCompDirective
}

// offer adds a word if it begins with what has been typed. It drops words with a line break or a
// tab, which cobra's answer to the shell cannot contain.
func (c *completer) offer(word, note string) {
	if strings.HasPrefix(word, c.word) && !strings.ContainsAny(word, "\n\t") {
		c.offers = append(c.offers, cobra.CompletionWithDesc(word, cli.OneLine(note)))
	}
}

func (c *completer) value(f *pflag.Flag) {
	switch f.Name {
	case "dir":
		c.directive = cobra.ShellCompDirectiveFilterDirs
	case "session", "prompt", "tool-call", "agent":
		if f.Name != "tool-call" && f.Name != "agent" {
			c.offer("last", "the newest one")
		}
		q := wire.NamesQuery{Kind: f.Name}
		if s := c.cmd.Flag("session"); s != nil && f.Name != "session" {
			q.Session = s.Value.String()
		}
		c.names(q)
	case "since", "until", "at":
		if c.cmd.Name() == "mount" {
			c.directive = cobra.ShellCompDirectiveFilterDirs
			return
		}
		for _, age := range []string{"5m", "15m", "1h", "1d", "1w"} {
			c.offer(age, "ago")
		}
		if c.cmd.Name() == "restore" {
			c.offer("session-start", "when the session began")
		}
	case "op":
		head := c.word[:strings.LastIndexByte(c.word, ',')+1]
		for _, op := range []string{"write", "create", "unlink", "rename", "mkdir", "rmdir", "chmod", "symlink", "link", "truncate", "outside"} {
			c.offer(head+op, "")
		}
	case "tools":
		for _, p := range []string{mcp.ProfileRead, mcp.ProfileSafety, mcp.ProfileDefault, mcp.ProfileAll} {
			c.offer(p, "")
		}
	case "client":
		for _, name := range clients.Clients() {
			c.offer(name, "")
		}
	case "path":
		c.paths()
	case "identity":
		c.directive = cobra.ShellCompDirectiveDefault
	}
}

// argument offers words for the next argument. The command's usage line says what the argument is.
func (c *completer) argument() {
	_, usage, _ := strings.Cut(c.cmd.Use, " ")
	if len(c.args) == 0 { // words to choose from, as in "stats|list [PATH]"
		for _, w := range strings.FieldsFunc(usage, func(r rune) bool { return strings.ContainsRune(" |[]", r) }) {
			if w == strings.ToLower(w) && !strings.HasPrefix(w, "-") && !strings.ContainsAny(w, "0123456789") {
				c.offer(w, "")
			}
		}
	}
	switch {
	case strings.Contains(usage, "COMMAND"):
		c.command()
	case strings.Contains(usage, "PATH[@VERSION]"):
		c.pathVersion()
	case strings.Contains(usage, "PATH"):
		// Deleted paths are offered too, because undo, restore and log accept them.
		c.paths()
	case strings.Contains(usage, "DIR"), strings.Contains(usage, "OLD"):
		c.directive = cobra.ShellCompDirectiveFilterDirs
	case strings.Contains(usage, "FILE"):
		c.directive = cobra.ShellCompDirectiveDefault
	}
}

// command offers the programs in PATH for the first word, and files for the words after it.
func (c *completer) command() {
	if len(c.args) > 0 || strings.Contains(c.word, "/") {
		c.directive = cobra.ShellCompDirectiveDefault
		return
	}
	for _, dir := range filepath.SplitList(c.Getenv("PATH")) {
		found, _ := os.ReadDir(dir)
		for _, f := range found {
			if fi, err := os.Stat(filepath.Join(dir, f.Name())); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
				c.offer(f.Name(), "")
			}
		}
	}
}

// pathVersion completes PATH and, after an @, the numbers of its versions.
func (c *completer) pathVersion() {
	at := strings.LastIndexByte(c.word, '@')
	if at <= 0 {
		c.paths()
		return
	}
	t, k := c.project(c.word[:at])
	if k == nil {
		return
	}
	defer k.Close()
	a, err := wire.Call[wire.LogAnswer](c.ctx, k, wire.MLog, wire.LogQuery{Path: t.Rel, Limit: 50})
	if err != nil {
		return
	}
	for _, v := range a.Versions {
		if v.Number > 0 {
			c.offer(c.word[:at+1]+strconv.Itoa(v.Number), fmt.Sprintf("%s %s by %s", cli.Stamp(v.Time, c.Now()), v.Op, cli.Who(v.Actor)))
		}
	}
}

// paths offers the files in the directory typed so far, and the files that were deleted from it.
func (c *completer) paths() {
	typed, prefix := path.Split(c.word)
	where := cmp.Or(typed, ".")
	seen := map[string]bool{}
	if abs, err := c.Abs(where); err == nil {
		entries, _ := os.ReadDir(abs)
		for _, entry := range entries {
			name := entry.Name()
			if name == ".git" || strings.HasPrefix(name, ".") && !strings.HasPrefix(prefix, ".") {
				continue
			}
			isDir := entry.IsDir()
			if entry.Type()&os.ModeSymlink != 0 {
				fi, err := os.Stat(filepath.Join(abs, name))
				isDir = err == nil && fi.IsDir()
			}
			seen[name] = true
			if isDir {
				name += "/"
			}
			c.offer(typed+name, "")
		}
	}
	t, k := c.project(where)
	if k == nil {
		return
	}
	defer k.Close()
	a, err := wire.Call[wire.NamesAnswer](c.ctx, k, wire.MNames, wire.NamesQuery{Kind: "path", Dir: t.Rel, Prefix: []byte(prefix)})
	if err != nil {
		return
	}
	for _, n := range a.Names {
		name := path.Base(string(n.Name))
		if !n.Gone || seen[name] || strings.HasPrefix(name, ".") && !strings.HasPrefix(prefix, ".") {
			continue
		}
		if n.Dir {
			name += "/"
		}
		c.offer(typed+name, "deleted")
	}
}

// names offers the names of one kind, such as sessions, from the history.
func (c *completer) names(q wire.NamesQuery) {
	_, k := c.project(".")
	if k == nil {
		return
	}
	defer k.Close()
	q.Prefix = []byte(c.word)
	a, err := wire.Call[wire.NamesAnswer](c.ctx, k, wire.MNames, q)
	if err != nil {
		return
	}
	for _, n := range a.Names {
		c.offer(string(n.Name), n.Note)
	}
}

// project finds the project of a path and connects to its daemon. The client is nil if no daemon
// is running.
func (c *completer) project(given string) (cli.Target, *wire.Client) {
	t, err := c.Locate(given)
	if err != nil {
		return t, nil
	}
	k, err := wire.Dial(c.ctx, c.Env.Paths(), wire.Hello{Version: cli.Version, Client: "cli", Root: t.Root}, wire.Timeouts{Connect: completeWait, Answer: completeWait})
	if err != nil {
		k.Close()
		return t, nil
	}
	return t, k
}
