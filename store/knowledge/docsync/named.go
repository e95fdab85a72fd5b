package docsync

import (
	"iter"
	"path"
	"regexp"
	"slices"
	"strings"

	"cachebro/store"
	"cachebro/store/knowledge/manifest"
	"cachebro/store/leaf/text"
)

// How is the way in which a pair was created.
type How string

// The values of How, most explicit first.
const (
	Declared How = "declared" // in cachebro.yml
	Comment  How = "comment"  // in the document
	Inferred How = "inferred" // inferred from a path in the document
)

// Ref is a path, directory or pattern that a document names.
type Ref struct {
	Spec string `cbor:"1,keyasint"` // relative to the project, as in cachebro.yml
	How  How    `cbor:"2,keyasint"`
}

// The limits for one document.
const (
	maxDoc  = 1 << 20 // bytes; a larger document is not read
	maxRefs = 200
)

var (
	htmlComment = regexp.MustCompile(`(?s)<!--(.*?)-->`)
	codeSpan    = regexp.MustCompile("`[^`\n]*`")
	lineComment = regexp.MustCompile(`(?m)^[ \t]*(?:\.\.|//|%|;|#\+?)[ \t]+cachebro:[ \t]*documents[ \t]+(.+)$`)
	saysSo      = regexp.MustCompile(`(?s)^\s*cachebro:\s*documents\b(.*)$`)
	oneWord     = regexp.MustCompile(`"([^"\n]+)"|([^\s,]+)`)
	fence       = regexp.MustCompile("^ {0,3}(```+|~~~+)")
)

// refsIn returns the code that a document describes. If the document has a cachebro comment, only
// the comment counts. "documents nothing" means that the paths in the text are ignored. Examples in
// fenced blocks are skipped.
func refsIn(doc store.Path, text []byte, isCode func(string) bool) (refs []Ref) {
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
				word = path.Join(path.Dir(string(doc)), word)
				if slash {
					word += "/"
				}
			}
			if spec, err := manifest.CleanPath(word); err == nil && word != "nothing" {
				add(spec, Comment)
			}
		}
	}
	// Look for the word first, because few documents have such a comment, and the regular
	// expressions are slow.
	if strings.Contains(prose, "cachebro:") {
		// A comment between backticks is an example.
		for _, m := range htmlComment.FindAllStringSubmatch(codeSpan.ReplaceAllString(prose, " "), -1) {
			if sentence := saysSo.FindStringSubmatch(m[1]); sentence != nil {
				words(sentence[1])
			}
		}
		for _, m := range lineComment.FindAllStringSubmatch(prose, -1) {
			words(strings.TrimRight(m[1], " \t\r*/"))
		}
	}
	if told {
		return refs
	}
	if strings.Contains(prose, "<!--") {
		prose = htmlComment.ReplaceAllString(prose, " ")
	}
	for from, to := range pathWords(prose) {
		word := prose[from:to]
		if strings.HasSuffix(prose[:from], ":") || strings.HasPrefix(word, "/") || strings.HasPrefix(word, "~") || !isCode(word) {
			continue // part of a URL, or outside the project
		}
		for _, p := range []string{path.Clean(word), path.Join(path.Dir(string(doc)), word)} {
			if p != "." && !strings.HasPrefix(p, "../") {
				add(p, Inferred)
			}
		}
	}
	return refs
}

// pathWords yields the positions of words that look like file paths. Such a word consists of
// letters, digits and _@.+~/-. It ends with a letter or digit, a dot, and an extension of 1 to 12
// letters or digits. pathWords reads every version of every document, and a regular
// expression would take twenty times as long.
func pathWords(text string) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		for at := 0; at < len(text); {
			dot := strings.IndexByte(text[at:], '.')
			if dot < 0 {
				return
			}
			dot += at
			from, end := dot, dot+1
			for from > at && inPath(text[from-1]) {
				from--
			}
			to := 0
			for ; end < len(text) && inPath(text[end]); end++ {
				// Try each dot of the word. The last one that fits counts.
				if text[end-1] == '.' {
					to = max(to, ending(text, from, end-1))
				}
			}
			if to > 0 && !yield(from, to) {
				return
			}
			at = end
		}
	}
}

// ending returns the end of the extension after a dot, or 0 if there is none.
func ending(text string, from, dot int) int {
	end := dot + 1
	for end < len(text) && isWord(text[end]) {
		end++
	}
	if n := end - dot - 1; dot == from || !isWord(text[dot-1]) || n < 1 || n > 12 {
		return 0
	}
	return end
}

func isWord(c byte) bool { return text.IsWord(rune(c)) }

func inPath(c byte) bool { return isWord(c) || strings.IndexByte("@.+~/-", c) >= 0 }

// unfenced returns a text without its fenced code blocks.
func unfenced(text string) string {
	if !strings.Contains(text, "```") && !strings.Contains(text, "~~~") {
		return text
	}
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
