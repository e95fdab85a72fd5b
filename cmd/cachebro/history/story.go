package history

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/leaf/loop"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"
)

const (
	storyPage  = 50 // actions per request
	shortFiles = 8  // files of an action that are listed without --stat
	allFiles   = 100_000
	// below is the indentation of lines that belong to an action. It aligns them with the action's
	// time.
	below = "       "
	// pipeWidth is the width of lines if the output is not a terminal. A command has at most 500
	// bytes, so it is never shortened in the output.
	pipeWidth = 600
	// followEvery is the pause between two requests of --follow. settled is how long ago an action
	// must have ended before it is shown. After that time its counts are final.
	followEvery = 500 * time.Millisecond
	settled     = time.Second
)

type story struct {
	*cli.Env
	ctx    context.Context
	c      *wire.Client
	out    *bufio.Writer
	paint  cli.Paint
	clock  time.Time
	f      logFlags
	width  int
	uid    uint32
	prompt string      // session and prompt of the last action
	any    bool        // something was written
	aside  []asideLine // lines still to be printed between actions: labels, git operations, gaps, notices
}

func newStory(ctx context.Context, e *cli.Env, w io.Writer, c *wire.Client, f logFlags) *story {
	s := &story{Env: e, ctx: ctx, c: c, out: bufio.NewWriter(w), paint: e.Paint(), clock: e.Now(), f: f, width: pipeWidth, uid: uint32(os.Getuid())}
	if _, width := e.Terminal(); width > 40 {
		s.width = width
	}
	return s
}

// eachPage calls do with pages of actions until the limit is reached or the log ends. It leaves out
// actions that changed nothing, unless the flags include them.
func eachPage(ctx context.Context, e *cli.Env, c *wire.Client, q wire.ActionsQuery, f logFlags, limit int, do func(wire.Actions) error) error {
	left := limit
	for {
		q.Limit = storyPage
		if limit > 0 {
			q.Limit = min(left, storyPage)
		}
		looked := e.WatchTree(ctx, c)
		a, err := wire.Call[wire.Actions](ctx, c, wire.MActions, q)
		looked()
		if err != nil {
			return err
		}
		if q.Seq == 0 {
			noteBehind(e, a.Behind)
		}
		if !f.withNothing() {
			a.Actions = wire.WithEffect(a.Actions)
		}
		a.Actions = slices.DeleteFunc(a.Actions, func(x wire.Action) bool { return !f.part.Has(x.Last) })
		if err := do(a); err != nil {
			return err
		}
		left -= len(a.Actions)
		if !a.More || limit > 0 && left <= 0 {
			return nil
		}
		q.Seq, q.Skip = a.Seq, a.Skip
	}
}

// noteBehind prints a note if the newest changes are not in the log yet.
func noteBehind(e *cli.Env, records uint64) {
	if records > 0 {
		fmt.Fprintf(e.Stderr, "note: about %s of newer changes are in the spool and not yet in the history (cachebro status)\n", text.Count(int(records), "record"))
	}
}

func (f logFlags) query(q wire.LogQuery) wire.ActionsQuery {
	a := wire.ActionsQuery{Path: q.Path, Session: q.Session, Author: f.author, Since: q.Since, Until: q.Until, Ops: q.Ops, Oldest: f.oldest, Files: shortFiles, Fold: true, Lines: true, Lost: f.lost}
	if f.stat || f.patch || f.json {
		a.Files, a.Fold = allFiles, false
	}
	return a
}

// withNothing reports whether to show actions that changed nothing.
func (f logFlags) withNothing() bool { return f.all || f.lost }

