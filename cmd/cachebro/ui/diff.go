package ui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"cachebro/store/diff"
	"cachebro/store/leaf/limits"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"
)

const (
	// diffPiece is how many rows of a diff are shown at once.
	diffPiece = 400
	// maxDiffed bounds the files that are compared by lines, in bytes.
	maxDiffed = limits.Content
)

// side is a file at one end of a diff.
type side struct {
	wire.Version
	there  bool // the file exists
	data   []byte
	byLine bool // true for the result of a plan from which single lines can be left out
}

// sideOf requests one version from the daemon. seq 0 means that there is no file.
func (s *source) sideOf(ctx context.Context, seq uint64) (side, error) {
	if seq == 0 {
		return side{}, nil
	}
	var v wire.Version
	data, err := s.c.Call(ctx, wire.MShow, wire.ShowQuery{Seq: seq}, nil, &v)
	if err == nil {
		if v.Deleted {
			data = nil
		}
		return side{Version: v, there: !v.Deleted, data: data}, nil
	}
	if !errors.Is(err, wire.ErrNotFound) && !errors.Is(err, wire.ErrPruned) {
		return side{}, err
	}
	a, lerr := wire.Call[wire.LogAnswer](ctx, s.c, wire.MLog, wire.LogQuery{Before: seq + 1, After: seq - 1, Limit: 1, Baselines: true})
	if lerr != nil || len(a.Versions) == 0 {
		return side{}, err
	}
	v = a.Versions[0]
	if v.Deleted || v.Size == 0 && v.NoContent == "" {
		return side{Version: v, there: !v.Deleted}, nil
	}
	return side{}, err
}

// diffPart is the diff of two versions, or a piece of it.
type diffPart struct {
	ID         string
	Path       []byte
	Old, New   string // description, if no lines are shown
	Images     []image
	Swipe      bool // the pictures are laid over each other
	Rows       []row
	Side       bool // in two columns
	Piece      bool // this is a later piece, not the first
	More       template.URL
	Left       int
	Other      template.URL // the same diff in the other form, in one column or two
	Arounds    []searchMode // how many lines of context can be chosen
	Around     template.URL // the same diff; the page appends the chosen number
	Space      template.URL // the same diff with white space compared, or not
	Blank      bool         // white space is not compared
	Page       template.URL
	Blocks     []block      // what changed, as it is rendered
	As         template.URL // the same diff as lines, or rendered
	Mode, Note string
	// Step is set for a plan whose result may omit single lines, and is the number of the file's
	// step. Lines lists the lines that can be omitted.
	Step, Lines string
}

type image struct {
	What string
	From template.URL
}

// row is one line of a diff, or the head of a hunk.
type row struct {
	Kind       string // hunk, same, del, add; in two columns also change
	Head       string
	Take       template.URL // the plan that undoes the hunk
	OldN, NewN string
	Old, New   template.HTML
	OldNoEnd   bool // the line has no newline
	NewNoEnd   bool
	Comment    template.URL // the form for a comment on the new line
	Said       []commentRow
	Pick       string // in a plan, the line that can be left out, or "hunk" for the whole hunk
}

