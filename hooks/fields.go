package hooks

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// An event may contain a megabyte of output, and encoding/json looks at each byte about ten times
// before it returns a string. jsontext finds the members of an object in one pass. Input that
// jsontext does not accept is left to encoding/json.

// fields is a JSON object with values decoded on demand.
type fields map[string]json.RawMessage

// parseFields parses an object. Its values are slices of raw.
func parseFields(raw []byte) (fields, bool) {
	if f, ok := members(raw); ok {
		return f, true
	}
	var f map[string]json.RawMessage
	err := json.Unmarshal(raw, &f)
	return f, err == nil && f != nil
}

// members reads raw, which must be one object.
func members(raw []byte) (fields, bool) {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	begin, err := d.ReadToken()
	if err != nil || begin.Kind() != '{' {
		return nil, false
	}
	f := fields{}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, false
		}
		key := name.String()
		v, err := d.ReadValue()
		if err != nil {
			return nil, false
		}
		end := d.InputOffset()
		f[key] = raw[end-int64(len(v)) : end : end]
	}
	if _, err := d.ReadToken(); err != nil { // the closing brace
		return nil, false
	}
	_, err = d.ReadToken()
	return f, err == io.EOF
}

// unquote decodes a string. It returns false for any other value.
func unquote(b []byte) (string, bool) {
	if len(b) < 2 || b[0] != '"' {
		return "", false
	}
	text, err := jsontext.AppendUnquote(nil, b)
	if err != nil { // half of a surrogate pair, or bytes that are not UTF-8
		var s string
		return s, json.Unmarshal(b, &s) == nil
	}
	return string(text), true
}

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
