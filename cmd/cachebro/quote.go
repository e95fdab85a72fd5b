package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// quote shows a path as git does: as it is, or, when it holds control
// characters, quotes, backslashes or bytes that are not UTF-8, C-style between
// double quotes. Letters of other scripts stay readable (core.quotePath=false).
func quote(path string) string {
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

// arg is a path as a word of a command that a person may paste into a shell.
func arg(path string) string {
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
	b.WriteString("$'") // of bash, zsh, ksh
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

// needsEscape: a rune that a terminal would act on, hide, or that ends a line.
func needsEscape(r rune, size int) bool {
	return r == '"' || r == '\\' || r == utf8.RuneError && size <= 1 || !unicode.IsPrint(r) && r != ' '
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

// oneLine makes a text safe to print on one line of a terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

// jsonPath puts a path into an object under name when it is valid UTF-8, else
// in base64 under name_base64: JSON strings cannot hold other bytes.
func jsonPath(m map[string]any, name string, path []byte) {
	if len(path) == 0 && name != "path" {
		return
	}
	if utf8.Valid(path) {
		m[name] = string(path)
		return
	}
	m[name+"_base64"] = path
}

// object turns a DTO into a map with readable paths; keys name its byte fields.
func object(dto any, paths map[string][]byte) (map[string]any, error) {
	raw, err := json.Marshal(dto)
	if err != nil {
		return nil, err
	}
	m := map[string]any{}
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber() // sequence numbers and times exceed float64
	if err := dec.Decode(&m); err != nil {
		return nil, err
	}
	for name, path := range paths {
		delete(m, name)
		jsonPath(m, name, path)
	}
	return m, nil
}
