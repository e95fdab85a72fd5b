package search

import (
	"fmt"
	"strings"
	"testing"
)

// TestGoSymbols: functions are found without reading their bodies, even if a body does not end
// where it seems to end.
func TestGoSymbols(t *testing.T) {
	bt := "`"
	for _, c := range []struct{ name, text, want string }{
		{"bodies", "package p\n\n// A is one.\nfunc A(x int) int {\n\tif x > 0 {\n\t\treturn 1\n\t}\n\treturn 2\n}\n\nfunc (t *T) B() {\n} // done\nfunc C() {}\n\nfunc D() {\n\n}", "A func 3-9 func A(x int) int; B method 11-12 func (t *T) B(); C func 13-13 func C(); D func 15-17 func D()"},
		{"several lines", "package p\n\nfunc A(\n\tx int,\n) {\n\tx++\n}\n\ntype T struct {\n\tn int\n}\n\nvar v = func() {\n\tA(1)\n}\n", "A func 3-7 func A( x int, ); T type 9-11 type T struct; v var 13-15 var v = func()"},
		{"raw string", "package p\n\nfunc A() string {\n\treturn " + bt + "\n}\nfunc X() {\n" + bt + "\n}\n\nfunc B() {\n}\n", "A func 3-8 func A() string; B func 10-11 func B()"},
		{"comment", "package p\n\nfunc A() {\n\t/*\n}\nfunc X() {\n\t*/\n}\n\nfunc B() {\n}\n", "A func 3-8 func A(); B func 10-11 func B()"},
		{"not whole", "package p\n\nfunc A() {\n\treturn\n}\n\nfunc B() {\n\tfor {\n", "A func 3-5 func A(); B func 7-8 func B()"},
		{"carriage returns", "package p\r\n\r\nfunc A() {\r\n\treturn\r\n}\r\n\r\nfunc B() {\r\n}\r\n", "A func 3-5 func A(); B func 7-8 func B()"},
	} {
		var got []string
		for _, s := range goSymbols([]byte(c.text)) {
			got = append(got, fmt.Sprintf("%s %s %d-%d %s", s.Name, s.Kind, s.First, s.Last, s.Signature))
		}
		if g := strings.Join(got, "; "); g != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, g, c.want)
		}
	}
}
