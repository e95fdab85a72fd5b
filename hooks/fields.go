package hooks

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// An event may contain a megabyte of output, and encoding/json looks at each byte about ten times
// before it returns a string. The parser here finds the members of an object in one pass, as slices
// of the input, and copies a string once. It passes to encoding/json whatever it does not
// understand for certain.

// fields is a JSON object with values decoded on demand.
type fields map[string]json.RawMessage

// parseFields parses an object. Its values are slices of raw.
func parseFields(raw []byte) (fields, bool) {
	if f, end, ok := members(raw); ok && space(raw, end) == len(raw) {
		return f, true
	}
	var f map[string]json.RawMessage
	err := json.Unmarshal(raw, &f)
	return f, err == nil && f != nil
}

// members reads the object at the beginning of b. end is where it ends.
func members(b []byte) (f fields, end int, ok bool) {
	i := space(b, 0)
	if i >= len(b) || b[i] != '{' {
		return nil, 0, false
	}
	f = fields{}
	i = space(b, i+1)
	if i < len(b) && b[i] == '}' {
		return f, i + 1, true
	}
	for {
		from := i
		i, ok = quoted(b, i)
		if !ok {
			return nil, 0, false
		}
		name, ok := unquote(b[from:i])
		if !ok {
			return nil, 0, false
		}
		i = space(b, i)
		if i >= len(b) || b[i] != ':' {
			return nil, 0, false
		}
		from = space(b, i+1)
		i, ok = value(b, from, 0)
		if !ok {
			return nil, 0, false
		}
		f[name] = b[from:i:i]
		i = space(b, i)
		if i >= len(b) {
			return nil, 0, false
		}
		switch b[i] {
		case '}':
			return f, i + 1, true
		case ',':
			i = space(b, i+1)
		default:
			return nil, 0, false
		}
	}
}

// deepest is how deep values may be nested before encoding/json is used.
const deepest = 100

// value returns where the value at b[i] ends.
func value(b []byte, i, depth int) (end int, ok bool) {
	if i >= len(b) || depth > deepest {
		return 0, false
	}
	switch c := b[i]; c {
	case '"':
		return quoted(b, i)
	case '{', '[':
		closing := c + 2 // '}' is '{'+2, and ']' is '['+2
		i = space(b, i+1)
		if i < len(b) && b[i] == closing {
			return i + 1, true
		}
		for {
			if c == '{' {
				i, ok = quoted(b, i)
				if !ok {
					return 0, false
				}
				i = space(b, i)
				if i >= len(b) || b[i] != ':' {
					return 0, false
				}
				i = space(b, i+1)
			}
			i, ok = value(b, i, depth+1)
			if !ok {
				return 0, false
			}
			i = space(b, i)
			if i >= len(b) {
				return 0, false
			}
			if b[i] == closing {
				return i + 1, true
			}
			if b[i] != ',' {
				return 0, false
			}
			i = space(b, i+1)
		}
	}
	for _, word := range []string{"true", "false", "null"} {
		if len(b)-i >= len(word) && string(b[i:i+len(word)]) == word {
			return i + len(word), true
		}
	}
	from := i
	for i < len(b) && strings.IndexByte("+-.0123456789eE", b[i]) >= 0 {
		i++
	}
	return i, i > from && json.Valid(b[from:i])
}

func space(b []byte, i int) int {
	for i < len(b) && strings.IndexByte(" \n\t\r", b[i]) >= 0 {
		i++
	}
	return i
}

// plain marks the bytes that stand for themselves in a string.
var plain = func() (t [256]bool) {
	for i := range t {
		t[i] = i >= ' ' && i != '"' && i != '\\'
	}
	return t
}()

// quoted returns where the string at b[i] ends.
func quoted(b []byte, i int) (end int, ok bool) {
	if i >= len(b) || b[i] != '"' {
		return 0, false
	}
	for i++; ; i += 2 {
		for i < len(b) && plain[b[i]] {
			i++
		}
		switch {
		case i < len(b) && b[i] == '"':
			return i + 1, true
		case i+1 >= len(b) || b[i] != '\\':
			return 0, false
		case b[i+1] == 'u':
			if len(b)-i < 6 || !hex4(b[i+2:i+6]) {
				return 0, false
			}
		case strings.IndexByte(`"\/bfnrt`, b[i+1]) < 0:
			return 0, false
		}
	}
}

func hex4(b []byte) bool {
	for _, c := range b {
		if strings.IndexByte("0123456789abcdefABCDEF", c) < 0 {
			return false
		}
	}
	return true
}

// unquote decodes a string that quoted has found.
func unquote(b []byte) (string, bool) {
	if len(b) < 2 || b[0] != '"' {
		return "", false
	}
	in := b[1 : len(b)-1]
	if !utf8.Valid(in) {
		return decoded(b)
	}
	i := bytes.IndexByte(in, '\\')
	if i < 0 {
		return string(in), true
	}
	var out strings.Builder
	out.Grow(len(in))
	for ; i >= 0; i = bytes.IndexByte(in, '\\') {
		out.Write(in[:i])
		if c := in[i+1]; c != 'u' {
			out.WriteByte("\"\\/\b\f\n\r\t"[strings.IndexByte(`"\/bfnrt`, c)])
			in = in[i+2:]
			continue
		}
		n, err := strconv.ParseUint(string(in[i+2:i+6]), 16, 32)
		if err != nil || utf16.IsSurrogate(rune(n)) {
			return decoded(b) // half of a surrogate pair
		}
		out.WriteRune(rune(n))
		in = in[i+6:]
	}
	out.Write(in)
	return out.String(), true
}

func decoded(b []byte) (s string, ok bool) { return s, json.Unmarshal(b, &s) == nil }

// encode writes the object on one line, sorted by name.
func (f fields) encode(b []byte) []byte {
	b = append(b, '{')
	for i, name := range slices.Sorted(maps.Keys(f)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, name), ':')
		if v := f[name]; len(v) == 0 {
			b = append(b, "null"...)
		} else if bytes.IndexByte(v, '\n') < 0 {
			b = append(b, v...)
		} else { // newlines are only between values: in a string they are written as \n
			var line bytes.Buffer
			_ = json.Compact(&line, v) // cannot fail: the value was parsed
			b = append(b, line.Bytes()...)
		}
	}
	return append(b, '}')
}

func appendString(b []byte, s string) []byte {
	q, _ := json.Marshal(s) // cannot fail for a string
	return append(b, q...)
}
