package daemon

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"cachebro/store/wire"
)

// Each method of package wire has exactly one service that answers it, and services answer no other
// methods.
func TestEachMethodHasOneHandler(t *testing.T) {
	p := newProject(t)
	d, err := open(context.Background(), p.opt, p.state)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.close(); err != nil {
			t.Error(err)
		}
	})
	methods := wireMethods(t)
	delete(methods, wire.MHello) // answered by the server itself
	for m := range methods {
		if d.table[m] == nil {
			t.Errorf("nobody answers %q", m)
		}
	}
	for m := range d.table {
		if !methods[m] {
			t.Errorf("%q is answered and is no method of the wire", m)
		}
	}
}

func TestTwoHandlersOfAMethodAreRefused(t *testing.T) {
	h := func(context.Context, *wire.Request) (any, []byte, error) { return nil, nil, nil }
	one := map[string]wire.Handler{"a": h, "b": h}
	if all, err := merge(one, map[string]wire.Handler{"c": h}); err != nil || len(all) != 3 {
		t.Errorf("%d methods, %v", len(all), err)
	}
	if _, err := merge(one, map[string]wire.Handler{"b": h}); err == nil || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("two handlers of one method: %v", err)
	}
}

// wireMethods returns the values of package wire's constants M….
func wireMethods(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("../../../store/wire/*.go")
	if err != nil {
		t.Fatal(err)
	}
	methods := map[string]bool{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			name := spec.Names[0].Name
			lit, ok := spec.Values[0].(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING || len(name) < 2 || name[0] != 'M' || strings.ToUpper(name[1:2]) != name[1:2] {
				return true
			}
			if m, err := strconv.Unquote(lit.Value); err == nil {
				methods[m] = true
			}
			return true
		})
	}
	if len(methods) < 20 {
		t.Fatalf("only %d methods found in package wire", len(methods))
	}
	return methods
}