func printStory(ctx context.Context, e *cli.Env, w io.Writer, t cli.Target, c *wire.Client, q wire.LogQuery, f logFlags) error {
	s := newStory(ctx, e, w, c, f)
	s.labels(t.Root, q)
	err := eachPage(ctx, e, c, f.query(q), f, f.limit, func(a wire.Actions) error {
		s.aside = append(s.aside, asides(t.Root, s.paint, s.clock, 5, a.Gaps, a.Notices)...)
		s.gitOps(a.Git)
		for _, x := range a.Actions {
			for i := range x.Files {
				x.Files[i].Path, x.Files[i].From = cli.Shown(t.Root, x.Files[i].Path), cli.Shown(t.Root, x.Files[i].From)
			}
			if t.Root == wire.OutsideRoot && x.Dir != "" {
				x.Dir = filepath.Join("/", x.Dir)
			}
			if err := s.action(x); err != nil {
				return err
			}
		}
		return nil
	})
	none := !s.any && len(s.aside) == 0
	if !s.any && f.limit > 0 { // no action was printed, so the limit applies to the other lines
		s.aside = s.aside[:min(f.limit, len(s.aside))]
	}
	if err == nil && (f.limit == 0 || !s.any) {
		s.printAsides(nil)
	}
	if err == nil && none {
		printNoChanges(e, t, f)
	}
	return errors.Join(err, s.out.Flush())
}

func printNoChanges(e *cli.Env, t cli.Target, f logFlags) {
	where := "in " + cli.Quote(t.Root)
	if len(t.Rel) > 0 {
		where = "of " + cli.Quote(string(t.Rel))
	}
	fmt.Fprintf(e.Stderr, "no changes %s%s\n", where, map[bool]string{true: " that match", false: " yet"}[f.session+f.since+f.until+f.author+f.op != "" || f.lost])
	if state, err := e.Paths().State(wire.OutsideRoot); err == nil && t.Root != wire.OutsideRoot && cli.IsDir(state) {
		fmt.Fprintln(e.Stderr, "hint: cachebro log --outside shows what commands under cachebro run changed outside of projects")
	}
}

// labels puts the labels of moments between the actions.
func (s *story) labels(root string, q wire.LogQuery) {
	state, err := s.Paths().State(root)
	if err != nil || s.f.session+s.f.author+s.f.op != "" || s.f.lost {
		return
	}
	all, err := cli.Labels(state)
	if err != nil {
		return // the file is broken, so show no labels
	}
	for _, l := range all {
		if l.At.Before(q.Since) || !q.Until.IsZero() && l.At.After(q.Until) {
			continue
		}
		s.aside = append(s.aside, asideLine{time: l.At.Add(1), text: s.paint.Cyan(fmt.Sprintf("%-5s  %s  %s", "label", cli.Stamp(l.At, s.clock), cli.Quote(l.Name)))})
	}
	s.f.sortAsides(s.aside)
}

// gitOps puts operations on git's own files between the actions.
func (s *story) gitOps(ops []wire.GitOp) {
	for _, o := range ops {
		s.aside = append(s.aside, asideLine{time: o.End, in: promptOf(o.Actor), text: s.paint.Yellow(fmt.Sprintf("%-5s  ", fmt.Sprintf("g%d", o.ID))) + cli.Stamp(o.End, s.clock) + "  " + gitLine(s.paint, o)})
	}
	s.f.sortAsides(s.aside)
}

// printAsides prints the lines that come before action a in the order of the log, or all of them if
// a is nil. Lines of the action's prompt are printed under the heading of that prompt.
func (s *story) printAsides(a *wire.Action) {
	for ; len(s.aside) > 0 && (a == nil || s.aside[0].time.After(a.End) != s.f.oldest); s.aside, s.any = s.aside[1:], true {
		in, indent := s.aside[0].in, ""
		switch {
		case in != "" && a != nil && in == promptOf(a.Actor):
			indent = s.heading(*a)
		case in != "" && in == s.prompt:
			indent = "  "
		}
		fmt.Fprintln(s.out, indent+s.aside[0].text)
	}
}

// promptOf returns an actor's session and prompt, or "" if no session is known.
func promptOf(a wire.Actor) string {
	if a.Session == "" {
		return ""
	}
	return a.Session + " " + a.Prompt
}

