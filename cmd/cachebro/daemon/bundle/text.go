package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"cachebro/search"
	"cachebro/store"
	"cachebro/store/leaf/text"
	"cachebro/store/wire/visible"
)

const (
	maxChunkLines = 40
	maxChunkBytes = 1500
)

// Text returns the bundle for a plan: JSON with one item per line, so that the diff of two bundles
// is short. The last field is the bundle's own hash.
func (g *Graph) Text(ctx context.Context, p *Plan) ([]byte, error) {
	w := newWriter()
	w.field("ref", p.Ref)
	w.field("kind", p.Kind)
	if p.Label != "" {
		w.field("label", p.Label)
	}
	w.field("summary", p.Summary)
	w.field("size", size(p))
	var files []string
	for _, f := range p.Files {
		files = append(files, joined(f.Path, text.Count(f.Lines, "line"), f.Summary))
	}
	if p.Kind != KindFile {
		list(w, "files", files, p.Count-len(files))
	}
	symbols, more, err := g.symbolLines(ctx, p)
	if err != nil {
		return nil, err
	}
	list(w, "symbols", symbols, more)
	docs, err := g.chunkTexts(ctx, p)
	if err != nil {
		return nil, err
	}
	list(w, "docs", docs, 0)
	list(w, "versions", p.Versions, 0)
	var near []neighbour
	for _, n := range p.Neighbours {
		near = append(near, neighbour{visible.Line(n.Ref), n.Kind, n.Edges, visible.Line(n.Via), visible.Line(n.Summary)})
	}
	list(w, "neighbours", near, p.More)
	list(w, "problems", p.Problems, 0)
	return w.end(), nil
}

func size(p *Plan) string {
	if p.Kind == KindFile {
		return text.Count(p.Lines, "line")
	}
	return text.Count(p.Count, "file") + ", " + text.Count(p.Lines, "line")
}

func joined(parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, " · ")
}

// neighbour is a neighbour in a bundle.
type neighbour struct {
	Ref     string `json:"ref"`
	Kind    string `json:"kind"`
	Edges   string `json:"edges"`
	Via     string `json:"via,omitempty"`
	Summary string `json:"summary,omitempty"`
}

func (g *Graph) symbolLines(ctx context.Context, p *Plan) (out []string, more int, err error) {
	per := maxSymbols
	if n := len(p.Symbols); n > 1 {
		per = max(5, maxSymbols/n)
	}
	for _, b := range p.Symbols {
		if ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		lines, err := g.definitions(b)
		if err != nil {
			g.o.Warn("read a content for a bundle", err)
			continue
		}
		if p.Kind != KindFile { // for several files, list only exported definitions
			if public := publicOf(b.Path, lines); len(public) > 0 {
				lines = public
			}
		}
		for i, l := range lines {
			if i >= per || len(out) >= maxSymbols {
				more += len(lines) - i
				break
			}
			out = append(out, b.Path+":"+l.text)
		}
	}
	return out, more, nil
}

// publicOf returns the definitions that a Go package exports.
func publicOf(p string, lines []symbolLine) (out []symbolLine) {
	if path.Ext(p) != ".go" {
		return nil
	}
	for _, l := range lines {
		if r, _ := utf8.DecodeRuneInString(l.name); unicode.IsUpper(r) {
			out = append(out, l)
		}
	}
	return out
}

type symbolLine struct{ name, text string }

// symbolKey includes the extension, because what a text defines depends on its language.
type symbolKey struct {
	ext  string
	hash store.Hash
}

const maxCached = 2000

