package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"cachebro/fusefs/mounts"
	"cachebro/store/leaf/text"
	"cachebro/store/wire/visible"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// OwnSignals are the annotations of a command that handles SIGINT and SIGTERM itself. For all
// other commands, these signals cancel the command's context.
var OwnSignals = map[string]string{"signals": "own"}

// Run executes the command line args with root and its sub-commands. It returns the exit status.
func (e *Env) Run(root *cobra.Command, args []string) int {
	e.Cmd = root
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs(args)
	root.SetOut(e.Stdout)
	root.SetErr(e.Stderr)
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { e.printHelp(c) })
	root.SetHelpCommand(e.helpCommand())
	root.SetFlagErrorFunc(e.flagError)
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return e.begin(c) }
	inOrder(root)
	defer e.Flush()
	err := root.ExecuteContext(context.Background())
	if e.stop != nil {
		e.stop()
	}
	return e.Report(err)
}

// inOrder makes the help of c and its sub-commands list flags in the order of their declaration.
func inOrder(c *cobra.Command) {
	c.Flags().SortFlags = false
	for _, sub := range c.Commands() {
		inOrder(sub)
	}
}

// begin prepares the run of c, whose flags and arguments have been checked.
func (e *Env) begin(c *cobra.Command) error {
	e.Cmd = c
	for _, name := range []string{"json", "null"} {
		if f := c.Flags().Lookup(name); f != nil && f.Value.String() == "true" {
			e.Stdout = visible.Raw(e.Stdout)
		}
	}
	if c.Annotations["signals"] != "own" {
		ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
		c.SetContext(ctx)
		e.stop = stop
	}
	return e.EnterDir(c)
}

// Does makes c call run with its context and its arguments. It returns c.
func Does(c *cobra.Command, run func(ctx context.Context, args []string) error) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error { return run(c.Context(), args) }
	return c
}

// AsksForHelp reports whether the only argument is --help or -h. It is for commands that do not
// parse flags.
func AsksForHelp(args []string) bool {
	return len(args) == 1 && (args[0] == "--help" || args[0] == "-h")
}

// EnterDir makes the directory of --dir the working directory of e, if the flag was given.
func (e *Env) EnterDir(c *cobra.Command) error {
	f := c.Flag("dir")
	if f == nil || f.Value.String() == "" {
		return nil
	}
	dir, err := e.Abs(f.Value.String())
	if err != nil {
		return err
	}
	overlays, err := mounts.Overlays()
	if err != nil {
		return err
	}
	if e.Stopped(overlays, dir) != nil {
		e.Dir = dir
		return nil // a command that uses the directory reports the error
	}
	real, err := filepath.EvalSymlinks(dir)
	switch {
	case err == nil:
		dir = real
	case errors.Is(err, fs.ErrNotExist):
		return e.Usagef("--dir %s: there is no such directory", Quote(f.Value.String()))
	} // the path of a dead mount cannot be resolved, so it is used as given
	e.Dir = dir
	return nil
}

// Args accepts between min and max arguments. A max of -1 means any number.
func (e *Env) Args(min, max int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		e.Cmd = c
		switch {
		case len(args) < min:
			return e.Usagef("%s: missing argument: usage: %s", c.Name(), strings.TrimSuffix(c.UseLine(), " [flags]"))
		case max >= 0 && len(args) > max:
			return e.Usagef("%s: unexpected argument %s", c.Name(), Quote(args[max]))
		}
		return nil
	}
}

// Group adds sub-commands to c. Without a sub-command, c prints its help.
func (e *Env) Group(c *cobra.Command, below ...*cobra.Command) *cobra.Command {
	c.AddCommand(below...)
	c.Args = e.OnlyBelow(0)
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return c
}

// OnlyBelow accepts at most max arguments. With more, it reports the first one as an unknown
// sub-command, which may be misspelt.
func (e *Env) OnlyBelow(max int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		e.Cmd = c
		if len(args) <= max {
			return nil
		}
		hint := helpOf(c)
		near := nearest(args[0], func(offer func(string)) {
			for _, sub := range c.Commands() {
				if sub.IsAvailableCommand() {
					offer(sub.Name())
				}
			}
		})
		if i := slices.IndexFunc(c.Commands(), func(sub *cobra.Command) bool { return slices.Contains(sub.SuggestFor, args[0]) }); i >= 0 {
			near = c.Commands()[i].Name()
		}
		if near != "" {
			hint = "did you mean " + c.CommandPath() + " " + near + "?"
		}
		return UsageHint(hint, "unknown command %s", Quote(strings.TrimPrefix(c.CommandPath()+" "+args[0], c.Root().Name()+" ")))
	}
}

