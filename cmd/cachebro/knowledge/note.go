package knowledge

import (
	"context"
	"fmt"
	"io"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/wire"
)

// NoteCommand is cachebro note.
func NoteCommand() cli.Command {
	return cli.Command{
		Name: "note", Group: cli.GroupProject, Args: "add TEXT… | list | remove ID…", Short: "remember a decision, a warning, what is left to do",
		Long: `add keeps a text with its kind (a word of your own: decision, warning, todo; default
note) and the file or directory that it is about (--path). - reads the text from
standard input. The same text again is the same note. Notes stay until they are
removed, whatever becomes of the file, whose renames they follow. An agent is
reminded of them after a compaction; cachebro search --kind note finds them.

Examples:
  cachebro note add --kind decision --path src/cache.go 'LRU, not Redis'
  cachebro note list --path src
  cachebro note list --kind todo --json
  cachebro note remove not-1a2b3c4d
  cachebro search --kind note redis`,
		Run: runNote,
	}
}

func runNote(ctx context.Context, e *cli.Env) error {
	fs := e.Flags()
	kind := fs.StringP("kind", "k", "", "add: what sort of note (default note); list: only this one")
	path := fs.StringP("path", "p", "", "add: what it is about; list: only what is about this file or directory")
	limit := fs.IntP("limit", "n", 0, "list: at most this many")
	asJSON := fs.Bool("json", false, "one JSON object per note and line")
	dir := fs.String("dir", ".", "the project")
	args, err := e.Parse(fs, 1, -1)
	if err != nil {
		return err
	}
	q := wire.NotesRequest{Do: args[0], Kind: *kind, Limit: *limit, Reader: wire.Reader{Session: e.Session()}}
	switch rest := args[1:]; q.Do {
	case "add":
		q.Text, err = noteText(e, rest)
		if err != nil {
			return err
		}
	case "list":
		if len(rest) > 0 {
			return e.Usagef("note: unexpected argument %s; --path names what notes are about", cli.Quote(rest[0]))
		}
	case "remove":
		if len(rest) == 0 || *path != "" || *kind != "" {
			return e.Usagef("note: remove takes ids, as cachebro note list shows them")
		}
		q.IDs = rest
	default:
		return e.Usagef("note: add, list or remove, not %s", cli.Quote(q.Do))
	}
	where := *dir
	if *path != "" {
		where = *path
	}
	t, err := e.LocateOrTop(where)
	if err != nil {
		return err
	}
	c, err := e.Connect(ctx, t.Root)
	if err != nil {
		return err
	}
	defer c.Close()
	if *path != "" {
		q.Path = t.Rel
	}
	a, err := wire.Call[wire.NotesAnswer](ctx, c, wire.MNotes, q)
	if err != nil {
		return err
	}
	if err := printNotes(e, a, q.Do, *asJSON); err != nil {
		return err
	}
	if n := a.Total - len(a.Notes); n > 0 && !*asJSON {
		fmt.Fprintf(e.Stderr, "and %d more\n", n)
	}
	return nil
}

// noteText is the text of a new note: the arguments, or standard input.
func noteText(e *cli.Env, args []string) (string, error) {
	switch {
	case len(args) == 0:
		return "", e.Usagef("note: add needs a text, or - to read one from standard input")
	case len(args) > 1 || args[0] != "-":
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
			m, err := noteObject(n)
			if err != nil {
				return err
			}
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
			_, err = fmt.Fprintf(e.Stdout, "%s (it was there)\n", n.ID)
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

// noteObject is a note for scripts, its paths as text.
func noteObject(n wire.Note) (map[string]any, error) {
	paths := map[string][]byte{}
	if len(n.Path) > 0 {
		paths["path"] = n.Path
	}
	if len(n.Was) > 0 {
		paths["was"] = n.Was
	}
	return cli.Object(n, paths)
}

// printNote prints a note: what and where, and its text below.
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
