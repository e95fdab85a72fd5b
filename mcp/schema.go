package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
)

// handler is a tool's function and its arguments' type.
type handler struct {
	args reflect.Type
	run  func(context.Context, *call) (*mcp.CallToolResult, error)
}

// noArgs are the arguments of a tool that takes none.
type noArgs struct{}

// with makes a handler of a function whose arguments are a struct. The struct's tags say what bind
// accepts and what the schema lists.
//
//	json:"path,required"  the argument's name; required: a call without it is refused
//	default:"20"          the value of a call that does not give it, listed in the schema
//	unlisted:"20"         the same, but not listed
//	doc:"…"               its description in the schema
//	alias:"ref_id"        another name that is understood and not listed
//	list:"lean"           listed in every profile; other arguments are listed only if the tool has no lean form
//	list:"never"          accepted but not listed; the answers for which it is useful mention it
func with[A any](run func(context.Context, *call, A) (*mcp.CallToolResult, error)) handler {
	return handler{args: reflect.TypeFor[A](), run: func(ctx context.Context, c *call) (*mcp.CallToolResult, error) {
		var a A
		if err := bind(c.req, &a); err != nil {
			return nil, err
		}
		return run(ctx, c, a)
	}}
}

// patterns is a list of strings. The schema declares one string, the usual case, but a list is
// accepted.
type patterns []string

type field struct {
	name, alias string
	required    bool
	def         string // as JSON
	listDef     bool   // in the schema
	doc, listed string
	typ         reflect.Type
}

func fieldOf(f reflect.StructField) field {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	def, listDef := f.Tag.Lookup("default")
	if !listDef {
		def = f.Tag.Get("unlisted")
	}
	if def != "" && f.Type.Kind() == reflect.String {
		def = quoted(def)
	}
	return field{name: name, alias: f.Tag.Get("alias"), required: options == "required",
		def: def, listDef: listDef, doc: f.Tag.Get("doc"), listed: f.Tag.Get("list"), typ: f.Type}
}

// schemaOf returns the JSON Schema of a struct, with the fields in order. A lean schema leaves out
// the fields without the tag lean and the list of required fields. A call without a required
// argument gets an error that names it.
func schemaOf(t reflect.Type, lean bool) json.RawMessage {
	var properties, required []string
	for i := range t.NumField() {
		f := fieldOf(t.Field(i))
		if f.listed == "never" || lean && f.listed != "lean" {
			continue
		}
		properties = append(properties, quoted(f.name)+":{"+f.schema()+"}")
		if f.required && !lean {
			required = append(required, quoted(f.name))
		}
	}
	s := `{"type":"object","properties":{` + strings.Join(properties, ",") + "}"
	if len(required) > 0 {
		s += `,"required":[` + strings.Join(required, ",") + "]"
	}
	return json.RawMessage(s + "}")
}

func (f field) schema() string {
	s := typeSchema(f.typ)
	if f.listDef {
		s += `,"default":` + f.def
	}
	if f.doc != "" {
		s += `,"description":` + quoted(f.doc)
	}
	return s
}

func typeSchema(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return typeSchema(t.Elem())
	case reflect.String:
		return `"type":"string"`
	case reflect.Bool:
		return `"type":"boolean"`
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return `"type":"integer"`
	case reflect.Float64:
		return `"type":"number"`
	case reflect.Struct:
		return `"type":"object"`
	case reflect.Slice:
		if t == reflect.TypeFor[patterns]() {
			return `"type":"string"`
		}
		return `"type":"array","items":{` + typeSchema(t.Elem()) + "}"
	}
	panic(fmt.Sprintf("no schema for %s", t))
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string can always be encoded
	}
	return string(b)
}

// bind decodes a call's arguments into *into, a struct with the tags of with. Models get details
// wrong, so "10" is accepted for 10 and "true" for true. An unknown or ill-typed argument is an
// error that lists the existing names, because ignoring `limit` would give a wrong answer.
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
			return badInput("unknown argument "+quote(given), "arguments are "+cmp.Or(strings.Join(names, ", "), "not accepted here"))
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
		if json.Unmarshal(val, &n) == nil && n != "" { // a number without quotes, as in "version": 3
			f.SetString(n.String())
			return nil
		}
		return fmt.Errorf("a string is expected")
	case reflect.Int:
		if !isText {
			text = string(val)
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || n != math.Trunc(n) {
			return fmt.Errorf("a whole number is expected")
		}
		if math.Abs(n) > 1<<40 {
			return fmt.Errorf("the number is too large")
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
			val = []byte(text) // the list is a string that contains JSON
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
