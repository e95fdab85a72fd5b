package ui

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"cachebro/store/diff"
	"cachebro/store/leaf/text"
	"cachebro/store/wire/visible"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	mdtext "github.com/yuin/goldmark/text"
)

// block is a rendered piece of a file: a paragraph or a table of Markdown, or a cell of a notebook.
// It contains nothing that a browser would run or load from elsewhere. Raw HTML is shown as text. The
// only pictures are those of notebooks, which this server sends.
type block struct {
	key   string // distinguishes it from other blocks
	Kind  string // of a cell, or "del", "add" or "rest" if versions are compared
	Label string
	Doc   template.HTML   // of Markdown
	Code  []template.HTML // lines
	Out   []output
}

// output is what the code of a cell printed or returned.
type output struct {
	Lines   []template.HTML
	Picture template.URL
	Note    string
	Bad     bool
}

const (
	kindMarkdown = "markdown"
	kindNotebook = "notebook"
)

const maxRendered = 8 << 20

// renders returns the way in which a file can be rendered, or "" if it cannot.
func renders(p string, data []byte) string {
	if len(data) > maxRendered || text.Binary(data) {
		return ""
	}
	switch strings.ToLower(path.Ext(p)) {
	case ".md", ".markdown":
		if len(data) <= maxColoured {
			return kindMarkdown
		}
	case ".ipynb":
		if notebookOf(data) != nil {
			return kindNotebook
		}
	}
	return ""
}

func blocksOf(x side) []block {
	switch p := string(x.Path); renders(p, x.data) {
	case kindMarkdown:
		return markdown(p, x.data)
	case kindNotebook:
		return notebookOf(x.data).blocks(p, x.Seq)
	}
	return nil
}

var mark2html = goldmark.New(goldmark.WithExtensions(
	extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)), // no style attribute, which the policy forbids
	extension.Strikethrough, extension.Linkify))

// markdown renders the blocks of a text. Its links are relative to the path p.
func markdown(p string, data []byte) (all []block) {
	source, _ := text.Shown(data)
	source = spellOut(source)
	doc := mark2html.Parser().Parse(mdtext.NewReader(source))
	removeActive(doc, source, path.Dir(p))
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		var b bytes.Buffer
		if mark2html.Renderer().Render(&b, source, n) != nil {
			return nil
		}
		all = append(all, block{key: b.String(), Doc: template.HTML(b.String())}) // goldmark escapes the text, and raw HTML was taken out
	}
	return all
}

// spellOut returns a text in which control characters and invisible characters are spelled out.
func spellOut(b []byte) []byte {
	var out []byte
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if visible.Acts(r) && !strings.ContainsRune("\n\r\t", r) {
			out = fmt.Appendf(out, "<U+%04X>", r)
		} else {
			out = append(out, b[:n]...)
		}
		b = b[n:]
	}
	return out
}

// removeActive removes everything from a parsed text that would load or run something. It makes
// relative links point to the pages of project files.
func removeActive(doc ast.Node, source []byte, dir string) {
	var all []ast.Node
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			all = append(all, n)
		}
		return ast.WalkContinue, nil
	})
	for _, n := range all {
		switch n := n.(type) {
		case *ast.HTMLBlock:
			code := ast.NewCodeBlock()
			lines := mdtext.NewSegments()
			lines.AppendAll(n.Lines().Sliced(0, n.Lines().Len()))
			if n.HasClosure() {
				lines.Append(n.ClosureLine)
			}
			code.SetLines(lines)
			n.Parent().ReplaceChild(n.Parent(), n, code)
		case *ast.RawHTML:
			n.Parent().ReplaceChild(n.Parent(), n, asText(n.Segments.Value(source)))
		case *ast.Image:
			link := ast.NewLink()
			link.Destination = n.Destination
			for c := n.FirstChild(); c != nil; c = n.FirstChild() {
				link.AppendChild(link, c)
			}
			if link.FirstChild() == nil {
				link.AppendChild(link, asText([]byte("picture")))
			}
			if _, linked := n.Parent().(*ast.Link); linked { // the outer link has its own target
				link.Destination = nil
			}
			n.Parent().ReplaceChild(n.Parent(), n, link)
			linkToPage(link, dir)
		case *ast.Link:
			linkToPage(n, dir)
		case *ast.AutoLink:
			if !isExternal(string(n.URL(source))) && n.AutoLinkType != ast.AutoLinkEmail {
				n.Parent().ReplaceChild(n.Parent(), n, asText(n.Label(source)))
			}
		}
	}
}

// asText returns an element that shows a text unchanged.
func asText(b []byte) ast.Node {
	s := ast.NewString(b)
	s.SetRaw(true)
	return s
}

// isExternal reports whether a link target is an external address to which a browser may be sent.
func isExternal(to string) bool {
	u, err := url.Parse(to)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "mailto")
}

// linkToPage makes a link to a project file point to the file's page. It keeps external links, and
// replaces any other link by its text.
func linkToPage(l *ast.Link, dir string) {
	to := string(l.Destination)
	if isExternal(to) {
		return
	}
	u, err := url.Parse(to)
	if err == nil && u.Scheme == "" && u.Host == "" && u.Path != "" {
		p := path.Join(dir, u.Path)
		if strings.HasPrefix(u.Path, "/") {
			p = path.Clean(u.Path[1:])
		}
		if p != ".." && p != "." && !strings.HasPrefix(p, "../") {
			l.Destination, l.Title = []byte(link("file", "path", p)), nil
			return
		}
	}
	parent := l.Parent()
	for c := l.FirstChild(); c != nil; c = l.FirstChild() {
		parent.InsertBefore(parent, l, c)
	}
	parent.RemoveChild(parent, l)
}

