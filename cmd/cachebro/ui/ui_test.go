package ui

import (
	"html/template"
	"reflect"
	"strings"
	"testing"
	"text/template/parse"
)

// shown has a value of each type that is passed to a template.
var shown = []any{shell{}, timelinePage{}, actionsPart{}, []fileRow{}, lanesPart{}, diffPart{}, planPart{}, donePart{}, filesPage{}, filePage{}, searchPage{}, hitsPart{}, savingsPage{}, storagePart{}, healthPart{}, sincePart{}, commentPart{}, prunePart{}, treePart{}, projectsPage{}, problem{}}

// TestTemplatesCallNoMethods: the released packages are built with a text/template that cannot
// call methods (see scripts/dist).
func TestTemplatesCallNoMethods(t *testing.T) {
	fields := map[string]bool{}
	var walk func(reflect.Type)
	seen := map[reflect.Type]bool{}
	walk = func(x reflect.Type) {
		if seen[x] {
			return
		}
		seen[x] = true
		if n := x.NumMethod() + reflect.PointerTo(x).NumMethod(); n > 0 && x.Kind() != reflect.Interface {
			t.Errorf("%v has methods, which a template might call", x)
		}
		switch x.Kind() {
		case reflect.Slice, reflect.Array, reflect.Pointer, reflect.Map:
			walk(x.Elem())
		case reflect.Struct:
			for i := range x.NumField() {
				fields[x.Field(i).Name] = true
				walk(x.Field(i).Type)
			}
		}
	}
	for _, v := range shown {
		walk(reflect.TypeOf(v))
	}
	pages, err := template.New("").Funcs(template.FuncMap{"link": link}).ParseFS(templateFiles, "templates/*.html")
	if err != nil {
		t.Fatal(err)
	}
	used := 0
	check := func(page string, names []string) {
		for _, n := range names {
			if used++; !fields[n] {
				t.Errorf("%s uses .%s, which is no field of what templates are given", page, n)
			}
		}
	}
	for _, p := range pages.Templates() {
		if p.Tree == nil {
			continue
		}
		var look func(reflect.Value)
		look = func(v reflect.Value) { // there are too many kinds of nodes to name
			if !v.IsValid() {
				return
			}
			if v.CanInterface() {
				switch n := v.Interface().(type) {
				case *parse.FieldNode:
					check(p.Name(), n.Ident)
					return
				case *parse.VariableNode:
					check(p.Name(), n.Ident[1:])
					return
				case *parse.Tree:
					return
				}
			}
			switch v.Kind() {
			case reflect.Pointer, reflect.Interface:
				look(v.Elem())
			case reflect.Slice:
				for i := range v.Len() {
					look(v.Index(i))
				}
			case reflect.Struct:
				for i := range v.NumField() {
					if v.Type().Field(i).IsExported() {
						look(v.Field(i))
					}
				}
			}
		}
		look(reflect.ValueOf(p.Tree.Root))
	}
	if used < 100 {
		t.Errorf("only %d names found in the templates", used)
	}
}

// TestLine: control characters become visible, tokens coloured, and changes marked.
func TestLine(t *testing.T) {
	for _, x := range []struct {
		name, text string
		colours    []span
		marks      []mark
		want       string
	}{
		{"plain", "a\tb\n", nil, nil, "a\tb"},
		{"markup", `<a href="x">&'`, nil, nil, "&#60;a href=&#34;x&#34;&#62;&#38;&#39;"},
		{"controls", "\x1b[0m\x00\x7f\r\n", nil, nil, `<i class="ctl">^[</i>[0m<i class="ctl">^@</i><i class="ctl">^?</i><i class="ctl">^M</i>`},
		{"direction", "a\u202eb\u2066c\u200b", nil, nil, `a<i class="ctl">&lt;U+202E&gt;</i>b<i class="ctl">&lt;U+2066&gt;</i>c<i class="ctl">&lt;U+200B&gt;</i>`},
		{"no UTF-8", "a\xff\xc3", nil, nil, `a<i class="ctl">&lt;FF&gt;</i><i class="ctl">&lt;C3&gt;</i>`},
		{"colours and marks", "if x", []span{{2, "k"}, {4, ""}}, []mark{{1, 4}}, `<span class="k">i</span><mark><span class="k">f</span></mark><mark> x</mark>`},
	} {
		if got := line([]byte(x.text), x.colours, x.marks); string(got) != x.want {
			t.Errorf("%s: %s, want %s", x.name, got, x.want)
		}
	}
	if got := line([]byte(strings.Repeat("x", maxLine+7)), nil, nil); !strings.HasSuffix(string(got), "… 7 bytes more</i>") {
		t.Errorf("a long line ends with %s", got[len(got)-60:])
	}
}

// TestColours: each line has colours for exactly its own bytes.
func TestColours(t *testing.T) {
	for name, text := range map[string]string{
		"a.go":   "package x\n\n/* a\nb */\nfunc F() string { return `one\ntwo` }\n",
		"b.py":   "def f(x):\n    return \"s\" # c\n",
		"c.html": "<p>a</p>\n<script>let x = 1</script>\n<style>p { color: red }</style>\n",
		"d.ts":   "export const a: number = 1\n",
		"e.sh":   "for i in a b; do echo \"$i\"; done\n",
	} {
		all := colour("dir/"+name, []byte(text))
		lines := strings.Split(text, "\n")
		if len(all) < len(lines)-1 {
			t.Fatalf("%s: %d lines of colours for %d", name, len(all), len(lines))
		}
		classes := map[string]bool{}
		for i, l := range lines {
			if i >= len(all) {
				break
			}
			end := 0
			for _, s := range all[i] {
				end = s.end
				classes[s.class] = true
			}
			if end != len(l) {
				t.Errorf("%s:%d: colours for %d bytes of %d", name, i+1, end, len(l))
			}
		}
		if !classes["k"] && !classes["f"] {
			t.Errorf("%s: only %v", name, classes)
		}
	}
	for name, text := range map[string]string{"a.unknown": "x\n", "b.go": "\xff\n", "c.go": strings.Repeat("x\n", maxColoured)} {
		if all := colour(name, []byte(text)); all != nil {
			t.Errorf("%s is coloured", name)
		}
	}
}
