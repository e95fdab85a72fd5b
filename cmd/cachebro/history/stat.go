package history

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/machines"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"
)

// changedFile sums up what happened to one path.
type changedFile struct {
	path    string
	ops     map[string]int
	first   wire.Version // oldest in the range
	last    wire.Version // newest
	authors []string
}

// statJSON prints the changes of each file since a time, one object per line.
func statJSON(ctx context.Context, e *cli.Env, c *wire.Client, t cli.Target, since time.Time, part machines.Part) error {
	files := map[string]*changedFile{}
	q := wire.LogQuery{Path: t.Rel, Since: since, Oldest: true}
	err := eachVersion(ctx, e, c, q, logFlags{oldest: true, part: part}, func(v wire.Version, _ wire.LogAnswer) error {
		f := files[string(v.Path)]
		if f == nil {
			f = &changedFile{path: string(v.Path), ops: map[string]int{}, first: v}
			files[f.path] = f
		}
		f.ops[v.Op]++
		f.last = v
		if w := cli.Who(v.Actor); !slices.Contains(f.authors, w) {
			f.authors = append(f.authors, w)
		}
		return nil
	})
	if err != nil {
		return err
	}
	// Leave out files that were both created and deleted within the period, such as the temporary file
	// that editors and sed write for each save.
	maps.DeleteFunc(files, func(_ string, f *changedFile) bool { return f.last.Deleted && f.first.Prev == 0 })
	byLast := func(a, b *changedFile) int { return cmp.Compare(b.last.Seq, a.last.Seq) }
	for _, f := range slices.SortedFunc(maps.Values(files), byLast) {
		m := map[string]any{"ops": f.ops, "last": f.last.Time, "deleted": f.last.Deleted, "authors": f.authors, "from_seq": f.first.Prev, "to_seq": f.last.Seq}
		cli.JSONPath(m, "path", []byte(f.path))
		if err := e.PrintJSON(m); err != nil {
			return err
		}
	}
	return nil
}

// maxChanged bounds the files listed for people. Nobody reads 200,000 lines.
const maxChanged = 200

// printStat prints for people how each file changed and who changed it last, in the same words as
// log.
func printStat(ctx context.Context, e *cli.Env, c *wire.Client, t cli.Target, since time.Time) error {
	looked := e.WatchTree(ctx, c)
	a, err := wire.Call[wire.Actions](ctx, c, wire.MActions, wire.ActionsQuery{Path: t.Rel, Since: since, Together: true, Lines: true, Files: maxChanged + 1})
	looked()
	if err != nil {
		return err
	}
	if len(a.Actions) == 0 || len(a.Actions[0].Files) == 0 {
		fmt.Fprintf(e.Stderr, "nothing changed since %s\n", since.Format("2006-01-02 15:04:05"))
		return nil
	}
	p, sum := e.Paint(), a.Actions[0]
	shown := min(len(sum.Files), maxChanged)
	lastBy := ""
	for _, f := range sum.Files[:shown] {
		line := fileLine(p, f)
		// Print a command only once for consecutive files.
		if by := cli.Stamp(f.Time, e.Now()) + " by " + text.Clip(cli.OneLine(f.Command), 60); by != lastBy {
			line, lastBy = line+"  "+p.Dim(by), by
		}
		fmt.Fprintln(e.Stdout, line)
	}
	if len(sum.Files) > shown {
		fmt.Fprintf(e.Stdout, "… %d more; give a directory or a shorter time, or --json to list all\n", sum.Count-listed(sum.Files, shown, false))
	}
	fmt.Fprintln(e.Stdout, Counts(p, sum.Count, sum.Added, sum.Removed, sum.Partly))
	if r := Rest(sum); r != "" {
		fmt.Fprintf(e.Stderr, "(%s)\n", r)
	}
	return nil
}
