package history

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/leaf/text"
	"cachebro/store/undo/apply"
	"cachebro/store/wire"
)

// logPrinter writes versions for people, one per line, with gaps and notices between them in order
// of time. The rename of a directory is a single line.
type logPrinter struct {
	*cli.Env
	ctx   context.Context
	c     *wire.Client
	out   *bufio.Writer
	paint cli.Paint
	clock time.Time
	root  string // of the history
	path  string // the requested path, "" for the whole project
	f     logFlags
	aside []asideLine
	group []wire.Version         // renames with the same time and process
	saves map[string][][2]uint64 // temporary file → ranges of its versions, each of one atomic save
	lines int
	under under
}

// errEnough stops reading versions when --limit lines are written.
var errEnough = errors.New("enough lines")

func printLog(ctx context.Context, e *cli.Env, w io.Writer, t cli.Target, c *wire.Client, q wire.LogQuery, f logFlags) error {
	l := &logPrinter{Env: e, root: t.Root, ctx: ctx, c: c, out: bufio.NewWriter(w), paint: e.Paint(), clock: e.Now(), path: string(cli.Shown(t.Root, q.Path)), f: f}
	all := f
	all.limit = 0 // the limit applies to printed lines, not to versions
	err := eachVersion(ctx, e, c, q, all, func(v wire.Version, a wire.LogAnswer) error {
		v.Path, v.From = cli.Shown(t.Root, v.Path), cli.Shown(t.Root, v.From)
		return l.add(v, a)
	})
	if err == nil {
		err = l.flush()
	}
	if errors.Is(err, errEnough) {
		err = nil
	} else if err == nil {
		for _, a := range l.aside {
			fmt.Fprintln(l.out, a.text)
			l.lines++
		}
	}
	if err == nil && l.lines == 0 {
		printNoChanges(e, t, f)
	}
	return errors.Join(err, l.out.Flush())
}

// add adds the next version. page is the page that begins with this version, otherwise empty.
func (l *logPrinter) add(v wire.Version, page wire.LogAnswer) error {
	if page.Versions != nil {
		more := asides(l.root, l.paint, l.clock, 8, page.Gaps, page.Notices)
		l.f.sortAsides(more)
		l.aside = append(l.aside, more...)
		l.saved(page.Versions)
	}
	removed := v.Op == "moved" && apply.Temporary(v.To) // a plan deletes a file by first moving it away
	if isRequested := string(v.Path) == l.path; !isRequested && !removed && (v.Op == "moved" || apply.Temporary(v.Path)) {
		return nil // the line of the rename shows it
	} else if !isRequested && l.ofSave(v) {
		return nil
	}
	if len(l.group) > 0 && !sameRename(l.group[0], v) {
		if err := l.flush(); err != nil {
			return err
		}
	}
	if v.Op == "rename" && v.Plan == "" {
		l.group = append(l.group, v)
		return nil
	}
	return l.version(v)
}

// saved records which versions of temporary files belong to an atomic save.
func (l *logPrinter) saved(page []wire.Version) {
	for _, v := range page {
		if v.Made > 0 {
			if l.saves == nil {
				l.saves = map[string][][2]uint64{}
			}
			l.saves[string(v.From)] = append(l.saves[string(v.From)], [2]uint64{v.Made, v.Seq})
		}
	}
}

// ofSave reports whether v is a version of the temporary file of an atomic save. The log shows the
// save itself instead.
func (l *logPrinter) ofSave(v wire.Version) bool {
	return slices.ContainsFunc(l.saves[string(v.Path)], func(r [2]uint64) bool { return r[0] <= v.Seq && v.Seq < r[1] })
}

// sameRename reports whether both versions come from one rename(2) of a directory.
func sameRename(a, b wire.Version) bool {
	return a.Op == "rename" && b.Op == "rename" && a.Time.Equal(b.Time) && a.Actor.PID == b.Actor.PID
}

// flush writes the collected renames. A renamed directory is one line.
func (l *logPrinter) flush() error {
	group := l.group
	l.group = nil
	files := 0
	var dir *wire.Version
	for i, v := range group {
		if v.Mode&syscall.S_IFMT != syscall.S_IFDIR {
			files++
		} else if dir == nil || len(v.Path) < len(dir.Path) {
			dir = &group[i]
		}
	}
	if dir == nil {
		for _, v := range group {
			if err := l.version(v); err != nil {
				return err
			}
		}
		return nil
	}
	return l.line(*dir, cli.VersionLine(*dir, l.paint, string(dir.Path) == l.path, l.clock)+l.paint.Dim("  ("+text.Count(files, "file")+" in it)"))
}

func (l *logPrinter) version(v wire.Version) error {
	if err := l.line(v, cli.VersionLine(v, l.paint, l.path != "" && string(v.Path) == l.path, l.clock)); err != nil || !l.f.patch {
		return err
	}
	return l.patch(v)
}

