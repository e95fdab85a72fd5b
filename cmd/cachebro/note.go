package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"cachebro/store/wire"
)

func noteCommand() command {
	return command{
		name: "note", group: groupEvery, args: "add TEXT… | list | remove ID…", short: "remember a decision, a warning, what is left to do",
		long: `add keeps a text with its kind (a word of your own: decision, warning, todo; default
note) and the file or directory that it is about (--path). - reads the text from
standard input. The same text again is the same note. Notes stay until they are
removed, whatever becomes of the file, whose renames they follow. An agent is
reminded of them after a compaction; cachebro search --kind note finds them.

Examples:
  cachebro note add --kind decision --path src/cache.go 'LRU, not Redis: one machine only'
  cachebro note list --path src
  cachebro note list --kind todo --json
  cachebro note remove not-1a2b3c4d
  cachebro search --kind note redis`,
		run: runNote,
	}
}

func runNote(ctx context.Context, e *env) error {
	fs := e.flags()
	kind := fs.StringP("kind", "k", "", "add: what sort of note (default note); list: only this one")
	path := fs.StringP("path", "p", "", "add: what it is about; list: only what is about this file or directory")
	limit := fs.IntP("limit", "n", 0, "list: at most this many")
	asJSON := fs.Bool("json", false, "one JSON object per note and line")
	dir := fs.String("dir", ".", "the project")
	args, err := e.parse(fs, 1, -1)
	if err != nil {
		return err
	}
	q := wire.NotesRequest{Do: args[0], Kind: *kind, Limit: *limit, Reader: wire.Reader{Session: e.session()}}
	switch rest := args[1:]; q.Do {
	case "add":
		if q.Text, err = e.noteText(rest); err != nil {
			return err
		}
	case "list":
		if len(rest) > 0 {
			return e.usagef("note: unexpected argument %s; --path names what notes are about", quote(rest[0]))
		}
	case "remove":
		if len(rest) == 0 || *path != "" || *kind != "" {
			return e.usagef("note: remove takes ids, as cachebro note list shows them")
		}
		q.IDs = rest
	default:
		return e.usagef("note: add, list or remove, not %s", quote(q.Do))
	}
	where := *dir
	if *path != "" {
		where = *path
	}
	t, err := e.locateOrTop(where)
	if err != nil {
		return err
	}
	c, err := e.connect(ctx, t.root)
	if err != nil {
		return err
	}
	defer c.Close()
	if *path != "" {
		q.Path = t.rel
	}
	a, err := wire.Call[wire.NotesAnswer](ctx, c, wire.MNotes, q)
	if err != nil {
		return err
	}
	if err := e.printNotes(a, q.Do, *asJSON); err != nil {
		return err
	}
	if n := a.Total - len(a.Notes); n > 0 && !*asJSON {
		fmt.Fprintf(e.stderr, "and %d more\n", n)
	}
	return nil
}

// noteText is the text of a new note: the arguments, or standard input.
func (e *env) noteText(args []string) (string, error) {
	switch {
	case len(args) == 0:
		return "", e.usagef("note: add needs a text, or - to read one from standard input")
	case len(args) > 1 || args[0] != "-":
		return strings.Join(args, " "), nil
	}
	b, err := io.ReadAll(io.LimitReader(e.stdin, 1<<20))
	if err != nil {
		return "", fmt.Errorf("read the note: %w", err)
	}
	return string(b), nil
}

// session is the agent's session that the command runs in, "" for a person's
// shell.
func (e *env) session() string {
	for _, name := range []string{"CACHEBRO_SESSION", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID"} {
		if s := e.getenv(name); s != "" {
			return s
		}
	}
	return ""
}

func (e *env) printNotes(a wire.NotesAnswer, did string, asJSON bool) error {
	for _, n := range a.Notes {
		if asJSON {
			m, err := noteObject(n)
			if err != nil {
				return err
			}
			if did == "add" {
				m["added"] = a.Added
			}
			if err := e.printJSON(m); err != nil {
				return err
			}
			continue
		}
		var err error
		switch {
		case did == "list":
			err = e.printNote(n)
		case did == "remove":
			_, err = fmt.Fprintf(e.stdout, "removed %s\n", n.ID)
		case a.Added:
			_, err = fmt.Fprintf(e.stdout, "%s\n", n.ID)
		default:
			_, err = fmt.Fprintf(e.stdout, "%s (it was there)\n", n.ID)
		}
		if err != nil {
			return err
		}
	}
	if did == "list" && len(a.Notes) == 0 && !asJSON {
		fmt.Fprintln(e.stderr, "no notes")
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
	return object(n, paths)
}

// printNote prints a note: what and where, and its text below.
func (e *env) printNote(n wire.Note) error {
	p := paint{e.colour()}
	head := p.yellow(n.ID) + " " + oneLine(n.Kind)
	if len(n.Path) > 0 {
		head += " " + quote(string(n.Path))
	}
	switch {
	case n.Gone:
		head += p.red(" (deleted)")
	case len(n.Was) > 0:
		head += p.dim(" (was " + quote(string(n.Was)) + ")")
	}
	head += "  " + p.dim(strings.TrimSpace(stamp(n.Time, e.now())))
	if _, err := fmt.Fprintln(e.stdout, head); err != nil {
		return err
	}
	for line := range strings.SplitSeq(n.Text, "\n") {
		if _, err := fmt.Fprintf(e.stdout, "    %s\n", lineText(line)); err != nil {
			return err
		}
	}
	return nil
}
