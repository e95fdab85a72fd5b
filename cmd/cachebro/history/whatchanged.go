package history

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/text"
	"cachebro/store/undo/apply"
	"cachebro/store/wire"
	"cachebro/store/wire/when"
)

// changedFile sums up what happened to one path.
type changedFile struct {
	path    string
	ops     map[string]int
	first   wire.Version // oldest in the range
	last    wire.Version // newest
	authors []string
}

func runWhatChanged(ctx context.Context, e *cli.Env) error {
	fs := e.Flags()
	asJSON := fs.Bool("json", false, "one JSON object per file and line")
	args, err := e.Parse(fs, 0, 2)
	if err != nil {
		return err
	}
	since, ok := when.Time(cli.First(args, "10m"), e.Now())
	switch {
	case ok && len(args) > 0:
		args = args[1:]
	case !ok && len(args) == 2:
		return e.Usagef("what-changed: %s is neither an age (10m) nor a time (12:40)", cli.Quote(args[0]))
	case !ok:
		since, _ = when.Time("10m", e.Now())
	}
	t, c, err := e.Open(ctx, cli.First(args, "."))
	if err != nil {
		return err
	}
	defer c.Close()
	files := map[string]*changedFile{}
	q := wire.LogQuery{Path: t.Rel, Since: since, Oldest: true}
	err = eachVersion(ctx, e, c, q, logFlags{oldest: true}, func(v wire.Version, _ wire.LogAnswer) error {
		f := files[string(v.Path)]
		if f == nil {
			f = &changedFile{path: string(v.Path), ops: map[string]int{}, first: v}
			files[f.path] = f
		}
		f.ops[v.Op]++
		f.last = v
		if w := cli.Who(v.Actor); !contains(f.authors, w) {
			f.authors = append(f.authors, w)
		}
		return nil
	})
	if err != nil {
		return err
	}
	all := make([]*changedFile, 0, len(files))
	for _, f := range files {
		all = append(all, f)
	}
	all, fleeting := split(all)
	sort.Slice(all, func(i, j int) bool { return all[i].last.Seq > all[j].last.Seq })
	for _, f := range all {
		if *asJSON {
			m := map[string]any{"ops": f.ops, "last": f.last.Time, "deleted": f.last.Deleted, "authors": f.authors, "from_seq": f.first.Prev, "to_seq": f.last.Seq}
			cli.JsonPath(m, "path", []byte(f.path))
			if err := e.PrintJSON(m); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintln(e.Stdout, f.line(e.Paint()))
	}
	if fleeting > 0 && !*asJSON {
		fmt.Fprintf(e.Stderr, "(%s came and went)\n", text.Count(fleeting, "file"))
	}
	if len(all) == 0 && !*asJSON {
		fmt.Fprintf(e.Stderr, "nothing changed since %s\n", since.Format("2006-01-02 15:04:05"))
	}
	return nil
}

// split leaves out what was made and deleted within the time: editors and sed
// write a temporary file for each save.
func split(all []*changedFile) (kept []*changedFile, fleeting int) {
	for _, f := range all {
		if f.last.Deleted && f.first.Prev == 0 {
			if !apply.Temporary([]byte(f.path)) {
				fleeting++
			}
			continue
		}
		kept = append(kept, f)
	}
	return kept, fleeting
}

// line is like git's status letters: A new, D deleted, M changed.
func (f *changedFile) line(p cli.Paint) string {
	letter := p.Yellow("M")
	switch {
	case f.last.Deleted:
		letter = p.Red("D")
	case f.first.Prev == 0:
		letter = p.Green("A")
	}
	n := 0
	for _, c := range f.ops {
		n += c
	}
	times := "1 version"
	if n > 1 {
		times = fmt.Sprintf("%d versions", n)
	}
	authors := f.authors
	if len(authors) > 3 {
		authors = append(authors[:3:3], fmt.Sprintf("and %d more", len(f.authors)-3))
	}
	return fmt.Sprintf("%s %s (%s, last %s by %s)", letter, cli.Quote(f.path), times, f.last.Time.Local().Format("15:04:05"), strings.Join(authors, ", "))
}

func contains(all []string, s string) bool {
	for _, a := range all {
		if a == s {
			return true
		}
	}
	return false
}
