package docsync

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"cachebro/store"
	"cachebro/store/manifest"
)

// How a pair came to be.
type How string

// The ways, the most explicit first.
const (
	Declared How = "declared" // in cachebro.yml
	Comment  How = "comment"  // in the document
	Inferred How = "inferred" // the document names the path
)

// Ref is what a document says about one path, directory or pattern.
type Ref struct {
	Spec string `cbor:"1,keyasint"` // as in cachebro.yml: relative to the project
	How  How    `cbor:"2,keyasint"`
}

// The bounds of one document.
const (
	maxDoc  = 1 << 20 // bytes; of a larger one nothing is read
	maxRefs = 200
)

var (
	htmlComment = regexp.MustCompile(`(?s)<!--(.*?)-->`)
	codeSpan    = regexp.MustCompile("`[^`\n]*`")
	lineComment = regexp.MustCompile(`(?m)^[ \t]*(?:\.\.|//|%|;|#\+?)[ \t]+cachebro:[ \t]*documents[ \t]+(.+)$`)
	saysSo      = regexp.MustCompile(`(?s)^\s*cachebro:\s*documents\b(.*)$`)
	oneWord     = regexp.MustCompile(`"([^"\n]+)"|([^\s,]+)`)
	fence       = regexp.MustCompile("^ {0,3}(```+|~~~+)")
	pathWord    = regexp.MustCompile(`[A-Za-z0-9_@.+~/-]*[A-Za-z0-9_]\.[A-Za-z0-9_]{1,12}\b`)
)

// named reads what a document is about. A comment that says so counts alone;
// "documents nothing" says that the paths in the text mean nothing. Examples in
// fenced blocks are left out.
func named(doc store.Path, text []byte, isCode func(string) bool) (refs []Ref) {
	if len(text) > maxDoc {
		return nil
	}
	prose := unfenced(string(text))
	told := false
	add := func(spec string, how How) {
		if r := (Ref{spec, how}); spec != string(doc) && len(spec) <= maxPath && !slices.Contains(refs, r) && len(refs) < maxRefs {
			refs = append(refs, r)
		}
	}
	words := func(list string) {
		told = true
		for _, m := range oneWord.FindAllStringSubmatch(list, -1) {
			word := m[1] + m[2]
			if strings.HasPrefix(word, "./") || strings.HasPrefix(word, "../") {
				slash := strings.HasSuffix(word, "/")
				if word = path.Join(path.Dir(string(doc)), word); slash {
					word += "/"
				}
			}
			if spec, err := manifest.CleanPath(word); err == nil && word != "nothing" {
				add(spec, Comment)
			}
		}
	}
	// A comment between backticks is an example.
	for _, m := range htmlComment.FindAllStringSubmatch(codeSpan.ReplaceAllString(prose, " "), -1) {
		if said := saysSo.FindStringSubmatch(m[1]); said != nil {
			words(said[1])
		}
	}
	for _, m := range lineComment.FindAllStringSubmatch(prose, -1) {
		words(strings.TrimRight(m[1], " \t\r*/"))
	}
	if told {
		return refs
	}
	prose = htmlComment.ReplaceAllString(prose, " ")
	for _, at := range pathWord.FindAllStringIndex(prose, -1) {
		word := prose[at[0]:at[1]]
		if at[0] > 0 && prose[at[0]-1] == ':' || strings.HasPrefix(word, "/") || strings.HasPrefix(word, "~") || !isCode(word) {
			continue // of a URL, or outside
		}
		for _, p := range []string{path.Clean(word), path.Join(path.Dir(string(doc)), word)} {
			if p != "." && !strings.HasPrefix(p, "../") {
				add(p, Inferred)
			}
		}
	}
	return refs
}

// unfenced is a text without its fenced code blocks.
func unfenced(text string) string {
	var b strings.Builder
	open := ""
	for line := range strings.Lines(text) {
		m := fence.FindStringSubmatch(line)
		switch {
		case open == "" && m != nil:
			open = m[1]
		case open == "":
			b.WriteString(line)
		case m != nil && m[1][0] == open[0] && len(m[1]) >= len(open) && strings.Trim(strings.TrimSpace(line), m[1][:1]) == "":
			open = ""
		}
	}
	return b.String()
}