// flagError returns a usage error for a wrong flag, and suggests a similar one.
func (e *Env) flagError(c *cobra.Command, err error) error {
	e.Cmd = c
	name := ""
	if c.HasParent() {
		name = c.Name() + ": "
	}
	if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) {
		if near := nearest(unknown.GetSpecifiedName(), func(offer func(string)) {
			c.Flags().VisitAll(func(f *pflag.Flag) { offer(f.Name) })
		}); near != "" {
			return UsageHint("did you mean --"+near+"?", "%s%v", name, err)
		}
	}
	if bad := (*pflag.InvalidValueError)(nil); errors.As(err, &bad) {
		want, ok := wants[bad.GetFlag().Value.Type()]
		if ok {
			return e.Usagef("%s--%s %s: want %s", name, bad.GetFlag().Name, Quote(bad.GetValue()), want)
		}
	}
	return e.Usagef("%s%v", name, err)
}

// wants describes the values that a flag accepts, by the type of the flag.
var wants = map[string]string{
	"int": "a number", "int64": "a number", "uint": "a number from 0 on", "uint32": "a number from 0 on", "uint64": "a number from 0 on",
	"float64": "a number such as 0.5", "bool": "true or false", "duration": "a time such as 90s or 10m",
}

// nearest returns the name that differs from typed by the fewest edits, or "" if all differ by more
// than two. names calls its argument with each name.
func nearest(typed string, names func(offer func(string))) (found string) {
	best := 3
	names(func(name string) {
		if d := text.Distance(typed, name); d < best && d < len(typed) {
			best, found = d, name
		}
	})
	return found
}

// helpOf returns the command line that prints the help of c.
func helpOf(c *cobra.Command) string {
	program := c.Root().Name()
	return strings.TrimSpace(program + " help" + strings.TrimPrefix(c.CommandPath(), program))
}

func (e *Env) helpCommand() *cobra.Command {
	c := &cobra.Command{Use: "help [COMMAND]", Short: "what a command does", Example: "  cachebro help store prune"}
	all := c.Flags().Bool("all", false, "list all commands")
	return Does(c, func(_ context.Context, args []string) error {
		of, rest, err := c.Root().Find(args)
		switch {
		case *all:
			e.listAll(c.Root(), "")
		case err != nil || len(rest) > 0 || of == nil:
			return UsageHint(helpOf(c.Root()), "unknown command %s", Quote(strings.Join(args, " ")))
		default:
			e.printHelp(of)
		}
		return nil
	})
}

func (e *Env) listAll(c *cobra.Command, indent string) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			fmt.Fprintf(e.Stdout, "%s%-*s %s\n", indent, 14-len(indent), sub.Name(), sub.Short)
			e.listAll(sub, indent+"  ")
		}
	}
}

const helpWidth = 80

func (e *Env) printHelp(c *cobra.Command) {
	w := e.Stdout
	fmt.Fprintf(w, "%s\n\nUsage:\n  %s\n", c.Short, c.UseLine())
	if c.Long != "" {
		fmt.Fprintf(w, "\n%s\n", filled(c.Long, helpWidth))
	}
	var others []string
	for _, g := range c.Groups() {
		fmt.Fprintf(w, "\n%s:\n", g.Title)
		e.list(c, g.ID)
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.GroupID == "" {
			others = append(others, sub.Name())
		}
	}
	switch {
	case len(others) > 0 && len(c.Groups()) > 0:
		fmt.Fprintf(w, "\nMore (%s --all):\n  %s\n", helpOf(c.Root()), strings.ReplaceAll(filled(strings.Join(others, ", "), helpWidth-2), "\n", "\n  "))
	case len(others) > 0:
		fmt.Fprint(w, "\nCommands:\n")
		e.list(c, "")
	}
	if c.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n%s\n", c.Example)
	}
	c.InitDefaultHelpFlag()
	c.Flag("help").Hidden = true
	if c.HasAvailableLocalFlags() {
		fmt.Fprintf(w, "\nFlags:\n%s", c.LocalFlags().FlagUsagesWrapped(helpWidth))
	}
	if c.HasAvailableInheritedFlags() {
		fmt.Fprintf(w, "\nFor all commands:\n%s", c.InheritedFlags().FlagUsagesWrapped(helpWidth))
	}
}

// list prints a line for each sub-command of c that is in the group.
func (e *Env) list(c *cobra.Command, group string) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.GroupID == group {
			fmt.Fprintf(e.Stdout, "  %-10s %s\n", sub.Name(), sub.Short)
		}
	}
}

// filled wraps paragraphs at a width. Lines that begin with a blank are examples, which are not
// wrapped.
func filled(page string, width int) string {
	var out []string
	fits := false // whether words may be added to the last line of out
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == ' ' || line[0] == '\t' {
			out, fits = append(out, line), false
			continue
		}
		for _, word := range strings.Fields(line) {
			last := len(out) - 1
			if fits && utf8.RuneCountInString(out[last])+1+utf8.RuneCountInString(word) <= width {
				out[last] += " " + word
			} else {
				out, fits = append(out, word), true
			}
		}
	}
	return strings.Join(out, "\n")
}
