package visible

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line removes characters that a terminal would act on. It is for names and other untrusted text
// within a line of cachebro's output. Bytes that are not UTF-8 become U+FFFD.
func Line(s string) string {
	return strings.Map(func(r rune) rune {
		if Acts(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// Name formats a path as git does with core.quotePath=false. A path with control characters,
// quotes, backslashes or invalid UTF-8 is C-escaped between double quotes. Any other path is
// unchanged.
func Name(path string) string {
	plain := true
	for i := 0; i < len(path) && plain; {
		r, n := utf8.DecodeRuneInString(path[i:])
		plain = !needsEscape(r, n)
		i += n
	}
	if plain {
		return path
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(path); {
		r, n := utf8.DecodeRuneInString(path[i:])
		if needsEscape(r, n) {
			for _, c := range []byte(path[i : i+n]) {
				escapeByte(&b, c)
			}
		} else {
			b.WriteString(path[i : i+n])
		}
		i += n
	}
	b.WriteByte('"')
	return b.String()
}

// ForModel returns a path for use in a sentence to a model. It is like Name, but also quotes paths
// with blanks, so that a path cannot pass for a sentence of cachebro.
func ForModel(path string) string {
	name := Name(path)
	if name[:min(len(name), 1)] != `"` && strings.ContainsFunc(name, unicode.IsSpace) {
		return `"` + name + `"`
	}
	return name
}

// Arg returns a path quoted as one shell word, for a command that the user may paste.
func Arg(path string) string {
	plain, control := path != "", false
	for i := 0; i < len(path); {
		r, n := utf8.DecodeRuneInString(path[i:])
		i += n
		control = control || r == utf8.RuneError && n <= 1 || !unicode.IsPrint(r)
		plain = plain && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("/._-+:,@%", r))
	}
	switch {
	case plain:
		return path
	case !control:
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'") // syntax of bash, zsh, ksh
	for _, c := range []byte(path) {
		switch {
		case c == '\'' || c == '\\':
			b.WriteString("\\" + string(rune(c)))
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, "\\%03o", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String() + "'"
}

// needsEscape reports whether a rune must be escaped. It must be if a terminal would act on it or
// hide it, or if a quoted name requires it.
func needsEscape(r rune, size int) bool {
	invalid := r == utf8.RuneError && size <= 1
	hidden := !unicode.IsPrint(r) && r != ' '
	return r == '"' || r == '\\' || invalid || hidden
}

func escapeByte(b *strings.Builder, c byte) {
	if i := strings.IndexByte("\a\b\t\n\v\f\r\"\\", c); i >= 0 {
		b.WriteByte('\\')
		b.WriteByte(`abtnvfr"\`[i])
		return
	}
	b.WriteByte('\\')
	for shift := 6; shift >= 0; shift -= 3 {
		b.WriteByte('0' + c>>shift&7)
	}
}