func (s *server) diff(ctx context.Context, q url.Values) (any, error) {
	from, err := s.sideOf(ctx, number(q, "from"))
	if err != nil {
		return nil, err
	}
	to, err := s.sideOf(ctx, number(q, "to"))
	if err != nil {
		return nil, err
	}
	p := diffPart{Side: q.Get("side") == "1", ID: fmt.Sprintf("d%d-%d", from.Seq, to.Seq), Path: to.Path}
	if p.Path == nil {
		p.Path = from.Path
	}
	again := func(change map[string]string) template.URL {
		v := url.Values{"from": {q.Get("from")}, "to": {q.Get("to")}}
		for _, k := range []string{"side", "around", "space", "as"} {
			if q.Get(k) != "" {
				v.Set(k, q.Get(k))
			}
		}
		for k, x := range change {
			v.Set(k, x)
			if x == "" {
				v.Del(k)
			}
		}
		return template.URL("diff?" + v.Encode())
	}
	other := map[bool]string{true: "", false: "1"}
	p.Blank = q.Get("space") == "1"
	p.Other, p.Space = again(map[string]string{"side": other[p.Side]}), again(map[string]string{"space": other[p.Blank]})
	p.Around = again(map[string]string{"around": ""})
	context := diff.Context
	for _, n := range arounds {
		here := q.Get("around") == n.Mode || q.Get("around") == "" && n.Mode == strconv.Itoa(diff.Context)
		if here {
			context, _ = strconv.Atoi(n.Mode)
		}
		p.Arounds = append(p.Arounds, searchMode{n.Mode, n.Name, here})
	}
	if from.there && to.there && from.Mode&0o7777 != to.Mode&0o7777 {
		p.Mode = fmt.Sprintf("mode %04o → %04o", from.Mode&0o7777, to.Mode&0o7777)
	}
	if text.Binary(from.data) || text.Binary(to.data) || len(from.data)+len(to.data) > maxDiffed {
		p.Old, p.New = inWords(from), inWords(to)
		for _, x := range []struct {
			what string
			side
		}{{"before", from}, {"after", to}} {
			if imageKind(x.data) != "" {
				p.Images = append(p.Images, image{x.what, link("raw", "seq", x.Seq)})
			}
		}
		p.Swipe = len(p.Images) == 2
		return p, nil
	}
	if e, now := text.EncodingOf(from.data), text.EncodingOf(to.data); e != now && from.there && to.there {
		p.Mode = strings.TrimPrefix(p.Mode+", "+e.String()+" → "+now.String(), ", ")
	}
	kind := renders(string(p.Path), to.data)
	if kind != "" && !bytes.Equal(from.data, to.data) && kind == renders(string(p.Path), from.data) {
		rendered := q.Get("as") == "rendered" || q.Get("as") == "" && kind == kindNotebook
		p.As = again(map[string]string{"as": map[bool]string{true: "text", false: "rendered"}[rendered]})
		if rendered {
			p.Arounds = nil
			p.Blocks = changedBlocks(blocksOf(from), blocksOf(to))
			if len(p.Blocks) == 0 {
				p.Note = "the rendered form is the same"
			}
			return p, nil
		}
	}
	at, _ := strconv.Atoi(q.Get("at"))
	p.Piece = at > 0
	rows := diffOf(from, to, diffRows{side: p.Side, context: context, blank: p.Blank})
	if len(rows.all) == 0 {
		p.Note = "no line differs"
		if p.Mode != "" {
			p.Note = ""
		}
		return p, nil
	}
	if rows.crlf {
		p.Mode = strings.TrimPrefix(p.Mode+", lines end with CR LF", ", ")
	}
	at = max(min(at, len(rows.all)), 0)
	end := min(at+diffPiece, len(rows.all))
	var comments map[int][]commentRow
	if to.Actor.Session != "" {
		comments = s.commentsAt(ctx, to.Version)
	}
	for _, r := range rows.all[at:end] {
		row := rows.show(r)
		if r.new >= 0 && to.Actor.Session != "" && row.Kind != "hunk" {
			row.Comment = link("comment", "seq", to.Seq, "line", r.new+1)
			row.Said = comments[r.new+1]
		}
		p.Rows = append(p.Rows, row)
	}
	p.Left = len(rows.all) - end
	if p.Left > 0 {
		p.More = again(map[string]string{"at": strconv.Itoa(end)})
	}
	return p, nil
}

// arounds are the numbers of context lines to choose from. With 0, each change is a separate hunk
// and can be undone separately.
var arounds = []searchMode{{"0", "no lines around", false}, {strconv.Itoa(diff.Context), strconv.Itoa(diff.Context) + " lines around", false}, {"20", "20 lines around", false}, {"1000000", "the whole file", false}}

// inWords describes a side that is not shown by lines.
func inWords(x side) string {
	if !x.there {
		return "no file"
	}
	return text.Bytes(x.Size) + ", SHA-256 " + x.Hash[:min(len(x.Hash), 16)] + "…"
}

// place describes a row before it is rendered.
type place struct {
	hunk     int // the index of the hunk whose head this is; -1 for a line, -2 for a pair of lines in two columns
	old, new int // the lines, counted from 0; -1 if there is none
	pair     int // the line of the other side to compare it with; -1 if there is none
}

// diffRows are the rows of a whole diff. Only those that are shown are rendered.
type diffRows struct {
	sc       *diff.Script
	hunks    []diff.Hunk
	all      []place
	side     bool
	context  int  // lines around a change
	blank    bool // white space is not compared
	crlf     bool // all lines of both sides end in CR LF, which is then not shown
	from, to side
	old, new [][]span // colours
}

// diffOf compares two sides with the options of d.
func diffOf(from, to side, d diffRows) *diffRows {
	from.data, _ = text.Shown(from.data)
	to.data, _ = text.Shown(to.data)
	d.from, d.to = from, to
	d.sc = diff.Compare(from.data, to.data)
	if d.blank {
		old, new := d.sc.Old, d.sc.New
		d.sc = diff.CompareLines(unspaced(old), unspaced(new))
		d.sc.Old, d.sc.New = old, new
	}
	d.hunks = d.sc.Hunks(d.context)
	d.crlf = (bytes.Contains(from.data, []byte("\r\n")) || bytes.Contains(to.data, []byte("\r\n"))) && crlf(d.sc.Old) && crlf(d.sc.New)
	d.old, d.new = colour(string(from.Path), from.data), colour(string(to.Path), to.data)
	for i, h := range d.hunks {
		d.all = append(d.all, place{hunk: i})
		old, new := h.Edits[0].OldFrom, h.Edits[0].NewFrom
		before := min(d.context, old)
		old, new = old-before, new-before
		same := func(to int) {
			for ; old < to; old, new = old+1, new+1 {
				d.all = append(d.all, place{-1, old, new, -1})
			}
		}
		for _, e := range h.Edits {
			same(e.OldFrom)
			d.edit(e)
			old, new = e.OldTo, e.NewTo
		}
		same(min(old+d.context, len(d.sc.Old)))
	}
	return &d
}

