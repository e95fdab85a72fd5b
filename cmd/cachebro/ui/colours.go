package ui

import (
	"bytes"
	"embed"
	"io/fs"
	"path"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/alecthomas/chroma/v2"
)

// lexerFiles are chroma's lexers for the languages of most projects. go.xml was made from chroma's
// lexer for Go, which exists only as code. All lexers of chroma would add 3 MB to the binary, and
// time to the start of every command.
//
//go:embed lexers/*.xml
var lexerFiles embed.FS

// lexers parses the lexers when a page first shows a file.
var lexers = sync.OnceValue(func() *chroma.LexerRegistry {
	reg := chroma.NewLexerRegistry()
	names, _ := fs.Glob(lexerFiles, "lexers/*.xml")
	for _, n := range names {
		if l, err := chroma.NewXMLLexer(lexerFiles, n); err == nil {
			reg.Register(l)
		}
	}
	return reg
})

// maxColoured is the size in bytes of the largest file that is coloured. A larger one would delay
// the page.
const maxColoured = 200 << 10

// colour returns the colours of each line of a file, or nil if the file is not coloured.
func colour(name string, content []byte) [][]span {
	if len(content) == 0 || len(content) > maxColoured || !utf8.Valid(content) || bytes.ContainsRune(content, '\r') {
		return nil
	}
	lexer := lexers().Match(path.Base(name))
	if lexer == nil {
		return nil
	}
	it, err := chroma.Coalesce(lexer).Tokenise(&chroma.TokeniseOptions{State: "root"}, string(content))
	if err != nil {
		return nil
	}
	var all [][]span
	var now []span
	at, total := 0, 0
	for t := it(); t != chroma.EOF; t = it() {
		class := classOf(t.Type)
		for text := t.Value; text != ""; {
			piece, rest, ended := strings.Cut(text, "\n")
			at += len(piece)
			if piece != "" {
				now = append(now, span{at, class})
			}
			if total += len(piece); ended {
				total++
				all = append(all, now)
				now, at = nil, 0
			}
			text = rest
		}
	}
	if total < len(content) {
		return nil // the lexer lost a part of the text, so the colours would be misplaced
	}
	return append(all, now)
}

// classOf maps a kind of token to one of the few classes of the style sheet.
func classOf(t chroma.TokenType) string {
	switch {
	case t.InCategory(chroma.Comment):
		return "c"
	case t.InCategory(chroma.Keyword):
		return "k"
	case t.InSubCategory(chroma.LiteralString):
		return "s"
	case t.InSubCategory(chroma.LiteralNumber):
		return "n"
	case t == chroma.NameFunction || t == chroma.NameClass || t == chroma.NameTag:
		return "f"
	case t == chroma.NameBuiltin || t == chroma.NameAttribute || t == chroma.NameDecorator:
		return "b"
	}
	return ""
}
