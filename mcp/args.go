package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
)

// bind decodes a call's arguments into *into, a struct with the tags of with. Models get details
// wrong, so "10" is accepted for 10 and "true" for true. An unknown or ill-typed argument is
// refused with the existing names, because ignoring `limit` would give a wrong answer.
func bind(req mcp.CallToolRequest, into any) error {
	raw, ok := req.GetRawArguments().(json.RawMessage)
	if !ok {
		b, err := json.Marshal(req.Params.Arguments)
		if err != nil {
			return badInput("arguments are not JSON", "")
		}
		raw = b
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		raw = []byte("{}")
	}
	var args map[string]json.RawMessage
	if err := json.Unmarshal(raw, &args); err != nil {
		return badInput("arguments are not a JSON object", "")
	}
	v := reflect.ValueOf(into).Elem()
	var names []string
	for i := range v.NumField() {
		f := fieldOf(v.Type().Field(i))
		names = append(names, f.name)
		val, given := args[f.name], f.name
		if f.alias != "" {
			names = append(names, f.alias)
			if absent(val) {
				val, given = args[f.alias], f.alias
			}
		}
		if absent(val) && f.required {
			return badInput("argument "+f.name+" is missing", "")
		}
		if absent(val) {
			val = json.RawMessage(f.def)
		}
		if len(val) == 0 {
			continue
		}
		if err := set(v.Field(i), val); err != nil {
			return badInput(fmt.Sprintf("argument %s: %v", given, err), "")
		}
	}
	for given := range args {
		if !slices.Contains(names, given) {
			return badInput("unknown argument "+quote(given), "arguments are "+strings.Join(names, ", "))
		}
	}
	return nil
}

// absent reports whether an argument was left out or is null.
func absent(val json.RawMessage) bool {
	val = bytes.TrimSpace(val)
	return len(val) == 0 || bytes.Equal(val, []byte("null"))
}

func set(f reflect.Value, val json.RawMessage) error {
	var text string
	isText := json.Unmarshal(val, &text) == nil
	switch f.Kind() {
	case reflect.String:
		if isText {
			f.SetString(text)
			return nil
		}
		var n json.Number
		if json.Unmarshal(val, &n) == nil && n != "" { // version: 3
			f.SetString(n.String())
			return nil
		}
		return fmt.Errorf("a string is expected")
	case reflect.Int:
		if !isText {
			text = string(val)
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || n != math.Trunc(n) || math.Abs(n) > 1<<40 {
			return fmt.Errorf("a whole number is expected")
		}
		f.SetInt(int64(n))
	case reflect.Bool, reflect.Pointer:
		if !isText {
			text = string(val)
		}
		b, err := strconv.ParseBool(strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf("true or false is expected")
		}
		if f.Kind() == reflect.Pointer {
			f.Set(reflect.ValueOf(&b))
		} else {
			f.SetBool(b)
		}
	case reflect.Slice:
		if isText && strings.HasPrefix(strings.TrimSpace(text), "[") {
			val = []byte(text) // a list encoded twice
		} else if isText {
			f.Set(reflect.ValueOf([]string{text}))
			return nil
		}
		var list []string
		if err := json.Unmarshal(val, &list); err != nil {
			return fmt.Errorf("a list of strings is expected")
		}
		f.Set(reflect.ValueOf(list))
	default:
		panic("argument of kind " + f.Kind().String())
	}
	return nil
}
