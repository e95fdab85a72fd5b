package bundle

import (
	"slices"
	"strings"
	"testing"
)

// Each case is a small project: the text of one file, the files that exist, and which of them it
// refers to.
func TestWhatAFileMeans(t *testing.T) {
	mods := []Module{{"", "example.org/app"}, {"tools/", "example.org/app/tools"}}
	for _, c := range []struct{ from, content, files, want string }{
		{"a/x.go", "package a\nimport (\n\t\"fmt\"\n\tb \"example.org/app/b/c\"\n\t\"example.org/app/tools/gen\"\n)\n", "b/c/ tools/gen/ fmt/", "b/c/ tools/gen/"},
		{"src/a.ts", "import {x} from './b'\nexport * from \"../lib/c.js\"\nimport React from 'react'\nconst d = require('./d')\nawait import('./e')\nimport '@/f'\n", "src/b.ts lib/c.ts src/d/index.js src/e.tsx src/f.ts react.ts", "lib/c.ts src/b.ts src/d/index.js src/e.tsx src/f.ts"},
		{"pkg/sub/m.py", "import os, pkg.util as u\nfrom . import near\nfrom ..top import (one,\n  two)\nfrom pkg.other import thing  # c\nfrom .. import x\n", "pkg/util.py pkg/sub/near.py pkg/top/one.py pkg/top.py pkg/other/__init__.py pkg/x.py os.txt", "pkg/other/__init__.py pkg/sub/near.py pkg/top.py pkg/top/one.py pkg/util.py pkg/x.py"},
		{"src/lib.rs", "mod a;\npub mod b;\nuse crate::c::Item;\nuse std::fmt;\n", "src/a.rs src/b/mod.rs src/c.rs", "src/a.rs src/b/mod.rs src/c.rs"},
		{"src/a.rs", "mod inner;\nuse super::b::f;\n", "src/a/inner.rs src/b.rs", "src/a/inner.rs src/b.rs"},
		{"src/main/java/org/x/A.java", "package org.x;\nimport org.x.y.B;\nimport static org.x.C.f;\nimport java.util.List;\n", "src/main/java/org/x/y/B.java src/main/java/org/x/C.java", "src/main/java/org/x/C.java src/main/java/org/x/y/B.java"},
		{"src/a.c", "#include \"a.h\"\n#include <sys/b.h>\n#include <stdio.h>\n", "src/a.h include/sys/b.h", "include/sys/b.h src/a.h"},
		{"lib/a.rb", "require_relative 'b'\nrequire 'c/d'\nrequire 'json'\n", "lib/b.rb lib/c/d.rb", "lib/b.rb lib/c/d.rb"},
		{"css/a.scss", "@use 'b';\n@import \"c.css\";\n", "css/_b.scss css/c.css", "css/_b.scss css/c.css"},
		{"bin/a.sh", ". ./b.sh\nsource lib/c.sh\n", "bin/b.sh lib/c.sh", "bin/b.sh lib/c.sh"},
		{"a/broken.go", "package a\nimport \"example.org/app/b\"\nfunc {", "b/", "b/"},
	} {
		var got []string
		have := strings.Fields(c.files)
		for _, spec := range importsOf(c.from, []byte(c.content)) {
			for _, at := range importTargets(c.from, spec, mods) {
				if slices.Contains(have, at) {
					got = append(got, at)
					break
				}
			}
		}
		slices.Sort(got)
		if g := strings.Join(slices.Compact(got), " "); g != c.want {
			t.Errorf("%s: got %s, want %s\nspecs %q", c.from, g, c.want, importsOf(c.from, []byte(c.content)))
		}
	}
}

func TestMentions(t *testing.T) {
	text := "See `src/auth/login.go` and [the map](./map.md).\nhttps://example.org/a/b.go is not ours, nor ~/x/y.go, nor and/or... maybe.\nThe tests: tests/*.py, src/auth/. Also parser.go, again parser.go.\n"
	var got []string
	for _, m := range mentions([]byte(text)) {
		got = append(got, m.Spec)
		if strings.Contains(m.Spec, "parser") && m.Line != 3 {
			t.Errorf("%+v", m)
		}
	}
	if g, want := strings.Join(got, " "), "doc:src/auth/login.go doc:map.md doc:and/or doc:src/auth/ doc:parser.go"; g != want {
		t.Errorf("got  %s\nwant %s", g, want)
	}
	if got := importTargets("docs/a.md", "doc:parser.go", nil); !slices.Equal(got, []string{"parser.go", "docs/parser.go", "parser.go/", "docs/parser.go/", "**/parser.go"}) {
		t.Errorf("%q", got)
	}
	// No spec leads to a file outside the project.
	for _, spec := range []string{"doc:../../x.go", "js:../../../x", "c:/etc/passwd", "py:.....x", "rel:../../x"} {
		for _, at := range importTargets("a/b.md", spec, nil) {
			if strings.HasPrefix(at, "/") || strings.HasPrefix(at, "..") {
				t.Errorf("%s leads to %s", spec, at)
			}
		}
	}
}

func TestModuleOf(t *testing.T) {
	if m, ok := moduleOf("tools/go.mod", []byte("// c\nmodule \"example.org/x\" // y\n\ngo 1.26\n")); !ok || m != (Module{"tools/", "example.org/x"}) {
		t.Errorf("%+v %v", m, ok)
	}
	if _, ok := moduleOf("go.sum", []byte("module x\n")); ok {
		t.Error("not a go.mod")
	}
}
