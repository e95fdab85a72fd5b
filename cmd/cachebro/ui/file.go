package ui

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"html/template"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/diff"
	"cachebro/store/leaf/text"
	"cachebro/store/undo/apply"
	"cachebro/store/wire"
)

const (
	maxVersions = 1000   // versions of one file that are listed
	maxGone     = 200    // deleted files that are listed
	maxLooked   = 20_000 // deleted paths that are examined to find those files
	filePiece   = 1000   // lines of a file that are shown at once
)

// filesPage lists the entries of a directory, including deleted ones.
type filesPage struct {
	Crumbs []crumb
	Dir    string
	Names  []nameRow
	Cut    bool
	Gone   []nameRow // on the project's own page: the files deleted most recently in any directory
}

type crumb struct {
	Name string
	To   template.URL
}

type nameRow struct {
	Name, Note string
	Dir, Gone  bool
	To         template.URL
}

// crumbs returns the links from the project down to a path.
func (s *source) crumbs(p string) []crumb {
	all := []crumb{{baseName(s.t.Root), "browse"}}
	for i := range len(p) {
		if p[i] == '/' {
			all = append(all, crumb{baseName(p[:i]), link("browse", "dir", p[:i])})
		}
	}
	return all
}

func (s *server) browse(ctx context.Context, q url.Values) (any, error) {
	dir := strings.Trim(q.Get("dir"), "/")
	out := filesPage{Dir: dir}
	if dir != "" {
		out.Crumbs = append(s.crumbs(dir), crumb{Name: baseName(dir)})
	}
	var err error
	if part := strings.TrimSpace(q.Get("part")); part != "" {
		out.Names, out.Cut, err = s.namesWith(ctx, dir, part)
		return out, err
	}
	out.Names, out.Cut, err = s.names(ctx, dir)
	if err != nil {
		return nil, err
	}
	if dir != "" {
		return out, nil
	}
	out.Gone, err = s.deleted(ctx)
	return out, err
}

// deleted returns the most recently deleted files that do not exist now, newest first.
func (s *source) deleted(ctx context.Context) (rows []nameRow, err error) {
	seen := map[string]bool{}
	query := wire.LogQuery{Ops: []string{"unlink"}}
	for {
		a, err := wire.Call[wire.LogAnswer](ctx, s.c, wire.MLog, query)
		if err != nil {
			return nil, err
		}
		for _, v := range a.Versions {
			query.Before = v.Seq
			if seen[string(v.Path)] || v.Class != "tracked" {
				continue
			}
			seen[string(v.Path)] = true
			if !s.isMissing(string(v.Path)) {
				continue
			}
			rows = append(rows, nameRow{Name: name(v.Path), Note: s.timeText(v.Time) + " by " + text.Clip(whoOf(v), 60), Gone: true, To: link("file", "path", string(v.Path))})
			if len(rows) == maxGone {
				return rows, nil
			}
		}
		if !a.More || len(a.Versions) == 0 || len(seen) > maxLooked {
			return rows, nil
		}
	}
}

