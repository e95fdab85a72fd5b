package bundle

import (
	"path"
	"strings"
)

var jsExts = []string{".ts", ".tsx", ".d.ts", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts", ".json", ".vue", ".svelte", ".css"}

// importTargets lists the paths that an import, written as spec in the file from, may refer to. mods
// are the project's Go modules.
func importTargets(from, spec string, mods []Module) []string {
	lang, s, _ := strings.Cut(spec, ":")
	dir := dirOf(from)
	var out []string
	add := func(parts ...string) {
		p := strings.Join(parts, "")
		c := path.Clean(p)
		if strings.HasPrefix(c, "../") || c == ".." || c == "." || strings.HasPrefix(c, "/") {
			return
		}
		if strings.HasSuffix(p, "/") {
			c += "/"
		}
		if c != from {
			out = append(out, c)
		}
	}
	switch lang {
	case "go":
		goTargets(s, mods, add)
	case "js":
		jsTargets(dir, s, add)
	case "py":
		pyTargets(dir, s, add)
	case "rsmod":
		base := path.Base(from)
		if base != "mod.rs" && base != "lib.rs" && base != "main.rs" {
			add(strings.TrimSuffix(from, ".rs"), "/", s, ".rs")
			add(strings.TrimSuffix(from, ".rs"), "/", s, "/mod.rs")
		}
		add(dir, s, ".rs")
		add(dir, s, "/mod.rs")
	case "rs":
		rustTargets(from, s, add)
	case "jvm":
		jvmTargets(dir, s, add)
	case "c":
		add(dir, s)
		add(s)
		for _, root := range []string{"include/", "src/", "proto/", "protos/"} {
			add(root, s)
			if top, _, ok := strings.Cut(dir, "/"); ok {
				add(top, "/", root, s)
			}
		}
	case "rbrel":
		add(dir, s, ".rb")
	case "rb":
		add("lib/", s, ".rb")
		add("app/", s, ".rb")
	case "css":
		base := path.Join(path.Dir(s), "_"+path.Base(s))
		for _, ext := range []string{"", ".css", ".scss", ".less"} {
			add(dir, s, ext)
			add(dir, base, ext)
		}
	case "rel":
		add(dir, s)
		add(s)
	case "doc":
		s, slash := strings.TrimSuffix(s, "/"), strings.HasSuffix(s, "/")
		if !slash {
			add(s)
			add(dir, s)
		}
		add(s, "/")
		add(dir, s, "/")
		if !slash && !strings.Contains(s, "/") && s != "README.md" {
			out = append(out, "**/"+s)
		}
	}
	return out
}

func goTargets(s string, mods []Module, add func(...string)) {
	best := -1
	for i, m := range mods { // the longest name wins: modules may be nested
		if (s == m.Name || strings.HasPrefix(s, m.Name+"/")) && (best < 0 || len(m.Name) > len(mods[best].Name)) {
			best = i
		}
	}
	if best >= 0 {
		add(mods[best].Dir, strings.TrimPrefix(strings.TrimPrefix(s, mods[best].Name), "/"), "/")
	}
}

func jsTargets(dir, s string, add func(...string)) {
	bases := []string{path.Join(dir, s)}
	if rest, ok := strings.CutPrefix(s, "@/"); ok {
		bases = []string{"src/" + rest, rest}
	} else if rest, ok := strings.CutPrefix(s, "~/"); ok {
		bases = []string{"src/" + rest, rest}
	}
	for _, b := range bases {
		if path.Ext(b) != "" {
			add(b)
		}
		if stem, ok := strings.CutSuffix(b, ".js"); ok { // TypeScript imports name the compiled file
			add(stem, ".ts")
			add(stem, ".tsx")
		}
		for _, e := range jsExts {
			add(b, e)
		}
		for _, e := range jsExts {
			add(b, "/index", e)
		}
	}
}

func pyTargets(dir, s string, add func(...string)) {
	up := len(s) - len(strings.TrimLeft(s, "."))
	mod := strings.ReplaceAll(s[up:], ".", "/")
	var roots []string
	if up > 0 {
		d := strings.TrimSuffix(dir, "/")
		for range up - 1 {
			if d == "" {
				return
			}
			d = strings.TrimSuffix(dirOf(d), "/")
		}
		roots = []string{d}
	} else {
		roots = []string{""}
		for d := strings.TrimSuffix(dir, "/"); d != ""; d = strings.TrimSuffix(dirOf(d), "/") {
			roots = append(roots, d)
		}
		roots = append(roots, "src")
	}
	for _, r := range roots {
		p := path.Join(r, mod)
		if p == "" || p == "." {
			continue
		}
		if mod != "" {
			add(p, ".py")
			add(p, ".pyi")
		}
		add(p, "/__init__.py")
	}
}

func rustTargets(from, s string, add func(...string)) {
	parts := strings.Split(s, "::")
	dir := dirOf(from)
	root := ""
	if i := strings.LastIndex("/"+from, "/src/"); i >= 0 {
		root = from[:i+len("src/")]
	}
	base := path.Base(from)
	own := dir // the directory of this file's sub-modules
	if base != "mod.rs" && base != "lib.rs" && base != "main.rs" {
		own = strings.TrimSuffix(from, ".rs") + "/"
	}
	switch parts[0] {
	case "crate":
		own = root
	case "super":
		own = dirOf(strings.TrimSuffix(own, "/"))
	}
	for n := len(parts) - 1; n >= 1; n-- { // the last words may name an item, not a module
		p := own + strings.Join(parts[1:n+1], "/")
		add(p, ".rs")
		add(p, "/mod.rs")
	}
}

func jvmTargets(dir, s string, add func(...string)) {
	own, imp, _ := strings.Cut(s, " ")
	root, ok := strings.CutSuffix(dir, strings.ReplaceAll(own, ".", "/")+"/")
	if !ok {
		return
	}
	roots := []string{root}
	if other := strings.Replace(root, "src/test/", "src/main/", 1); other != root {
		roots = append(roots, other)
	}
	parts := strings.Split(imp, ".")
	for n := len(parts); n >= max(1, len(parts)-2); n-- { // a.b.C.Inner, a.b.C.method
		for _, r := range roots {
			for _, ext := range []string{".java", ".kt", ".scala"} {
				add(r, strings.Join(parts[:n], "/"), ext)
			}
		}
	}
}
