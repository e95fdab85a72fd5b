package bundle

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"cachebro/search"
	"cachebro/store/leaf/text"
)

// Facts is what one file contributes to the graph. It depends only on the file's path and bytes.
type Facts struct {
	Lines    int       `cbor:"1,keyasint,omitempty"`
	Summary  string    `cbor:"2,keyasint,omitempty"`
	Specs    []string  `cbor:"3,keyasint,omitempty"` // code: its imports (see importsOf)
	Mentions []Mention `cbor:"4,keyasint,omitempty"` // document: the paths that it names
	Sections []Section `cbor:"5,keyasint,omitempty"` // documents
	Module   *Module   `cbor:"6,keyasint,omitempty"` // go.mod
}

// Section is a piece of a document: from a heading to the next.
type Section struct {
	Title string `cbor:"1,keyasint"`
	First int    `cbor:"2,keyasint"`
	Last  int    `cbor:"3,keyasint"`
}

// factsVersion changes when factsOf does. Stored facts of another version are derived again.
const factsVersion = 1

// maxRead is the size in bytes of the largest file whose text is read.
const maxRead = 2 << 20

// factsOf returns what a file contributes to the graph.
func factsOf(p string, content []byte) Facts {
	content, ok := text.Shown(content)
	f := Facts{Lines: text.Lines(content)}
	if len(content) > maxRead || !ok {
		return f
	}
	switch kind := search.KindOf(p); kind {
	case search.Doc:
		f.Mentions = mentions(content)
		f.Sections = sections(p, content, f.Lines)
		f.Summary = docSummary(f.Sections, content)
	case search.Code, search.Test:
		f.Specs = importsOf(p, content)
		f.Summary = codeSummary(content)
	case search.Config:
		if m, ok := moduleOf(p, content); ok {
			f.Module = &m
		}
	}
	return f
}

const maxSections = 200

// sections cuts a document at its headings. The text before the first heading is a section
// too.
func sections(p string, content []byte, lines int) []Section {
	var out []Section
	if lines == 0 {
		return nil
	}
	last := Section{Title: path.Base(p), First: 1}
	for _, s := range search.Outline(p, content) {
		if s.Kind != "heading" || len(out) == maxSections {
			continue
		}
		if s.Line > last.First {
			last.Last = s.Line - 1
			out = append(out, last)
		}
		last = Section{Title: text.Clip(s.Name, 80), First: s.Line}
	}
	last.Last = lines
	return append(out, last)
}

// docSummary returns the first sentence of a document's first paragraph, or else its title.
func docSummary(ss []Section, content []byte) string {
	var text []string
	for _, line := range strings.Split(string(content[:min(len(content), 4096)]), "\n") {
		line = strings.TrimSpace(line)
		if line != "" && !beginsWithAny(line, "#", "<", "[!", "![", "---", "===", "```", "|") {
			text = append(text, line)
		} else if len(text) > 0 {
			break
		}
	}
	s := sentence(strings.Join(text, " "))
	if s == "" && len(ss) > 0 {
		return ss[0].Title
	}
	return s
}

func beginsWithAny(line string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(line, p) })
}

var (
	comment   = regexp.MustCompile(`^\s*(?://+!?|#+|--|;+|%+|\*+/?|/\*+!?|<!--|"""|'''|r"""|{-)\s?`)
	license   = regexp.MustCompile(`(?i)copyright|licen[sc]e|SPDX|all rights reserved|eslint|prettier|coding[:=]|vim:|@ts-|go:build|\+build|DO NOT EDIT|use strict|pragma|nolint|shellcheck`)
	goComment = regexp.MustCompile(`(?m)^// Package \w+ (?:[^\n]*\n)(?:// [^\n]+\n)*`)
)

// codeSummary returns the first sentence of the first comment that is informative.
func codeSummary(content []byte) string {
	head := content[:min(len(content), 8192)]
	if m := goComment.Find(head); m != nil {
		return sentence(strings.ReplaceAll(strings.ReplaceAll(string(m), "\n//", " "), "// ", ""))
	}
	var text []string
	inside := "" // the end of a comment over several lines
	for i, line := range strings.Split(string(head), "\n") {
		t := strings.TrimSpace(line)
		isComment := comment.MatchString(line) && !beginsWithAny(t, "#include", "#define", "#!", "#if", "#[")
		ended := inside == "" && len(text) > 0 && !isComment
		switch {
		case i > 60 || ended:
			if s := sentence(strings.Join(text, " ")); s != "" && !license.MatchString(strings.Join(text, " ")) {
				return s
			}
			if i > 60 {
				return ""
			}
			text = nil
			if !isComment {
				continue
			}
		case t == "" || !isComment && inside == "":
			continue
		}
		for open, end := range map[string]string{"/*": "*/", `"""`: `"""`, "'''": "'''"} {
			if inside == "" && strings.HasPrefix(t, open) && !strings.Contains(t[len(open):], end) {
				inside = end
			} else if inside == end && strings.Contains(t, end) {
				inside = ""
			}
		}
		t = comment.ReplaceAllString(line, "")
		for _, end := range []string{"*/", `"""`, "'''", "-->"} {
			t = strings.TrimSuffix(strings.TrimSpace(t), end)
		}
		text = append(text, strings.TrimSpace(t))
	}
	if s := strings.Join(text, " "); !license.MatchString(s) {
		return sentence(s)
	}
	return ""
}

func sentence(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	for i := 0; i+1 < len(s); i++ {
		ends := strings.ContainsRune(".!?", rune(s[i])) && s[i+1] == ' '
		shortened := strings.HasSuffix(s[:i], "e.g") || strings.HasSuffix(s[:i], "i.e")
		if ends && !shortened && i > 8 {
			s = s[:i+1]
			break
		}
	}
	return text.Clip(s, 160)
}
