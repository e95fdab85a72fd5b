package main

import (
	"bufio"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/hooks/clients"
	"cachebro/mcp"
	"cachebro/store/wire"
)

// The scripts ask "cachebro __complete -- WORD…" for what the last word may become.
// The first line of the answer says what the words are (paths, none) or what the shell
// may offer by itself (files, dirs, command); each further line is a word, a tab and a
// note.
var (
	//go:embed completion/bash
	bashCompletion string
	//go:embed completion/zsh
	zshCompletion string
	//go:embed completion/fish
	fishCompletion string
)

func completionCommand() cli.Command {
	return cli.Command{
		Name: "completion", Group: cli.GroupSetup, Args: "bash|zsh|fish", Short: "print the completion script of a shell",
		Long: `Completes commands, flags, the ids of sessions, prompts and tool calls, the
versions of a file, and paths, also those that only the history has. The packages
install it.

Examples:
  source <(cachebro completion bash)                           # ~/.bashrc
  cachebro completion zsh > "${fpath[1]}/_cachebro"
  cachebro completion fish > ~/.config/fish/completions/cachebro.fish`,
		Run: func(_ context.Context, e *cli.Env) error {
			args, err := e.Parse(e.Flags(), 1, 1)
			if err != nil {
				return err
			}
			script, ok := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[args[0]]
			if !ok {
				return e.Usagef("completion: bash, zsh or fish, not %s", cli.Quote(args[0]))
			}
			_, err = io.WriteString(e.Stdout, script)
			return err
		},
	}
}

func completeCommand() cli.Command {
	return cli.Command{Name: "__complete", Args: "-- WORD…", Short: "what a shell can complete the last word to", Run: runComplete}
}

// completeWait is how long a person at a prompt waits for the daemon. It is not
// started for this.
const completeWait = 2 * time.Second

func runComplete(ctx context.Context, e *cli.Env) error {
	fs := e.Flags()
	raw := fs.Bool("raw", false, "the words are as typed, quotes included")
	line := fs.String("line", "", "the command line up to the cursor, in place of words")
	mine := fs.String("mine", "", "with --line: the end of the last word that the shell replaces")
	args, err := e.Parse(fs, 0, -1)
	if err != nil {
		return err
	}
	left := ""
	switch {
	case *line != "":
		words := splitLine(*line)
		args = words[min(1, len(words)-1):]
		// bash also splits at = : @, which are parts of our words, and gives such a
		// sign as a word of its own.
		if last := args[len(args)-1]; strings.Trim(*mine, "=:@") == "" {
			left = last
		} else {
			left = strings.TrimSuffix(last, unquoteWord(*mine))
		}
	case *raw:
		for i, a := range args {
			args[i] = unquoteWord(a)
		}
	}
	if len(args) == 0 {
		return e.Usagef("__complete: missing argument")
	}
	ctx, cancel := context.WithTimeout(ctx, completeWait)
	defer cancel()
	c := completer{Env: e, ctx: ctx, done: args[:len(args)-1], word: args[len(args)-1], dir: ".", also: "none"}
	c.complete()
	w := bufio.NewWriter(e.Stdout)
	fmt.Fprintln(w, c.also)
	for _, o := range c.offers {
		fmt.Fprintf(w, "%s\t%s\n", strings.TrimPrefix(o.word, left), cli.OneLine(o.note))
	}
	return w.Flush()
}

// completer finds what the last word of a command line may become.
type completer struct {
	*cli.Env
	ctx  context.Context
	done []string // the words before, without "cachebro"
	word string
	// dir is the project that --dir names, session what --session does.
	dir, session string

	also   string // none, files, dirs, command: what the shell may add by itself
	offers []offer
}

type offer struct{ word, note string }

// offer adds a word, if that is what has been typed so far. A line break or a tab in
// it has no place in our answer.
func (c *completer) offer(word, note string) {
	if strings.HasPrefix(word, c.word) && !strings.ContainsAny(word, "\n\t") {
		c.offers = append(c.offers, offer{word, note})
	}
}

func (c *completer) complete() {
	if len(c.done) == 0 {
		c.commands()
		return
	}
	i := slices.IndexFunc(commands(), func(k cli.Command) bool { return k.Name == c.done[0] && k.Group != "" })
	if i < 0 {
		if c.done[0] == "help" && len(c.done) == 1 {
			c.commands()
		}
		return
	}
	d := describe(c.Env, commands()[i])
	var given []string // arguments that are no flags
	flags := true
	var open *describedFlag // the flag whose value the next word is
	takesCommand := strings.Contains(d.Args, "COMMAND")
	for _, w := range c.done[1:] {
		switch name, value, has := strings.Cut(w, "="); {
		case open != nil:
			c.note(open.Name, w)
			open = nil
		case flags && w == "--":
			flags = false
		case flags && len(w) > 1 && w[0] == '-':
			f := d.flag(name)
			switch {
			case f == nil:
			case has:
				c.note(f.Name, value)
			case f.takesValue():
				open = f
			}
		default:
			given = append(given, w)
			flags = flags && !takesCommand
		}
	}
	switch name, value, has := strings.Cut(c.word, "="); {
	case open != nil:
		c.value(d, *open)
	case takesCommand && (len(given) > 0 || !flags || !strings.HasPrefix(c.word, "-")):
		c.also = "command"
	case flags && has && strings.HasPrefix(name, "--"):
		if f := d.flag(name); f != nil && f.takesValue() {
			sub := *c
			sub.word = value
			sub.value(d, *f)
			for _, o := range sub.offers {
				c.offer(name+"="+o.word, o.note)
			}
		}
	case flags && strings.HasPrefix(c.word, "-"):
		for _, f := range d.Flags {
			c.offer("--"+f.Name, f.Usage)
		}
		c.offer("--help", "what the command does")
	default:
		c.argument(d, given)
	}
}

