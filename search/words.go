package search

import (
	"unicode"
	"unicode/utf8"

	"cachebro/store/leaf/text"
)

// maxWord is the length in bytes of the longest word that is indexed as a whole. Without this
// limit, base64 blobs and minified sources would fill the dictionary. A longer word is cut into
// overlapping pieces of this length, one every maxWord/2 bytes, so any part of at most maxWord/2
// bytes is within one piece.
const maxWord = 64

// fold maps runes that differ only in case to the same rune, so that index and query agree with
// case-insensitive regular expressions. The Kelvin sign becomes a k, and the long s an s.
func fold(r rune) rune {
	if r < utf8.RuneSelf {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	if 'A' <= least && least <= 'Z' {
		least += 'a' - 'A'
	}
	return least
}

// isWord reports whether a rune belongs to a word.
func isWord(r rune) bool {
	return text.IsWord(r) || r >= utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// eachWord calls fn with the byte range of each longest run of word runes.
func eachWord(text []byte, fn func(start, end int)) {
	start := -1
	for i := 0; i < len(text); {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(text[i:])
		}
		if isWord(r) {
			if start < 0 {
				start = i
			}
		} else if start >= 0 {
			fn(start, i)
			start = -1
		}
		i += size
	}
	if start >= 0 {
		fn(start, len(text))
	}
}

// appendFolded appends the folded form of a word to dst.
func appendFolded(dst, word []byte) []byte {
	for i := 0; i < len(word); {
		if c := word[i]; c < utf8.RuneSelf {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			dst = append(dst, c)
			i++
			continue
		}
		r, size := utf8.DecodeRune(word[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, word[i])
		} else {
			dst = utf8.AppendRune(dst, fold(r))
		}
		i += size
	}
	return dst
}

// pieces calls fn with a folded word, or with its overlapping pieces if it is longer than maxWord.
// The first piece starts where the word starts, and the last piece ends where the word ends.
func pieces(folded []byte, fn func([]byte)) {
	for len(folded) > maxWord {
		fn(folded[:maxWord])
		folded = folded[maxWord/2:]
	}
	fn(folded)
}

// eachPart calls fn with the parts of an identifier in their original case. It splits at
// underscores, camelCase and runs of digits. If there is only one part, it does not call fn.
func eachPart(word []byte, fn func([]byte)) {
	start := 0
	cut := func(end int) {
		if end > start && (start > 0 || end < len(word)) {
			fn(word[start:end])
		}
		start = end
	}
	const (
		none = iota
		lower
		upper
		digit
	)
	before := none
	for i := 0; i < len(word); {
		r, size := utf8.DecodeRune(word[i:])
		class := lower
		switch {
		case r == '_':
			cut(i)
			start, before = i+size, none
			i += size
			continue
		case unicode.IsUpper(r):
			class = upper
		case unicode.IsDigit(r):
			class = digit
		}
		switch {
		case before == none || class == before:
		case before == upper && class == lower: // HTTPServer → HTTP Server
			if _, last := utf8.DecodeLastRune(word[start:i]); i-last > start {
				cut(i - last)
			}
		default:
			cut(i)
		}
		before = class
		i += size
	}
	cut(len(word))
}
