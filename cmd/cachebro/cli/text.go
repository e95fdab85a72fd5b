package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"cachebro/store/wire/visible"
)

// Quote returns a path as it is shown to people; see visible.Name.
func Quote(path string) string { return visible.Name(path) }

// Arg returns a path as one word of a shell command; see visible.Arg.
func Arg(path string) string { return visible.Arg(path) }

// OneLine returns s made safe to print on one line of a terminal.
func OneLine(s string) string {
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

// JSONPath adds a path to an object. A path that is valid UTF-8 is added under name, any other path
// in base64 under name_base64, because JSON strings cannot contain other bytes.
func JSONPath(m map[string]any, name string, path []byte) {
	if len(path) == 0 && name != "path" {
		return
	}
	if utf8.Valid(path) {
		m[name] = string(path)
		return
	}
	m[name+"_base64"] = path
}

// Object turns a wire struct into a map. paths holds the struct's path fields, by JSON name. Object
// writes them with JSONPath.
func Object(v any, paths map[string][]byte) map[string]any {
	raw, err := json.Marshal(v)
	m := map[string]any{}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // a float64 cannot hold every sequence number exactly
	if err == nil {
		err = dec.Decode(&m)
	}
	if err != nil {
		panic(err) // cannot happen: JSON can encode every field of the wire structs
	}
	for name, path := range paths {
		delete(m, name)
		JSONPath(m, name, path)
	}
	return m
}

// Objects calls Object for each element of a list.
func Objects[T any](all []T, paths func(T) map[string][]byte) []map[string]any {
	out := make([]map[string]any, len(all))
	for i, x := range all {
		out[i] = Object(x, paths(x))
	}
	return out
}
