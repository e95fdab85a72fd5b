package bundle

import (
	"bytes"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cachebro/store/leaf/text"
)

// This file and targets.go find the files and packages of the project that a file refers to. Code
// refers to other files in its imports, a document in its text. These references are edges of the
// project's graph.
//
// Imports are resolved in two steps. The result of the first depends only on the file's bytes, so
// it can be stored with them. The result of the second changes when files appear and disappear:
//
//   - importsOf returns specs, words like "go:cachebro/store" or "js:./util".
//   - importTargets returns the places where the file of a spec may be. The first one that
//     exists counts. A place that ends with a slash is a directory. "**/NAME" is the file
//     of that name in any directory, if there is only one.
//
// Go files are parsed. In other languages, regular expressions find the import lines. A spec for
// something outside the project leads to no existing place.

const maxSpecs = 500

// importsOf returns the specs of a file, sorted, each once.
func importsOf(p string, content []byte) []string {
	var out []string
	add := func(lang, spec string) {
		if spec != "" && len(spec) < 300 && len(out) < maxSpecs && !strings.ContainsAny(spec, "\x00\n") {
			out = append(out, lang+":"+spec)
		}
	}
	switch path.Ext(p) {
	case ".go":
		goImports(content, add)
	case ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts", ".vue", ".svelte":
		each(jsImport, content, func(m []string) {
			if s := m[1] + m[2]; strings.HasPrefix(s, ".") || strings.HasPrefix(s, "@/") || strings.HasPrefix(s, "~/") {
				add("js", s)
			}
		})
	case ".py", ".pyi":
		python(content, add)
	case ".rs":
		each(rustMod, content, func(m []string) { add("rsmod", m[1]) })
		each(rustUse, content, func(m []string) { add("rs", m[1]) })
	case ".java", ".kt", ".kts", ".scala", ".groovy":
		if m := jvmPackage().FindSubmatch(content); m != nil {
			own := string(m[1])
			each(jvmImport, content, func(m []string) { add("jvm", own+" "+m[1]) })
		}
	case ".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".hh", ".m", ".mm", ".cu":
		each(cInclude, content, func(m []string) { add("c", m[1]) })
	case ".rb":
		each(rubyRequire, content, func(m []string) { add(map[bool]string{true: "rbrel", false: "rb"}[m[1] != ""], m[2]) })
	case ".php":
		each(phpRequire, content, func(m []string) { add("rel", strings.TrimPrefix(m[1], "/")) })
	case ".css", ".scss", ".less":
		each(cssImport, content, func(m []string) { add("css", m[1]) })
	case ".proto":
		each(protoImport, content, func(m []string) { add("c", m[1]) })
	case ".sh", ".bash", ".zsh":
		each(shSource, content, func(m []string) { add("rel", m[1]) })
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func each(re func() *regexp.Regexp, content []byte, f func(m []string)) {
	for _, m := range re().FindAllSubmatch(content, 2*maxSpecs) {
		s := make([]string, len(m))
		for i := range m {
			s[i] = string(m[i])
		}
		f(s)
	}
}

var (
	jsImport    = text.LazyRegexp(`(?m)(?:\bfrom|^\s*import|\brequire\s*\(|\bimport\s*\()\s*(?:'([^'\n]+)'|"([^"\n]+)")`)
	rustMod     = text.LazyRegexp(`(?m)^\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+([A-Za-z_]\w*)\s*;`)
	rustUse     = text.LazyRegexp(`(?m)^\s*(?:pub(?:\([^)]*\))?\s+)?use\s+((?:crate|super|self)(?:::\w+)+)`)
	jvmPackage  = text.LazyRegexp(`(?m)^\s*package\s+([\w.]+)`)
	jvmImport   = text.LazyRegexp(`(?m)^\s*import\s+(?:static\s+)?([\w.]+)`)
	cInclude    = text.LazyRegexp(`(?m)^\s*#\s*(?:include|import)\s*[<"]([^">\n]+)[">]`)
	rubyRequire = text.LazyRegexp(`(?m)^\s*require(_relative)?\s*\(?\s*['"]([^'"\n]+)['"]`)
	phpRequire  = text.LazyRegexp(`(?m)\b(?:require|include)(?:_once)?\s*\(?\s*(?:__DIR__\s*\.\s*)?['"]([^'"\n]+)['"]`)
	cssImport   = text.LazyRegexp(`(?m)@(?:import|use|forward)\s+(?:url\()?['"]([^'"\n]+)['"]`)
	protoImport = text.LazyRegexp(`(?m)^\s*import\s+(?:public\s+|weak\s+)?"([^"\n]+)"`)
	shSource    = text.LazyRegexp(`(?m)^\s*(?:\.|source)\s+["']?([\w./-]+)`)
	pyImport    = text.LazyRegexp(`(?m)^[ \t]*import[ \t]+([\w.]+(?:[ \t]*(?:as[ \t]+\w+)?[ \t]*,[ \t]*[\w.]+)*)`)
	pyFrom      = text.LazyRegexp(`(?m)^[ \t]*from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n#]*)`)
	pyWord      = text.LazyRegexp(`^\w+`)
)

func goImports(content []byte, add func(lang, spec string)) {
	f, err := parser.ParseFile(token.NewFileSet(), "", content, parser.ImportsOnly)
	if f == nil || err != nil && len(f.Imports) == 0 {
		return
	}
	for _, i := range f.Imports {
		if s, err := strconv.Unquote(i.Path.Value); err == nil {
			add("go", s)
		}
	}
}

// python finds the imports of a Python file. "from a.b import c" may mean the module a.b or
// the module a.b.c.
func python(content []byte, add func(lang, spec string)) {
	each(pyImport, content, func(m []string) {
		for part := range strings.SplitSeq(m[1], ",") {
			if f := strings.Fields(part); len(f) > 0 {
				add("py", f[0])
			}
		}
	})
	each(pyFrom, content, func(m []string) {
		add("py", m[1])
		for part := range strings.SplitSeq(strings.Trim(m[2], "()"), ",") {
			if w := pyWord().FindString(strings.TrimSpace(part)); w != "" {
				if strings.Trim(m[1], ".") == "" {
					add("py", m[1]+w)
				} else {
					add("py", m[1]+"."+w)
				}
			}
		}
	})
}

// Module is a directory with a go.mod, and the import path that the go.mod gives it.
type Module struct {
	Dir  string `cbor:"1,keyasint"` // "" or with a final slash
	Name string `cbor:"2,keyasint"`
}

var goModule = text.LazyRegexp(`(?m)^module\s+"?([^\s"]+)`)

// moduleOf reads a go.mod.
func moduleOf(p string, content []byte) (Module, bool) {
	if path.Base(p) != "go.mod" {
		return Module{}, false
	}
	m := goModule().FindSubmatch(content)
	if m == nil {
		return Module{}, false
	}
	return Module{Dir: dirOf(p), Name: string(m[1])}, true
}

// Mention is a path that a document names.
type Mention struct {
	Spec string `cbor:"1,keyasint"`
	Line int    `cbor:"2,keyasint"`
}

var (
	pathLike = text.LazyRegexp(`(?:\.{1,2}/)*[\w@.+\-]*[\w@+\-](?:/[\w@.+\-]+)*/?`)
	known    = text.LazyRegexp(`\.(?:go|js|jsx|mjs|cjs|ts|tsx|py|rs|java|kt|scala|c|h|cc|cpp|hpp|rb|php|sh|css|scss|proto|sql|md|rst|txt|toml|ya?ml|json|swift|cs|lua|ex|exs|zig|vue|svelte|mod)$`)
)

const maxMentions = 300

// mentions returns the words of a text that may be paths of the project, each with the first line
// that contains it. Web addresses are left out.
func mentions(content []byte) []Mention {
	var out []Mention
	seen := map[string]bool{}
	for i, line := range bytes.Split(content, []byte{'\n'}) {
		if len(line) > 2000 {
			line = line[:2000]
		}
		for _, at := range pathLike().FindAllIndex(line, -1) {
			beginsEarlier := at[0] > 0 && bytes.IndexByte([]byte("/:~*"), line[at[0]-1]) >= 0
			rest := line[at[1]:]
			if beginsEarlier || bytes.HasPrefix(rest, []byte("*")) || bytes.HasPrefix(rest, []byte("://")) {
				continue
			}
			w := strings.TrimPrefix(strings.TrimRight(string(line[at[0]:at[1]]), "."), "./")
			usualLength := 3 <= len(w) && len(w) <= 200
			if !usualLength || seen[w] || !strings.Contains(w, "/") && !known().MatchString(w) {
				continue
			}
			seen[w] = true
			out = append(out, Mention{"doc:" + w, i + 1})
			if len(out) == maxMentions {
				return out
			}
		}
	}
	return out
}