func (s *source) isMissing(p string) bool {
	_, err := os.Lstat(filepath.Join(s.t.Root, p))
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// names returns the present and past entries of a directory.
func (s *source) names(ctx context.Context, dir string) (rows []nameRow, cut bool, err error) {
	a, err := wire.Call[wire.NamesAnswer](ctx, s.c, wire.MNames, wire.NamesQuery{Kind: "path", Dir: []byte(dir)})
	if err != nil {
		return nil, false, err
	}
	for _, n := range a.Names {
		row := nameRow{Name: baseName(string(n.Name)), Dir: n.Dir, Gone: n.Gone, To: link("file", "path", string(n.Name))}
		if n.Dir {
			row.Name += "/"
			row.To = link("browse", "dir", string(n.Name))
		}
		if n.Gone {
			row.Note = "deleted"
		}
		rows = append(rows, row)
	}
	return rows, len(a.Names) == 200, nil
}

const maxFound = 200

// namesWith returns the files at or below a directory whose path contains a text, including deleted
// files.
func (s *source) namesWith(ctx context.Context, dir, part string) (rows []nameRow, cut bool, err error) {
	a, err := wire.Call[wire.SearchAnswer](ctx, s.c, wire.MSearch, wire.SearchQuery{Mode: wire.SearchFiles, Pattern: part, Path: []byte(dir), Gone: true, Limit: maxFound})
	if err != nil {
		return nil, false, err
	}
	for _, h := range a.Hits {
		row := nameRow{Name: name(h.Path), To: link("file", "path", string(h.Path))}
		if h.Past != nil {
			row.Gone, row.Note = true, s.goneWhen(h.Past.Gone)
		}
		rows = append(rows, row)
	}
	return rows, a.Truncated, nil
}

// goneWhen describes when and by whom a file was deleted, or what it was renamed to.
func (s *source) goneWhen(v wire.Version) string {
	if v.Op == "moved" {
		return "renamed to " + name(v.To) + ", " + s.timeText(v.Time)
	}
	return "deleted " + s.timeText(v.Time) + " by " + text.Clip(whoOf(v), 60)
}

type filePage struct {
	Crumbs     []crumb
	Path, Name string
	Count      int
	Version    versionPart
}

// versionPart is one version: its content, what it changed, or who wrote its lines.
type versionPart struct {
	Path       string
	N, Count   int // 1-based, oldest first
	Seq        uint64
	Views      []choice
	When, Who  string
	What, Size string
	Restore    template.URL
	Latest     bool
	Rows       []codeRow
	Cut        template.URL
	CutLines   int
	Change     *diffPart
	Image      template.URL
	Blocks     []block // the rendered content
	Note       string
	View       string
	Piece      bool
	Before     template.URL // the lines before those that are shown
	At         template.URL // the page with this version
	Against    uint64       // the version to compare it with, if not the one before
}

func (p versionPart) address() template.URL { return p.At }
func (p versionPart) series() string        { return "slide" }

// choice is one of the views or spans that a page offers. Here marks the one that the page shows.
type choice struct {
	Name string
	To   template.URL
	Here bool
}

// codeRow is a line of a file. Who is set if it differs from the line above.
type codeRow struct {
	N     int
	Hit   bool
	Text  template.HTML
	Who   string
	To    template.URL
	Blame bool
}

// versions returns the versions of a path, oldest first.
func (s *source) versions(ctx context.Context, p string) ([]wire.Version, error) {
	a, err := wire.Call[wire.LogAnswer](ctx, s.c, wire.MLog, wire.LogQuery{Path: []byte(p), Baselines: true, Limit: maxVersions})
	if err != nil {
		return nil, err
	}
	vs := a.Versions
	slices.Reverse(vs)
	if len(vs) == 0 {
		return nil, wire.Errorf(wire.ErrNotFound, "the log shows what changed", "no version of %s is known", name([]byte(p)))
	}
	return vs, nil
}

func (s *server) file(ctx context.Context, q url.Values) (any, error) {
	v, err := s.version(ctx, q)
	if err != nil {
		return nil, err
	}
	part := v.(versionPart)
	p := q.Get("path")
	return filePage{Crumbs: s.crumbs(p), Path: p, Name: baseName(p), Count: part.Count, Version: part}, nil
}

func (s *server) version(ctx context.Context, q url.Values) (any, error) {
	p := q.Get("path")
	vs, err := s.versions(ctx, p)
	if err != nil {
		return nil, err
	}
	n, _ := strconv.Atoi(q.Get("n"))
	if seq := number(q, "seq"); seq > 0 {
		for i, v := range vs {
			if v.Seq <= seq {
				n = i + 1
			}
		}
	}
	if n <= 0 || n > len(vs) {
		n = len(vs)
	}
	v := vs[n-1]
	out := versionPart{Path: p, N: n, Count: len(vs), Seq: v.Seq, When: s.timeText(v.Time), Who: whoOf(v), What: opInWords(v.Op), Latest: n == len(vs), View: q.Get("view")}
	if v.Made != 0 || apply.Temporary(v.From) { // saved by renaming a temporary file over it
		out.What = "changed"
	} else if len(v.From) > 0 {
		out.What += " from " + name(v.From)
	} else if string(v.Path) != p {
		out.What += ", as " + name(v.Path)
	}
	views := []string{"content", "change", "blame"}
	kind := strings.ToLower(path.Ext(p))
	if kind == ".md" || kind == ".markdown" || kind == ".ipynb" {
		views = append([]string{"rendered"}, views...)
	}
	out.View = cmp.Or(out.View, views[0])
	if q.Get("line") != "" && q.Get("view") == "" {
		out.View = "content"
	}
	out.At = link("file", "path", p, "n", n, "view", out.View, "line", q.Get("line"), "find", q.Get("find"), "regex", q.Get("regex"), "with", q.Get("with"))
	for _, view := range views {
		out.Views = append(out.Views, choice{view, link("version", "path", p, "n", n, "view", view), view == out.View})
	}
	if v.Deleted {
		out.Note = "The file was deleted here."
	} else {
		out.Size = text.Bytes(v.Size)
		if !out.Latest && (v.Hash != "" || len(v.Target) > 0) {
			out.Restore = link("plan", "kind", "revert", "path", p, "seq", v.Seq)
		}
	}
	switch {
	case out.View == "change":
		from := uint64(0)
		if n > 1 {
			from = vs[n-2].Seq
		}
		if with, _ := strconv.Atoi(q.Get("with")); with > 0 && with <= len(vs) && with != n {
			from, out.Against = vs[with-1].Seq, uint64(with)
		}
		d, err := s.diff(ctx, url.Values{"from": {strconv.FormatUint(from, 10)}, "to": {strconv.FormatUint(v.Seq, 10)}, "space": q["space"], "side": q["side"], "around": q["around"], "as": q["as"]})
		if err != nil {
			out.Note = oneLine(err.Error())
			return out, nil
		}
		part := d.(diffPart)
		out.Change = &part
	case v.Deleted:
	case out.View == "blame":
		err = s.blame(ctx, &out, p, v)
	default:
		err = s.content(ctx, &out, v, q)
	}
	if err != nil && (errors.Is(err, wire.ErrPruned) || errors.Is(err, wire.ErrNotFound) || errors.Is(err, wire.ErrUnsupported)) {
		out.Note, err = oneLine(err.Error()), nil
	}
	return out, err
}

// ops are the operations of versions in words, for people who do not know the system calls.
var ops = map[string]string{"baseline": "found there", "write": "changed", "create": "added", "unlink": "deleted", "rename": "renamed", "moved": "renamed", "link": "linked", "chmod": "mode changed", "truncate": "changed", "outside": "changed outside of the mount"}

func opInWords(op string) string {
	if w := ops[op]; w != "" {
		return w
	}
	return op
}

// whoOf describes who wrote a version: a command, or the kind of a plan, such as undo.
func whoOf(v wire.Version) string {
	who := cli.Who(v.Actor)
	switch {
	case v.Op == "baseline":
		return ""
	case v.Plan != "":
		kind, _, _ := strings.Cut(v.Plan, "-")
		return oneLine(kind)
	case v.Actor.Args != "":
		who = text.Clip(oneLine(v.Actor.Args), 60)
	}
	if by := cli.Whose(v.Actor); by != "" {
		who += ", " + by
	}
	return who
}

// content adds one piece of a version's lines to the page.
func (s *server) content(ctx context.Context, out *versionPart, v wire.Version, q url.Values) error {
	x, err := s.sideOf(ctx, v.Seq)
	if err != nil {
		return err
	}
	if imageKind(x.data) != "" {
		out.Image = link("raw", "seq", v.Seq)
		return nil
	}
	if out.View == "rendered" {
		out.Blocks = blocksOf(x)
		if len(out.Blocks) > 0 {
			return nil
		}
		out.Note = "This file cannot be rendered; its text is shown."
	}
	if text.Binary(x.data) {
		out.Note = "binary, " + inWords(x)
		return nil
	}
	if text.Wide(x.data) {
		out.Size += ", " + text.EncodingOf(x.data).String()
	}
	x.data, _ = text.Shown(x.data)
	lines, colours := diff.Lines(x.data), colour(string(v.Path), x.data)
	d := diffRows{crlf: bytes.Contains(x.data, []byte("\r\n")) && crlf(lines)}
	if d.crlf {
		out.Size += ", lines end with CR LF"
	}
	from, _ := strconv.Atoi(q.Get("at"))
	hit, _ := strconv.Atoi(q.Get("line"))
	if hit > filePiece && q.Get("at") == "" {
		from = hit - hit%filePiece
		out.Before = link("version", "path", out.Path, "n", out.N, "view", "content", "at", "0")
	}
	from = max(min(from, len(lines)), 0)
	end := min(from+filePiece, len(lines))
	out.Piece = q.Get("at") != "" && from > 0
	matches := matcher(q)
	for i := from; i < end; i++ {
		row := codeRow{N: i + 1, Hit: i+1 == hit}
		var found []mark
		if row.Hit {
			found = matches(lines[i])
		}
		row.Text = d.line(lines[i], coloursOf(colours, i), found)
		out.Rows = append(out.Rows, row)
	}
	out.CutLines = len(lines) - end
	if out.CutLines > 0 {
		out.Cut = link("version", "path", out.Path, "n", out.N, "at", end)
	}
	if len(lines) == 0 {
		out.Note = "The file was empty."
	}
	return nil
}

// matcher returns a function that finds the searched text in a line. The function finds nothing if
// no text was searched for, or if the expression is invalid.
func matcher(q url.Values) func([]byte) []mark {
	pattern := q.Get("find")
	if q.Get("regex") != "1" {
		pattern = regexp.QuoteMeta(pattern)
	}
	// The search ignores case. The marks do so only for a pattern without capital letters.
	if pattern == strings.ToLower(pattern) {
		pattern = "(?i)" + pattern
	}
	re, err := regexp.Compile(pattern)
	if err != nil || q.Get("find") == "" {
		return func([]byte) []mark { return nil }
	}
	return func(l []byte) (all []mark) {
		for _, m := range re.FindAllIndex(l, -1) {
			all = append(all, mark{m[0], m[1]})
		}
		return all
	}
}

func (s *server) blame(ctx context.Context, out *versionPart, p string, v wire.Version) error {
	var a wire.BlameAnswer
	body, err := s.c.Call(ctx, wire.MBlame, wire.ShowQuery{Path: []byte(p), Seq: v.Seq}, nil, &a)
	if err != nil {
		return err
	}
	lines, colours := bytes.SplitAfter(body, []byte("\n")), colour(string(v.Path), body)
	for i, k := range a.Lines {
		if i >= len(lines) || i >= filePiece*2 {
			out.Note = "Only the first lines are shown."
			break
		}
		row := codeRow{N: i + 1, Text: line(lines[i], coloursOf(colours, i), nil), Blame: true}
		if w := a.Versions[k]; i == 0 || a.Lines[i-1] != k {
			row.Who = strings.TrimSpace(s.timeText(w.Time) + " " + whoOf(w))
			if w.Op == "baseline" {
				row.Who = "found there"
			}
			row.To = link("version", "path", p, "seq", w.Seq, "view", "change")
		}
		out.Rows = append(out.Rows, row)
	}
	return nil
}