// action writes one action: a line with the time, the command and the counts, then its files.
func (s *story) action(a wire.Action) error {
	s.printAsides(&a)
	indent := s.heading(a)
	head := indent + s.paint.Yellow(fmt.Sprintf("%-5d  ", a.Last)) + cli.Stamp(a.End, s.clock) + "  "
	command := cli.OneLine(a.Command)
	sum := countsOf(s.paint, a)
	if a.Count == 0 && !a.Least {
		sum = Rest(a)
	}
	room := s.width - len(indent) - 17
	single := len(a.Files) == 1 && a.Count == 1
	if !single {
		room -= len(sum) + 2
	}
	line := head + s.paint.Bold(text.Clip(command, max(room, 40)))
	if !single && sum != "" {
		line += "  " + sum
	}
	if who := Whose(a, s.uid); who != "" {
		line += "  " + s.paint.Dim("("+who+")")
	}
	if back := BackOf(a); back != "" {
		line += "  " + s.paint.Yellow("("+back+")")
	}
	fmt.Fprintln(s.out, line)
	if s.f.stat && len(a.By) > 0 {
		fmt.Fprintln(s.out, indent+below+s.paint.Dim("started by "+StartedBy(a)))
	}
	for _, o := range a.Git {
		fmt.Fprintln(s.out, indent+below+s.paint.Yellow(fmt.Sprintf("g%d", o.ID))+"  "+cli.OneLine(o.Text))
	}
	if err := s.files(a, indent+below); err != nil {
		return err
	}
	s.any = true
	return s.out.Flush()
}

// files lists an action's files, with their diffs if the flags ask for them.
func (s *story) files(a wire.Action, indent string) error {
	shown := 0
	for _, f := range a.Files {
		if f.Ignored && a.Ignored < a.Count && !s.f.stat {
			continue // files such as those of a build are rarely of interest
		}
		shown++
		if a.Back || len(a.Files) == 1 {
			f.TakenBack = nil // the line of the action shows it
		}
		line := fileLine(s.paint, f)
		if f.By != "" && s.f.stat {
			line += "  " + s.paint.Dim(cli.OneLine(f.By))
		}
		fmt.Fprintln(s.out, indent+line)
		if s.f.patch {
			if err := s.patch(f); err != nil {
				return err
			}
		}
	}
	var more []string
	left := a.Count - a.Ignored - listed(a.Files, shown, a.Ignored < a.Count && !s.f.stat)
	if a.Ignored == a.Count || s.f.stat {
		left = a.Count - listed(a.Files, shown, false)
	} else if a.Ignored > 0 {
		more = append(more, fmt.Sprintf("%d that git ignores", a.Ignored))
	}
	if left > 0 {
		more = append([]string{fmt.Sprintf("%d more", left)}, more...)
	}
	if r := Rest(a); r != "" && a.Count > 0 {
		more = append(more, r)
	}
	if len(more) > 0 {
		fmt.Fprintln(s.out, indent+s.paint.Dim("… "+strings.Join(more, ", ")))
	}
	return nil
}

// listed counts the files that the first n lines of a list represent. With noIgnored, files that git
// ignores have no line.
func listed(files []wire.ActionFile, n int, noIgnored bool) int {
	var printed []wire.ActionFile
	for _, f := range files {
		if len(printed) == n {
			break
		}
		if !noIgnored || !f.Ignored {
			printed = append(printed, f)
		}
	}
	return Listed(printed)
}

// Listed counts the files that the lines of a list represent.
func Listed(files []wire.ActionFile) (sum int) {
	for _, f := range files {
		if f.Below > 0 || !f.Dir || !holds(files, f.Path) {
			sum += max(f.Below, 1)
		}
	}
	return sum
}

// holds reports whether the list has an entry inside the directory.
func holds(files []wire.ActionFile, dir []byte) bool {
	return slices.ContainsFunc(files, func(f wire.ActionFile) bool {
		return len(f.Path) > len(dir) && bytes.HasPrefix(f.Path, dir) && f.Path[len(dir)] == '/'
	})
}

func (s *story) patch(f wire.ActionFile) error {
	if f.Dir {
		return nil
	}
	text, _, err := patchOf(s.ctx, s.c, wire.DiffQuery{From: wire.ShowQuery{Seq: f.Before}, To: wire.ShowQuery{Seq: f.Seq}, New: f.Before == 0}, s.paint)
	if err == nil {
		_, err = s.out.WriteString(text)
	}
	return err
}

