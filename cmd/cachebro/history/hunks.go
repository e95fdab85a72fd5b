package history

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/diff"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"
)

// undoHunks shows each hunk of one action and asks whether to undo it, in the manner of git add -p.
// It reads the answers from standard input, and undoes the chosen hunks in one plan.
func undoHunks(ctx context.Context, e *cli.Env, t cli.Target, c *wire.Client, r wire.PlanRequest, f planFlags) error {
	q := wire.ActionsQuery{Limit: 10, Files: allFiles, Lines: true}
	if r.Action != 0 {
		q.Seq = r.Action + 1
	}
	a, err := wire.Call[wire.Actions](ctx, c, wire.MActions, q)
	if err != nil {
		return err
	}
	for _, x := range a.Actions {
		if r.Action == 0 && x.Plan != "" {
			continue
		}
		files := hunkFiles(x, r.Paths)
		if len(files) == 0 && r.Action == 0 {
			continue
		}
		fmt.Fprintln(e.Stdout, e.Paint().Bold(Summary(x, e.Now())))
		asking := asker{e: e, in: bufio.NewReader(e.Stdin)}
		for _, file := range files {
			if err := asking.file(ctx, c, file); err != nil {
				return err
			}
		}
		if len(asking.chosen) == 0 {
			fmt.Fprintln(e.Stdout, "nothing to do")
			return nil
		}
		*f.yes = true // the person has agreed to each hunk
		return runPlan(ctx, e, t, c, wire.PlanRequest{Kind: "undo", Edits: asking.chosen}, f)
	}
	return cli.Hintf("cachebro log shows the actions and their numbers", "no changed lines were found that could be undone by hunks")
}

// hunkFiles returns the text files that an action modified or renamed. If paths are given, it
// returns only the files that they select.
func hunkFiles(a wire.Action, paths [][]byte) (out []wire.ActionFile) {
	for _, f := range a.Files {
		selected := len(paths) == 0
		for _, p := range paths {
			selected = selected || text.GlobSelects(string(p), string(f.Path))
		}
		hasLines := f.Before != 0 && !f.Dir && !f.Binary
		if selected && hasLines && (f.Change == wire.FileModified || f.Change == wire.FileRenamed) {
			out = append(out, f)
		}
	}
	return out
}

// asker asks about the hunks one after another, and collects the chosen ones.
type asker struct {
	e        *cli.Env
	in       *bufio.Reader
	chosen   []wire.FileEdits
	quit     bool
	answered bool // whether any answer was read
}

const hunkKeys = `y  undo this hunk
n  do not undo it
a  undo this and all later hunks of the file
d  undo neither this nor later hunks of the file
s  split it into smaller hunks
q  undo neither this nor any later hunk
`

func (k *asker) file(ctx context.Context, c *wire.Client, f wire.ActionFile) error {
	if k.quit {
		return nil
	}
	var texts [2][]byte
	for i, seq := range []uint64{f.Before, f.Seq} {
		b, err := c.Call(ctx, wire.MShow, wire.ShowQuery{Seq: seq}, nil, nil)
		if errors.Is(err, wire.ErrPruned) || errors.Is(err, wire.ErrNotFound) {
			fmt.Fprintln(k.e.Stderr, cli.OneLine(err.Error()))
			return nil
		}
		if err != nil {
			return err
		}
		texts[i] = b
	}
	sc := diff.Compare(texts[0], texts[1])
	type piece struct{ from, to int } // the edits sc.Edits[from:to]
	var todo []piece
	n := 0
	for _, h := range sc.Hunks(diff.Context) {
		todo = append(todo, piece{n, n + len(h.Edits)})
		n += len(h.Edits)
	}
	if n == 0 {
		return nil
	}
	p := k.e.Paint()
	fmt.Fprintln(k.e.Stdout, p.Bold(cli.Quote(string(f.Path))))
	chosen := wire.FileEdits{Before: f.Before, After: f.Seq}
	rest := "" // the answer to all remaining hunks
	for len(todo) > 0 && rest != "d" {
		now := todo[0]
		answer := rest
		if answer == "" {
			fmt.Fprint(k.e.Stdout, p.Diff(string(hunkText(sc, now.from, now.to))))
			var err error
			answer, err = k.ask(now.to-now.from > 1)
			if err != nil {
				return err
			}
		}
		switch answer {
		case "s":
			split := make([]piece, 0, len(todo)+now.to-now.from)
			for i := now.from; i < now.to; i++ {
				split = append(split, piece{i, i + 1})
			}
			todo = append(split, todo[1:]...)
			continue
		case "a", "d":
			rest = answer
		case "q":
			rest, k.quit = "d", true
		}
		if answer == "y" || answer == "a" {
			for i := now.from; i < now.to; i++ {
				chosen.Which = append(chosen.Which, i)
			}
		}
		todo = todo[1:]
	}
	if len(chosen.Which) > 0 {
		k.chosen = append(k.chosen, chosen)
	}
	return nil
}

// ask reads one answer. At the end of the input it returns q, so that no further hunk is undone.
func (k *asker) ask(splits bool) (string, error) {
	keys := "y,n,a,d,q,?"
	if splits {
		keys = "y,n,a,d,s,q,?"
	}
	for {
		fmt.Fprintf(k.e.Stderr, "undo this hunk [%s]? ", keys)
		line, err := k.in.ReadString('\n')
		answer := strings.ToLower(strings.TrimSpace(line))
		switch {
		case errors.Is(err, io.EOF) && answer == "" && !k.answered:
			fmt.Fprintln(k.e.Stderr)
			return "", cli.NothingDone(cli.Hintf("use a terminal, or a pipe: printf 'y\\nn\\n' | cachebro undo …", "--hunk asks about each hunk, but standard input gives no answers"))
		case errors.Is(err, io.EOF) && answer == "":
			fmt.Fprintln(k.e.Stderr)
			return "q", nil
		case err != nil && !errors.Is(err, io.EOF):
			return "", fmt.Errorf("read the answer: %w", err)
		case len(answer) == 1 && answer != "," && strings.Contains(keys, answer) && answer != "?":
			k.answered = true
			return answer, nil
		}
		fmt.Fprint(k.e.Stderr, hunkKeys)
	}
}

// hunkText formats sc.Edits[from:to] as a hunk of a diff. Its context does not extend into the edits
// before and after it.
func hunkText(sc *diff.Script, from, to int) []byte {
	context := diff.Context
	if from > 0 {
		context = min(context, sc.Edits[from].OldFrom-sc.Edits[from-1].OldTo)
	}
	if to < len(sc.Edits) {
		context = min(context, sc.Edits[to].OldFrom-sc.Edits[to-1].OldTo)
	}
	part := diff.Script{Old: sc.Old, New: sc.New, Edits: sc.Edits[from:to]}
	return part.Body(context)
}
