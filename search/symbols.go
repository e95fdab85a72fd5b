package search

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Symbol is a name that a file defines.
type Symbol struct {
	Name  string
	Kind  string // func, method, type, const, var, class, heading …
	Line  int    // line of the name, counted from 1
	First int    // first line of the definition, including its comment
	Last  int    // last line; 0 if unknown
	Top   bool   // at the file's top level
	// Signature is the first line of the definition, without the body.
	Signature string
}

// symbolsOf finds the names that a file defines. It parses Go. In other languages it recognizes the
// shape of definition lines. This is good enough for ranking and for the borders of chunks. It
// never decides what an exact query finds.
func symbolsOf(p string, kind Kind, content []byte) []Symbol {
	switch {
	case path.Ext(p) == ".go":
		return goSymbols(content)
	case kind == Doc:
		return headings(content)
	case kind == Code || kind == Test:
		return lineSymbols(path.Ext(p), content)
	}
	return nil
}

func goSymbols(content []byte) []Symbol {
	fset := token.NewFileSet()
	heads := withoutBodies(content)
	f, err := parser.ParseFile(fset, "", heads, parser.SkipObjectResolution|parser.ParseComments)
	if err == nil {
		content = heads
	} else {
		f, err = parser.ParseFile(fset, "", content, parser.SkipObjectResolution|parser.ParseComments)
	}
	if f == nil || err != nil && len(f.Decls) == 0 {
		return nil
	}
	line := func(p token.Pos) int { return fset.Position(p).Line }
	var syms []Symbol
	add := func(name *ast.Ident, kind string, from, to token.Pos, doc *ast.CommentGroup, sig string) {
		if name == nil || name.Name == "_" {
			return
		}
		first := line(from)
		if doc != nil {
			first = line(doc.Pos())
		}
		syms = append(syms, Symbol{Name: name.Name, Kind: kind, Line: line(name.Pos()), First: first, Last: line(to), Top: true, Signature: sig})
	}
	text := func(from, to token.Pos) string {
		a, b := fset.Position(from).Offset, fset.Position(to).Offset
		if a < 0 || b > len(content) || a > b {
			return ""
		}
		return strings.Join(strings.Fields(string(content[a:b])), " ")
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			kind := "func"
			if d.Recv != nil {
				kind = "method"
			}
			end := d.End()
			if d.Body != nil {
				end = d.Body.Lbrace
			}
			add(d.Name, kind, d.Pos(), d.End(), d.Doc, text(d.Pos(), end))
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				doc := d.Doc
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Doc != nil {
						doc = s.Doc
					}
					add(s.Name, "type", s.Pos(), s.End(), doc, "type "+firstLine(text(s.Pos(), s.End())))
				case *ast.ValueSpec:
					for _, n := range s.Names {
						add(n, d.Tok.String(), s.Pos(), s.End(), s.Doc, d.Tok.String()+" "+firstLine(text(s.Pos(), s.End())))
					}
				}
			}
		}
	}
	return syms
}

// withoutBodies reduces the bodies of top-level functions to their line ends, because parsing them
// took two thirds of the time for Go files. It relies on gofmt's layout. A line in a raw string or
// a comment may look like the end of the body. So a body is kept if its apparent end may be inside a
// raw string or a comment.
func withoutBodies(content []byte) []byte {
	out := make([]byte, 0, len(content)/2)
	rest := content
	for len(rest) > 0 {
		line := lineOf(rest)
		body := rest[max(len(line)-1, 0):] // begins at the end of the line
		out, rest = append(out, line...), rest[len(line):]
		if !bytes.HasPrefix(line, []byte("func ")) || !bytes.HasSuffix(line, []byte("{\n")) {
			continue
		}
		end := bytes.Index(body, []byte("\n}"))
		if end < 0 || bytes.Count(body[:end], []byte{'`'})%2 != 0 || bytes.Contains(body[:end], []byte("/*")) {
			continue
		}
		for range bytes.Count(body[1:end+1], []byte{'\n'}) {
			out = append(out, '\n')
		}
		rest = body[end+1:]
	}
	return out
}

// lineOf returns the first line of a text, including its line end.
func lineOf(text []byte) []byte {
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		return text[:i+1]
	}
	return text
}

func firstLine(s string) string {
	if i := strings.IndexByte(s, '{'); i > 0 {
		s = s[:i]
	}
	if len(s) > 120 {
		s = s[:120]
	}
	return strings.TrimSpace(s)
}

func headings(content []byte) []Symbol {
	var syms []Symbol
	fenced := false
	for i, line := range bytes.Split(content, []byte{'\n'}) {
		if bytes.HasPrefix(line, []byte("```")) {
			fenced = !fenced
		}
		if fenced || len(line) == 0 || line[0] != '#' {
			continue
		}
		title := strings.TrimSpace(strings.TrimLeft(string(line), "#"))
		if title != "" {
			syms = append(syms, Symbol{Name: title, Kind: "heading", Line: i + 1, First: i + 1, Top: true, Signature: string(line)})
		}
	}
	return syms
}

// The definition lines of common languages: a keyword, then the name.
var (
	wordDef = regexp.MustCompile(`^(\s*)(?:(?:export|default|pub(?:\([a-z]+\))?|public|private|protected|internal|static|final|abstract|async|override|open|sealed|data|inline|unsafe|virtual|const|extern|declare)\s+)*(func|fn|def|class|interface|struct|enum|trait|impl|type|module|namespace|function\*?|macro_rules!|defmodule|object|record|protocol|extension)\s+([A-Za-z_$][\w$]*)`)
	jsDef   = regexp.MustCompile(`^(\s*)(?:export\s+)?(const|let|var)\s+([A-Za-z_$][\w$]*)\s*=`)
	cDef    = regexp.MustCompile(`^([A-Za-z_][\w\s\*]*?[\s\*])([A-Za-z_]\w*)\s*\([^;]*$`)
	cMacro  = regexp.MustCompile(`^\s*#\s*define\s+([A-Za-z_]\w*)`)
)

func lineSymbols(ext string, content []byte) []Symbol {
	var syms []Symbol
	isC := slices.Contains([]string{".c", ".h", ".cc", ".cpp", ".hpp", ".cxx"}, ext)
	for i, raw := range bytes.Split(content, []byte{'\n'}) {
		if len(raw) > 400 || len(raw) < 4 {
			continue
		}
		line := string(raw)
		var indent, kind, name string
		if m := wordDef.FindStringSubmatch(line); m != nil {
			indent, kind, name = m[1], m[2], m[3]
		} else if m := jsDef.FindStringSubmatch(line); m != nil && !isC {
			if m[1] != "" {
				continue // a local variable
			}
			kind, name = m[2], m[3]
		} else if isC {
			if m := cMacro.FindStringSubmatch(line); m != nil {
				kind, name = "macro", m[1]
			} else if m := cDef.FindStringSubmatch(line); m != nil && !strings.HasPrefix(line, "return") && !strings.HasPrefix(line, "else") {
				kind, name = "func", m[2]
			} else {
				continue
			}
		} else {
			continue
		}
		syms = append(syms, Symbol{Name: name, Kind: kind, Line: i + 1, First: i + 1, Top: indent == "", Signature: strings.TrimSpace(strings.TrimRight(line, "{ "))})
	}
	return syms
}