// heading prints the prompt of an action if the previous action had another prompt. It returns the
// indentation of the action.
func (s *story) heading(a wire.Action) (indent string) {
	now := promptOf(a.Actor)
	if now != "" {
		indent = "  "
	}
	if now == s.prompt && s.any {
		return indent
	}
	if s.any {
		fmt.Fprintln(s.out)
	}
	s.prompt = now
	if now == "" {
		return ""
	}
	var title string
	switch {
	case a.Asked != "":
		title = s.paint.Bold("“" + text.Clip(cli.OneLine(a.Asked), max(s.width-50, 30)) + "”")
	case a.Actor.Prompt != "":
		title = s.paint.Bold("prompt " + cli.OneLine(a.Actor.Prompt))
	default:
		title = s.paint.Bold("no prompt known")
	}
	var about []string
	if a.Client != "" {
		about = append(about, cli.OneLine(a.Client))
	}
	if !a.AskedAt.IsZero() {
		about = append(about, cli.Stamp(a.AskedAt, s.clock))
	}
	if a.Asked != "" {
		about = append(about, "prompt "+Short(a.Actor.Prompt))
	}
	if a.Actor.Prompt == "" {
		about = append(about, "session "+Short(a.Actor.Session))
	}
	if len(about) > 0 {
		title += "  " + s.paint.Dim(strings.Join(about, ", "))
	}
	fmt.Fprintln(s.out, title)
	return indent
}

// follow shows new actions, oldest first, each as soon as it has settled.
func follow(ctx context.Context, e *cli.Env, c *wire.Client, q wire.LogQuery, f logFlags) error {
	f.oldest = true
	s := newStory(ctx, e, e.Stdout, c, f)
	first := q.Since.IsZero()
	aq := f.query(q)
	if first { // find where the earlier actions end; only --limit shows some of them
		a, err := wire.Call[wire.Actions](ctx, c, wire.MActions, wire.ActionsQuery{Path: q.Path, Limit: max(f.limit, 1), Files: aq.Files, Lines: true, Session: q.Session, Author: f.author, Ops: q.Ops})
		if err != nil {
			return err
		}
		for i := len(a.Actions) - 1; i >= 0; i-- {
			x := a.Actions[i]
			if f.limit > 0 && (!x.NoEffect() || f.withNothing()) {
				if err := s.action(x); err != nil {
					return err
				}
			}
			aq.Seq = max(aq.Seq, x.Last)
		}
	}
	printed := map[string]wire.ActionSpan{}
	for {
		aq.Limit, aq.Skip = storyPage, aq.Skip[:0]
		for _, x := range printed {
			aq.Skip = append(aq.Skip, x)
		}
		a, err := wire.Call[wire.Actions](ctx, c, wire.MActions, aq)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		low := ^uint64(0) // the first version of the actions that have not settled
		for _, x := range a.Actions {
			if e.Now().Sub(x.End) < settled {
				low = min(low, x.First)
				continue
			}
			switch {
			case x.NoEffect() && !f.withNothing():
			case f.json:
				err = printActionJSON(e, x)
			default:
				err = s.action(x)
			}
			if err != nil {
				return err
			}
			span := wire.ActionSpan{Key: x.Key, First: x.First, Last: x.Last}
			if old, ok := printed[x.Key]; ok {
				span.First = min(span.First, old.First)
			}
			printed[x.Key] = span
		}
		if !a.More {
			for key, x := range printed { // forget actions that the next request does not return anyway
				if low == ^uint64(0) {
					aq.Seq = max(aq.Seq, x.Last)
				}
				if x.Last < min(low, aq.Seq+1) {
					delete(printed, key)
				}
			}
			if low != ^uint64(0) {
				aq.Seq = max(aq.Seq, low-1)
			}
		}
		aq.Since = time.Time{}
		if !a.More {
			if !loop.Pause(ctx, followEvery) {
				return nil
			}
		}
	}
}

// printActionJSON writes one action on one line, paths as strings.
func printActionJSON(e *cli.Env, a wire.Action) error {
	files := cli.Objects(a.Files, func(f wire.ActionFile) map[string][]byte { return map[string][]byte{"path": f.Path, "from": f.From} })
	a.Files = nil
	m := cli.Object(a, nil)
	m["files"] = files
	return e.PrintJSON(m)
}
