package knowledge

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/machines"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
)

// SearchCommand returns the command cachebro search.
func SearchCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "search PATTERN [PATH]", Short: "find text, definitions and files, also deleted ones",
		Long: `The pattern is literal text unless --regex is given. search finds every line that ripgrep
would find in the tracked files as they are now. If no line contains the text, it searches
for the words and prints the best matching places; --ranked does so at once. Files that
look like secrets are never shown. The exit status is 1 if no line matched, and 2 after an
error, as with grep.

CACHEBRO_EMBEDDER, in the daemon's environment, names a program that turns texts into
vectors, so that ranked search goes by meaning too. The program reads lines like
{"id":1,"kind":"passage","texts":["…"]} and answers {"id":1,"vectors":[[…]]}.`,
		Example: `  cachebro search 'func main('
  cachebro search --regex 'err(or)? :=' src --include '*.go'
  cachebro search --ranked where are timeouts of connections handled
  cachebro search --symbols ReadFile --body
  cachebro search --files rdfile
  cachebro search --history oldName`,
		Args: e.Args(1, -1),
	}

	fs := cmd.Flags()
	var q wire.SearchQuery
	fs.BoolVarP(&q.Regex, "regex", "e", false, "the pattern is a regular expression")
	caseToo := fs.BoolP("case-sensitive", "s", false, "match upper and lower case exactly")
	ignoreCase := fs.BoolP("ignore-case", "i", false, "match upper and lower case alike (the default)")
	fs.StringSliceVarP(&q.Include, "include", "g", nil, "only files that match this glob")
	fs.StringSliceVar(&q.Exclude, "exclude", nil, "no files that match this glob")
	fs.StringVar(&q.Kind, "kind", "", "only code, doc, config, test or other; note: only notes")
	fs.IntVarP(&q.Limit, "limit", "n", 20, "at most this many hits (0: all)")
	exact := fs.Bool("exact", false, "only matching lines, sorted by path and line")
	ranked := fs.Bool("ranked", false, "the pattern is a question in words; print the best places first")
	symbols := fs.Bool("symbols", false, "find definitions whose name resembles the pattern")
	files := fs.Bool("files", false, "find files whose name resembles the pattern")
	history := fs.Bool("history", false, "find lines of older versions and deleted files that no longer exist")
	compact := fs.Bool("compact", false, "one line per hit, with an id that show and read_file accept")
	asJSON := fs.Bool("json", false, "one JSON object per hit and line")
	fs.StringVar(&q.Session, "session", "", "rank what this session works on higher")
	fs.BoolVar(&q.Body, "body", false, "also print the text of the enclosing definition")
	fs.BoolVar(&q.AllWorktrees, "all-worktrees", false, "also search linked worktrees inside the project")
	machine := machines.Flag(fs)
	search := func(ctx context.Context, args []string) error {
		modes := 0
		for _, m := range []struct {
			on   bool
			mode string
		}{{*exact, wire.SearchExact}, {*ranked, wire.SearchRanked}, {*symbols, wire.SearchSymbols}, {*files, wire.SearchFiles}, {*history, wire.SearchHistory}} {
			if m.on {
				q.Mode = m.mode
				modes++
			}
		}
		switch {
		case modes > 1:
			return e.Usagef("search: --exact, --ranked, --symbols, --files and --history exclude each other")
		case *caseToo && *ignoreCase:
			return e.Usagef("search: --case-sensitive and --ignore-case exclude each other")
		case *machine != "" && !*history:
			return e.Usagef("search: --machine needs --history, because the files themselves are on that machine")
		case q.Limit < 0:
			return e.Usagef("search: --limit cannot be negative")
		case q.Limit == 0:
			q.Limit = -1
		}
		q.CaseSensitive, q.Gone = *caseToo, *files
		q.Pattern = args[0]
		where := "."
		if *ranked {
			q.Pattern = strings.Join(args, " ")
		} else if len(args) > 2 {
			return e.Usagef("search: unexpected argument %s; quote a pattern of several words", cli.Quote(args[2]))
		} else if len(args) == 2 {
			where = args[1]
		}
		t, c, _, err := machines.Open(ctx, e, *machine, where)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := e.CheckKnown(ctx, c, t); err != nil {
			return err
		}
		if past := *history || *files || q.Kind == "note"; !past && !t.Exists() {
			return cli.Hintf("cachebro search --history finds text in files that no longer exist", "%s no longer exists", cli.Quote(where))
		}
		q.Path = t.Rel
		a, err := wire.Call[wire.SearchAnswer](ctx, c, wire.MSearch, q)
		if err != nil {
			return err
		}
		if a.Warning != "" {
			fmt.Fprintln(e.Stderr, "cachebro: "+cli.OneLine(a.Warning))
		}
		switch {
		case *asJSON:
			err = printHitsJSON(e, a)
		case *compact:
			for _, h := range a.Hits {
				fmt.Fprint(e.Stdout, compactLine(h, path.Base(t.Root)))
			}
		default:
			printHits(e, q, a)
		}
		if a.NotSearched != "" {
			fmt.Fprintln(e.Stderr, "cachebro: not searched: "+cli.OneLine(a.NotSearched))
		}
		if err == nil && len(a.Hits) == 0 {
			if len(a.Suggest) > 0 {
				fmt.Fprintf(e.Stderr, "nothing found; did you mean %s?\n", cli.OneLine(strings.Join(a.Suggest, ", ")))
			} else if q.Mode == wire.SearchHistory {
				fmt.Fprintf(e.Stderr, "nothing found in %d older contents\n", a.Looked)
			}
			return cli.ExitStatus(1)
		}
		if err == nil && q.NearestBy(a) != "" {
			return cli.ExitStatus(1) // the hits only resemble the pattern; exit as grep does when no line matches
		}
		return err
	}
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		err := search(ctx, args)
		if err != nil {
			err = cli.NothingDone(err) // exit status 1 means that no line matched
		}
		return err
	})
}