func unspaced(lines [][]byte) [][]byte {
	out := make([][]byte, len(lines))
	for i, l := range lines {
		out[i] = append(bytes.Join(bytes.Fields(l), nil), '\n')
	}
	return out
}

// edit adds the rows of one edit. It pairs the lines of both sides in order.
func (d *diffRows) edit(e diff.Edit) {
	dels, adds := e.OldTo-e.OldFrom, e.NewTo-e.NewFrom
	pair := func(from, i, n int) int {
		if i < n {
			return from + i
		}
		return -1
	}
	if d.side {
		for i := range max(dels, adds) {
			d.all = append(d.all, place{-2, pair(e.OldFrom, i, dels), pair(e.NewFrom, i, adds), -1})
		}
		return
	}
	for i := range dels {
		d.all = append(d.all, place{-1, e.OldFrom + i, -1, pair(e.NewFrom, i, adds)})
	}
	for i := range adds {
		d.all = append(d.all, place{-1, -1, e.NewFrom + i, pair(e.OldFrom, i, dels)})
	}
}

func (d *diffRows) show(p place) row {
	if p.hunk >= 0 {
		h := d.hunks[p.hunk]
		r := row{Kind: "hunk", Head: fmt.Sprintf("@@ -%d,%d +%d,%d @@", h.OldStart, h.OldLines, h.NewStart, h.NewLines)}
		if d.from.Seq > 0 && d.from.there && d.to.there && !d.blank { // the creation or removal of a file can only be undone as a whole
			first := 0
			for _, o := range d.hunks[:p.hunk] {
				first += len(o.Edits)
			}
			edits := make([]string, len(h.Edits))
			for i := range edits {
				edits[i] = strconv.Itoa(first + i)
			}
			r.Take = link("plan", "kind", "undo", "before", d.from.Seq, "after", d.to.Seq, "edits", strings.Join(edits, ","))
		}
		return r
	}
	r := row{Kind: "same"}
	a, b := p.old, p.new
	switch {
	case p.hunk == -2:
		r.Kind = "change"
	case a < 0:
		r.Kind, a = "add", p.pair
	case b < 0:
		r.Kind, b = "del", p.pair
	}
	var del, add []mark
	if r.Kind != "same" && a >= 0 && b >= 0 {
		del, add = changedWords(d.sc.Old[a], d.sc.New[b])
	}
	if p.old >= 0 {
		l := d.sc.Old[p.old]
		r.OldN = strconv.Itoa(p.old + 1)
		r.Old = d.line(l, coloursOf(d.old, p.old), del)
		r.OldNoEnd = !bytes.HasSuffix(l, []byte("\n"))
	}
	if p.new >= 0 {
		l := d.sc.New[p.new]
		r.NewN = strconv.Itoa(p.new + 1)
		r.New = d.line(l, coloursOf(d.new, p.new), add)
		r.NewNoEnd = !bytes.HasSuffix(l, []byte("\n"))
	}
	return r
}

func (d *diffRows) line(l []byte, colours []span, marks []mark) template.HTML {
	if d.crlf {
		l = bytes.TrimSuffix(l, []byte("\r\n"))
	}
	return line(l, colours, marks)
}

// crlf reports whether all lines, except perhaps the last, end with CR LF. The page then shows one
// note instead of marking every line.
func crlf(lines [][]byte) bool {
	return !slices.ContainsFunc(lines, func(l []byte) bool { return bytes.HasSuffix(l, []byte("\n")) && !bytes.HasSuffix(l, []byte("\r\n")) })
}

// coloursOf returns the colours of one line.
func coloursOf(colours [][]span, n int) []span {
	if n < len(colours) {
		return colours[n]
	}
	return nil
}

// imageKind returns the type of a picture that browsers show and that contains no script, or "" for
// anything else.
func imageKind(b []byte) string {
	switch kind := http.DetectContentType(b); kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp":
		return kind
	}
	return ""
}

// raw sends a picture from the history, or from a notebook in the history.
func (s *server) raw(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	x, err := s.sideOf(r.Context(), number(q, "seq"))
	kind := imageKind(x.data)
	if q.Get("cell") != "" {
		x.data, kind = notebookOf(x.data).pictureOf(int(number(q, "cell")), int(number(q, "out")))
	}
	if err != nil || kind == "" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(x.data)
}