// line writes one line, after the gaps and notices that come before it in time.
func (l *logPrinter) line(v wire.Version, text string) error {
	if l.f.limit > 0 && l.lines == l.f.limit {
		return errEnough
	}
	for len(l.aside) > 0 && l.aside[0].time.After(v.Time) != l.f.oldest {
		fmt.Fprintln(l.out, l.aside[0].text)
		l.aside = l.aside[1:]
	}
	l.heading(v)
	l.lines++
	fmt.Fprintln(l.out, text)
	return l.out.Flush()
}

// asideLine is a line between versions or actions: a gap, a notice, a label or a git operation.
type asideLine struct {
	time time.Time
	text string
	in   string // its session and prompt, if actions are shown
}

// asides returns the lines for gaps and notices. width is the width of the first column.
func asides(root string, p cli.Paint, now time.Time, width int, gaps []wire.Gap, notices []wire.Notice) (all []asideLine) {
	for _, g := range gaps {
		all = append(all, asideLine{time: g.Time, text: p.Red(fmt.Sprintf("%-*s  %s  content not saved: %s (%s)", width, "gap", cli.Stamp(g.Time, now), cli.Quote(string(cli.Shown(root, g.Path))), cli.OneLine(g.Reason)))})
	}
	for _, n := range notices {
		all = append(all, asideLine{time: n.Time, text: p.Dim(fmt.Sprintf("%-*s  %s  %s", width, "note", cli.Stamp(n.Time, now), cli.OneLine(n.Text)))})
	}
	return all
}

// sortAsides sorts lines in the order of the log.
func (f logFlags) sortAsides(all []asideLine) {
	slices.SortStableFunc(all, func(a, b asideLine) int {
		if f.oldest {
			return a.time.Compare(b.time)
		}
		return b.time.Compare(a.time)
	})
}

// patchOf returns the diff to print below the line of a version or file, or the reason why there is
// none.
func patchOf(ctx context.Context, c *wire.Client, q wire.DiffQuery, p cli.Paint) (string, wire.DiffAnswer, error) {
	var a wire.DiffAnswer
	body, err := c.Call(ctx, wire.MDiff, q, nil, &a)
	if errors.Is(err, wire.ErrPruned) || errors.Is(err, wire.ErrNotFound) || errors.Is(err, wire.ErrUnsupported) {
		return p.Dim("    "+cli.OneLine(err.Error())) + "\n", a, nil
	}
	return p.Diff(string(body)), a, err
}

func (l *logPrinter) patch(v wire.Version) error {
	if v.Hash == "" && !v.Deleted {
		return nil
	}
	text, a, err := patchOf(l.ctx, l.c, wire.DiffQuery{Path: bytes.TrimPrefix(v.Path, []byte("/")), To: wire.ShowQuery{Seq: v.Seq}}, l.paint)
	if err != nil {
		return err
	}
	if a.Binary && text == "" {
		text = l.paint.Dim("    binary") + "\n"
	}
	_, _ = l.out.WriteString(text) // Flush returns the error
	return l.out.Flush()
}

// under is the prompt and tool call that the last printed version belongs to.
type under struct{ session, agent, prompt, call string }

// heading prints the prompt and the tool call of the following lines, so that changes that are
// undone together are listed together. Outside sessions there are no headings, because each line
// names its process.
func (l *logPrinter) heading(v wire.Version) {
	a := v.Actor
	now := under{a.Session, a.Agent, a.Prompt, a.ToolCall}
	if now == l.under {
		return
	}
	if l.f.session == "" && (now.session == "" || now.prompt == "" && now.call == "") {
		if l.under != (under{}) {
			fmt.Fprintln(l.out, l.paint.Bold("outside of a prompt"))
		}
		l.under = under{}
		return
	}
	if now.prompt != l.under.prompt || now.session != l.under.session || l.lines == 0 {
		name := "no prompt known"
		if a.Prompt != "" {
			name = "prompt " + cli.OneLine(a.Prompt)
		}
		fmt.Fprintln(l.out, l.paint.Bold(name))
	}
	if a.ToolCall != "" {
		text := "  " + cli.OneLine(a.Tool) + " " + cli.OneLine(a.ToolCall)
		if a.Agent != "" {
			text += " of agent " + cli.OneLine(a.Agent)
		}
		if a.Uncertain {
			text += " (uncertain, because several calls ran)"
		}
		if a.Late {
			text += " (late, after it had ended)"
		}
		fmt.Fprintln(l.out, l.paint.Dim(text))
	} else if l.under.call != "" {
		fmt.Fprintln(l.out, l.paint.Dim("  outside of a tool call"))
	}
	l.under = now
}