// compactLine returns a hit as one line, in the format of doc/formats.md.
func compactLine(h wire.SearchHit, project string) string {
	date := ""
	if !h.Time.IsZero() {
		date = h.Time.Local().Format("2006-01-02")
	}
	return fmt.Sprintf("  [%-8s] %-16s | %-40s | %-8s | %s | %.2f\n", h.Type, h.ID, text.Clip(cli.OneLine(strings.Join(strings.Fields(h.Title), " ")), 40), project, date, h.Score)
}

func printHitsJSON(e *cli.Env, a wire.SearchAnswer) error {
	for _, h := range a.Hits {
		m := cli.Object(h, map[string][]byte{"path": h.Path})
		if h.Note != nil {
			m["note"] = noteObject(*h.Note)
		}
		if err := e.PrintJSON(m); err != nil {
			return err
		}
	}
	return nil
}

const maxLine = 2000

// printHits prints each hit for a person, usually as path:line: text. The text's history or the
// enclosing definition follows on lines of its own.
func printHits(e *cli.Env, q wire.SearchQuery, a wire.SearchAnswer) {
	p := e.Paint()
	if by := q.NearestBy(a); by != "" {
		mean := ""
		if len(a.Suggest) > 0 {
			mean = " (did you mean " + cli.OneLine(strings.Join(a.Suggest, ", ")) + "?)"
		}
		fmt.Fprintf(e.Stderr, "no line has %s%s; the nearest by %s:\n", cli.Quote(q.Pattern), mean, by)
	}
	for _, h := range a.Hits {
		name := cli.Quote(string(h.Path))
		if len(h.Path) == 0 { // the hit is a session, which has no path
			name = cli.OneLine(h.Title)
		}
		switch {
		case h.Note != nil:
			_ = printNote(e, *h.Note)
		case h.Past != nil && a.How == wire.SearchFiles:
			fmt.Fprintln(e.Stdout, name+p.Dim("  "+goneLine(h, e)))
		case h.Past != nil:
			fmt.Fprintf(e.Stdout, "%s:%d: %s\n", name, h.Line, lineText(h.Around(maxLine)))
			fmt.Fprintln(e.Stdout, p.Dim("    "+pastLine(h, e)))
		case a.How == wire.SearchFiles:
			fmt.Fprintln(e.Stdout, name)
		case h.Line == 0 || len(h.Path) == 0:
			fmt.Fprintln(e.Stdout, name)
		default:
			fmt.Fprintf(e.Stdout, "%s:%d: %s\n", name, h.Line, lineText(h.Around(maxLine)))
		}
		if h.Body != "" {
			for line := range strings.Lines(h.Body) {
				fmt.Fprintf(e.Stdout, "    %s\n", lineText(strings.TrimRight(line, "\n")))
			}
		}
	}
	if a.Truncated {
		fmt.Fprintf(e.Stderr, "%d of %s; --limit 0 prints all\n", len(a.Hits), a.Counts())
	}
}

// lineText returns a line of a file for a terminal. It keeps tabs and replaces other control
// characters.
func lineText(s string) string {
	parts := strings.Split(strings.TrimRight(s, "\r"), "\t")
	for i := range parts {
		parts[i] = cli.OneLine(parts[i])
	}
	return strings.Join(parts, "\t")
}

// goneLine describes when a file was deleted or renamed, and by whom.
func goneLine(h wire.SearchHit, e *cli.Env) string {
	gone := h.Past.Gone
	out := fmt.Sprintf("(deleted in %d, %s", gone.Seq, cli.Stamp(gone.Time, e.Now()))
	if gone.Op == "moved" {
		out = fmt.Sprintf("(renamed to %s in %d, %s", cli.Quote(string(gone.To)), gone.Seq, cli.Stamp(gone.Time, e.Now()))
	}
	if who := cli.OneLine(cmp.Or(gone.Actor.Comm, gone.Actor.Tool)); who != "" {
		out += ", " + who
	}
	return out + ")"
}

// pastLine describes in which versions a text existed, and who removed it.
func pastLine(h wire.SearchHit, e *cli.Env) string {
	who := cmp.Or(h.Past.Gone.Actor.Comm, h.Past.Gone.Actor.Tool)
	if who != "" {
		who = " by " + cli.OneLine(who)
	}
	now := e.Now()
	return fmt.Sprintf("first seen in version %d (%s), last in %d (%s), removed in %d (%s%s)", h.Past.First.Seq, cli.Stamp(h.Past.First.Time, now), h.Past.Last.Seq,
		cli.Stamp(h.Past.Last.Time, now), h.Past.Gone.Seq, h.Past.Gone.Op, who)
}