// definitions returns what a content defines. It caches the result by content, so that after a
// change only the changed files are parsed again.
func (g *Graph) definitions(b Blob) ([]symbolLine, error) {
	key := symbolKey{path.Ext(b.Path), b.Hash}
	lines, ok := g.symbols.Get(key)
	if ok {
		return lines, nil
	}
	content, err := g.o.Source.Content(b.Hash)
	if err != nil {
		return nil, err
	}
	content, isText := text.Shown(content)
	if len(content) <= maxRead && isText {
		for _, s := range search.Outline(b.Path, content) {
			if !s.Top && s.Kind == "const" || len(lines) == 2*maxSymbols {
				continue
			}
			lines = append(lines, symbolLine{s.Name, fmt.Sprintf("%d-%d %s", s.Line, max(s.Line, s.Last), text.Clip(s.Signature, 120))})
		}
	}
	g.symbols.Put(key, lines)
	return lines, nil
}

// chunkText is a section of a document in a bundle.
type chunkText struct {
	Source string `json:"source"`
	Title  string `json:"title"`
	Text   string `json:"text"`
}

func (g *Graph) chunkTexts(ctx context.Context, p *Plan) (out []chunkText, err error) {
	contents := map[store.Hash][]string{}
	for _, c := range p.Docs {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		lines, ok := contents[c.Hash]
		if !ok {
			raw, err := g.o.Source.Content(c.Hash)
			if err != nil {
				g.o.Warn("read a content for a bundle", err)
				continue
			}
			raw, _ = text.Shown(raw)
			lines = strings.Split(string(bytes.ToValidUTF8(raw, []byte("\uFFFD"))), "\n")
			contents[c.Hash] = lines
		}
		last := min(c.Last, len(lines), c.First+maxChunkLines-1)
		if last < c.First {
			continue
		}
		chunk := strings.TrimRight(strings.Join(lines[c.First-1:last], "\n"), "\n ")
		if cut := text.Clip(chunk, maxChunkBytes); cut != chunk || last < min(c.Last, len(lines)) {
			chunk = strings.TrimSuffix(cut, "…") + "…"
		}
		out = append(out, chunkText{fmt.Sprintf("%s:%d-%d", visible.Line(c.Path), c.First, c.Last), visible.Line(c.Title), chunk})
	}
	return out, nil
}

// writer writes a JSON object with one item per line.
type writer struct {
	b     bytes.Buffer
	comma bool
}

func newWriter() *writer {
	w := &writer{}
	w.b.WriteString("{\n")
	return w
}

func (w *writer) key(name string) {
	if w.comma {
		w.b.WriteString(",\n")
	}
	w.comma = true
	w.b.Write(encoded(name))
	w.b.WriteString(": ")
}

func (w *writer) field(name, value string) {
	w.key(name)
	w.b.Write(encoded(visible.Line(value)))
}

// list writes a list, unless it is empty. more is the number of items left out.
func list[T any](w *writer, name string, items []T, more int) {
	if len(items) == 0 {
		return
	}
	w.key(name)
	w.b.WriteByte('[')
	left := fmt.Sprintf(`{"more":%d}`, more)
	for i, item := range items {
		if i > 0 {
			w.b.WriteByte(',')
		}
		w.b.WriteByte('\n')
		var v any = item
		if s, ok := v.(string); ok {
			v, left = visible.Line(s), fmt.Sprintf(`"… %d more"`, more)
		}
		w.b.Write(encoded(v))
	}
	if more > 0 {
		w.b.WriteString(",\n" + left)
	}
	w.b.WriteString("\n]")
}

// end closes the object with the hash of everything before it.
func (w *writer) end() []byte {
	w.field("etag", "sha256:"+text.Hash(w.b.Bytes()))
	w.b.WriteString("\n}\n")
	return w.b.Bytes()
}

// Etag returns the hash in the last field of a bundle's text.
func Etag(text []byte) string {
	var v struct {
		Etag string `json:"etag"`
	}
	if json.Unmarshal(text, &v) != nil {
		return ""
	}
	return v.Etag
}

// encoded returns v as JSON. It cannot fail for strings and structs of them.
func encoded(v any) []byte {
	b, _ := text.JSONLine(v)
	return bytes.TrimSuffix(b, []byte("\n"))
}