func (d described) flag(word string) *describedFlag {
	for i, f := range d.Flags {
		if word == "--"+f.Name || f.Short != "" && word == "-"+f.Short {
			return &d.Flags[i]
		}
	}
	return nil
}

// note remembers the values of flags that decide what others may be.
func (c *completer) note(flag, value string) {
	switch flag {
	case "dir":
		c.dir = value
	case "session":
		c.session = value
	}
}

func (c *completer) commands() {
	for _, k := range commands() {
		if k.Group != "" {
			c.offer(k.Name, k.Short)
		}
	}
	if len(c.done) == 0 {
		c.offer("help", "what a command does")
	}
}

// value offers what may follow a flag.
func (c *completer) value(d described, f describedFlag) {
	if d.Name == "mount" && f.Name == "at" {
		c.also = "dirs"
		return
	}
	switch f.Name {
	case "dir":
		c.also = "dirs"
	case "session", "prompt", "tool-call", "agent":
		if f.Name != "tool-call" && f.Name != "agent" {
			c.offer("last", "the newest one")
		}
		c.names(wire.NamesQuery{Kind: f.Name, Session: c.session})
	case "since", "until", "at":
		for _, age := range []string{"5m", "15m", "1h", "1d", "1w"} {
			c.offer(age, "ago")
		}
		if d.Name == "restore" {
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
	case "plan", "pid", "limit", "steps", "unified":
	default:
		if strings.HasSuffix(f.Usage, "file") {
			c.also = "files"
		}
	}
}

// argument offers what may stand at this place, as the command's usage names it.
func (c *completer) argument(d described, given []string) {
	if d.Name == "help" {
		c.commands()
		return
	}
	fields := strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(d.Args))
	if len(given) == 0 { // words to choose from, as in "add TEXT… | list | remove ID…"
		for _, w := range strings.FieldsFunc(d.Args, func(r rune) bool { return strings.ContainsRune(" |[]", r) }) {
			if w == strings.ToLower(w) && !strings.HasPrefix(w, "-") && !strings.ContainsAny(w, "0123456789") {
				c.offer(w, "")
			}
		}
	}
	switch {
	case strings.Contains(d.Args, "PATH[@VERSION]"):
		c.pathVersion()
	case strings.Contains(d.Args, "PATH"):
		// undo, restore and log are for what is gone as well.
		c.paths()
	case strings.Contains(d.Args, "DIR"), slices.Contains(fields, "OLD"):
		c.also = "dirs"
	case strings.Contains(d.Args, "FILE"):
		c.also = "files"
	}
}

// pathVersion completes PATH, and behind its @ the numbers of its versions.
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

// paths offers what lies in the directory that has been typed, and what lay there.
func (c *completer) paths() {
	c.also = "paths"
	typed, prefix := path.Split(c.word)
	where := typed
	if where == "" {
		where = "."
	}
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

// names offers what the history knows of a kind.
func (c *completer) names(q wire.NamesQuery) {
	_, k := c.project(c.dir)
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

// project finds the project of a path and its daemon, if that runs.
func (c *completer) project(given string) (cli.Target, *wire.Client) {
	t, err := c.Locate(given)
	if err != nil {
		return t, nil
	}
	k, err := wire.Dial(c.ctx, c.Env.Paths(), wire.Hello{Version: cli.Version, Client: "cli", Root: t.Root}, wire.Timeouts{Connect: completeWait, Answer: completeWait})
	if err != nil {
		if k != nil {
			k.Close()
		}
		return t, nil
	}
	return t, k
}

// splitLine splits a command line into words, without their quotes; the last one is
// what is being typed, and may be empty. Nothing is expanded.
func splitLine(line string) []string {
	words := []string{""}
	quote, inside := byte(0), false
	for i := 0; i < len(line); i++ {
		word := &words[len(words)-1]
		switch b := line[i]; {
		case quote == 0 && (b == ' ' || b == '\t' || b == '\n'):
			if inside {
				words, inside = append(words, ""), false
			}
			continue
		case quote == '\'' && b != '\'':
			*word += line[i : i+1]
		case b == '\\' && i+1 < len(line) && (quote == 0 || strings.IndexByte("\"\\$`", line[i+1]) >= 0):
			i++
			*word += line[i : i+1]
		case b == '"' || b == '\'' && quote == 0, b == '\'' && quote == '\'':
			if quote == b {
				quote = 0
			} else {
				quote = b
			}
		default:
			*word += line[i : i+1]
		}
		inside = true
	}
	return words
}

// unquoteWord is a single word without its quotes, also if they have no end yet.
func unquoteWord(s string) string { return strings.Join(splitLine(s), " ") }