// notebook contains the parts of a Jupyter notebook (format 4) that are shown.
type notebook struct {
	Cells    []cell `json:"cells"`
	Metadata struct {
		Language struct {
			Extension string `json:"file_extension"`
		} `json:"language_info"`
	} `json:"metadata"`
}

type cell struct {
	Type    string       `json:"cell_type"`
	Source  lined        `json:"source"`
	Outputs []cellOutput `json:"outputs"`
	Count   *int         `json:"execution_count"`
}

type cellOutput struct {
	Type      string           `json:"output_type"`
	Name      string           `json:"name"`
	Text      lined            `json:"text"`
	Data      map[string]lined `json:"data"`
	Error     string           `json:"ename"`
	Value     string           `json:"evalue"`
	Traceback lined            `json:"traceback"`
}

// lined is a text that a notebook stores as one string or as a list of strings.
type lined string

// UnmarshalJSON reads both forms. It keeps the JSON of anything else as text.
func (l *lined) UnmarshalJSON(b []byte) error {
	var one string
	var all []string
	switch {
	case json.Unmarshal(b, &one) == nil:
		*l = lined(one)
	case json.Unmarshal(b, &all) == nil:
		*l = lined(strings.Join(all, ""))
	default:
		*l = lined(b)
	}
	return nil
}

// notebookOf reads a notebook. It returns nil if the data is not one.
func notebookOf(data []byte) *notebook {
	var n notebook
	if json.Unmarshal(data, &n) != nil || n.Cells == nil {
		return nil
	}
	return &n
}

// ansi matches the sequences that colour a traceback.
var ansi = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)

var pictures = []string{"image/png", "image/jpeg", "image/gif"}

// blocks returns the cells with their outputs.
func (n *notebook) blocks(p string, seq uint64) (all []block) {
	for i, c := range n.Cells {
		key, _ := json.Marshal([]any{c.Type, c.Source, c.Outputs})
		b := block{key: string(key), Kind: "cell", Label: fmt.Sprintf("cell %d", i+1)}
		switch c.Type {
		case "markdown":
			for _, x := range markdown(p, []byte(c.Source)) {
				b.Doc += x.Doc
			}
		case "code":
			b.Code = codeLines("x"+n.Metadata.Language.Extension, string(c.Source))
		default:
			b.Code = codeLines("", string(c.Source))
		}
		for j, o := range c.Outputs {
			b.Out = append(b.Out, o.shown(seq, i, j))
		}
		all = append(all, b)
	}
	return all
}

// shown returns an output as text, or as a picture with an address on this server.
func (o cellOutput) shown(seq uint64, cell, n int) output {
	if o.Type == "error" {
		trace := cmp.Or(ansi.ReplaceAllString(string(o.Traceback), ""), o.Error+": "+o.Value)
		return output{Lines: codeLines("", trace), Bad: true}
	}
	if o.Type == "stream" {
		return output{Lines: codeLines("", ansi.ReplaceAllString(string(o.Text), "")), Bad: o.Name == "stderr"}
	}
	if _, kind := o.picture(); kind != "" && seq > 0 {
		return output{Picture: link("raw", "seq", seq, "cell", uint64(cell+1), "out", uint64(n+1))}
	}
	if plain, ok := o.Data["text/plain"]; ok {
		return output{Lines: codeLines("", string(plain))}
	}
	for kind := range o.Data {
		return output{Note: oneLine(kind) + ", not shown"}
	}
	return output{Note: "nothing"}
}

// picture returns the content and the type of an output that is a picture.
func (o cellOutput) picture() (b []byte, kind string) {
	for _, k := range pictures {
		b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(string(o.Data[k])), ""))
		if kind := imageKind(b); err == nil && kind != "" {
			return b, kind
		}
	}
	return nil, ""
}

// pictureOf returns a picture in a notebook.
func (n *notebook) pictureOf(cell, out int) (b []byte, kind string) {
	if n == nil || cell < 1 || cell > len(n.Cells) {
		return nil, ""
	}
	outputs := n.Cells[cell-1].Outputs
	if out < 1 || out > len(outputs) {
		return nil, ""
	}
	return outputs[out-1].picture()
}

func codeLines(name, code string) (out []template.HTML) {
	b := []byte(strings.TrimSuffix(code, "\n"))
	colours := colour(name, b)
	for i, l := range diff.Lines(b) {
		out = append(out, line(l, coloursOf(colours, i), nil))
	}
	return out
}

// changedBlocks returns the blocks that were removed or added between two versions, and the blocks
// next to them.
func changedBlocks(old, new []block) (all []block) {
	keys := func(bs []block) (out [][]byte) {
		for _, b := range bs {
			out = append(out, []byte(b.key))
		}
		return out
	}
	at, changed := 0, false
	same := func(to int, more bool) {
		for i := at; i < to; i++ {
			near := changed && i == at || more && i == to-1
			if near {
				all = append(all, new[i])
			} else if n := len(all); n == 0 || all[n-1].Kind != "rest" {
				all = append(all, block{Kind: "rest", Label: "…"})
			}
		}
	}
	for _, e := range diff.CompareLines(keys(old), keys(new)).Edits {
		same(e.NewFrom, true)
		for _, b := range old[e.OldFrom:e.OldTo] {
			b.Kind += " del"
			all = append(all, b)
		}
		for _, b := range new[e.NewFrom:e.NewTo] {
			b.Kind += " add"
			all = append(all, b)
		}
		at, changed = e.NewTo, true
	}
	if changed {
		same(len(new), false)
	}
	return all
}
