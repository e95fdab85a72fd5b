package knowledge

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
)

// NoteCommand returns the command cachebro docs note.
func NoteCommand(e *cli.Env) *cobra.Command {
	return e.Group(&cobra.Command{
		Use: "note", Short: "save decisions, warnings and things to do",
		Long: `Notes are kept until they are removed, even if the file that they are about is deleted,
and they follow renames of that file. An agent is reminded of them after a compaction, and
cachebro search --kind note finds them.`,
		Example: `  cachebro docs note add --kind decision --path src/cache.go 'LRU, not Redis'
  cachebro docs note list --path src
  cachebro docs note remove not-1a2b3c4d
  cachebro search --kind note redis`,
	}, addNoteCommand(e), listNotesCommand(e), removeNoteCommand(e))
}

func addNoteCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "add TEXT…", Short: "save a text as a note; - reads it from standard input",
		Long:    "If the same note exists already, no second one is made.",
		Example: `  cachebro docs note add --kind decision --path src/cache.go 'LRU, not Redis'`,
		Args:    e.Args(1, -1),
	}
	n := notesFlags(cmd, "the kind of note, any word, such as decision, warning or todo (default note)", "the file or directory that the note is about")
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		text, err := noteText(e, args)
		if err != nil {
			return err
		}
		n.q.Do, n.q.Text = "add", text
		return n.ask(ctx, e)
	})
}

func listNotesCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "list the notes",
		Example: `  cachebro docs note list --path src
  cachebro docs note list --kind todo --json`,
		Args: e.Args(0, 0),
	}
	n := notesFlags(cmd, "only notes of this kind", "only notes about this file or directory")
	cmd.Flags().IntVarP(&n.q.Limit, "limit", "n", 0, "at most this many")
	return cli.Does(cmd, func(ctx context.Context, _ []string) error {
		n.q.Do = "list"
		return n.ask(ctx, e)
	})
}

func removeNoteCommand(e *cli.Env) *cobra.Command {
	n := &notes{}
	cmd := &cobra.Command{
		Use: "remove ID…", Short: "remove notes, by the ids that list shows",
		Example: "  cachebro docs note remove not-1a2b3c4d",
		Args:    e.Args(1, -1),
	}
	cmd.Flags().BoolVar(&n.json, "json", false, "one JSON object per note and line")
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		n.q.Do, n.q.IDs = "remove", args
		return n.ask(ctx, e)
	})
}

type notes struct {
	q    wire.NotesRequest
	path string
	json bool
}

func notesFlags(cmd *cobra.Command, kind, path string) *notes {
	n := &notes{}
	fs := cmd.Flags()
	fs.StringVarP(&n.q.Kind, "kind", "k", "", kind)
	fs.StringVarP(&n.path, "path", "p", "", path)
	fs.BoolVar(&n.json, "json", false, "one JSON object per note and line")
	return n
}

func (n *notes) ask(ctx context.Context, e *cli.Env) error {
	locate := e.Locate
	if n.q.Do == "add" { // a note may be the first thing that is stored for a project
		locate = e.LocateOrTop
	}
	t, err := locate(cmp.Or(n.path, "."))
	if err != nil {
		return err
	}
	c, err := e.Connect(ctx, t.Root)
	if err != nil {
		return err
	}
	defer c.Close()
	if n.path != "" {
		n.q.Path = t.Rel
	}
	n.q.Reader = wire.Reader{Session: e.Session()}
	a, err := wire.Call[wire.NotesAnswer](ctx, c, wire.MNotes, n.q)
	if err != nil {
		return err
	}
	if err := printNotes(e, a, n.q.Do, n.json); err != nil {
		return err
	}
	if more := a.Total - len(a.Notes); more > 0 && !n.json {
		fmt.Fprintf(e.Stderr, "and %d more\n", more)
	}
	return nil
}

// noteText returns the text of a new note: the arguments, or standard input.
func noteText(e *cli.Env, args []string) (string, error) {
	if len(args) > 1 || args[0] != "-" {
		return strings.Join(args, " "), nil
	}
	b, err := io.ReadAll(io.LimitReader(e.Stdin, 1<<20))
	if err != nil {
		return "", fmt.Errorf("read the note: %w", err)
	}
	return string(b), nil
}

func printNotes(e *cli.Env, a wire.NotesAnswer, did string, asJSON bool) error {
	for _, n := range a.Notes {
		if asJSON {
			m := noteObject(n)
			if did == "add" {
				m["added"] = a.Added
			}
			if err := e.PrintJSON(m); err != nil {
				return err
			}
			continue
		}
		var err error
		switch {
		case did == "list":
			err = printNote(e, n)
		case did == "remove":
			_, err = fmt.Fprintf(e.Stdout, "removed %s\n", n.ID)
		case a.Added:
			_, err = fmt.Fprintf(e.Stdout, "%s\n", n.ID)
		default:
			_, err = fmt.Fprintf(e.Stdout, "%s (exists already)\n", n.ID)
		}
		if err != nil {
			return err
		}
	}
	if did == "list" && len(a.Notes) == 0 && !asJSON {
		fmt.Fprintln(e.Stderr, "no notes")
	}
	return nil
}

// noteObject returns a note for scripts, with its paths as text.
func noteObject(n wire.Note) map[string]any {
	paths := map[string][]byte{}
	if len(n.Path) > 0 {
		paths["path"] = n.Path
	}
	if len(n.Was) > 0 {
		paths["was"] = n.Was
	}
	return cli.Object(n, paths)
}

// printNote prints a note: its id, kind and path, and its text below.
func printNote(e *cli.Env, n wire.Note) error {
	p := e.Paint()
	head := p.Yellow(n.ID) + " " + cli.OneLine(n.Kind)
	if len(n.Path) > 0 {
		head += " " + cli.Quote(string(n.Path))
	}
	switch {
	case n.Gone:
		head += p.Red(" (deleted)")
	case len(n.Was) > 0:
		head += p.Dim(" (was " + cli.Quote(string(n.Was)) + ")")
	}
	head += "  " + p.Dim(cli.Stamp(n.Time, e.Now()))
	if _, err := fmt.Fprintln(e.Stdout, head); err != nil {
		return err
	}
	for line := range strings.SplitSeq(n.Text, "\n") {
		if _, err := fmt.Fprintf(e.Stdout, "    %s\n", lineText(line)); err != nil {
			return err
		}
	}
	return nil
}
