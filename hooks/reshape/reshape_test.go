package reshape

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// ended returns the lines, each with a newline at its end.
func ended(lines ...string) string { return strings.Join(lines, "\n") + "\n" }

// names are words that paths and lines are made of, some of them hard cases.
var names = []string{"src", "a.go", "doc-2-x", "b c", "sub:dir", "x", "README.md", "12", "-", "--", "ünï", "a-1-b.ts", "node", "lib.d", ".git", "{}", "a:3:b"}

func aPath(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(names), 1, 5).Draw(t, "path"), "/")
}

func aLine(t *rapid.T) string {
	return rapid.OneOf(rapid.SampledFrom([]string{"", "--", "12:x", "12-x", "\tif x {", "a/b.go:3: y", ":", "-", "[cachebro", "x {} y", "../", "Binary file a matches"}), rapid.StringMatching(`[ -~]{0,20}`)).Draw(t, "line")
}

// inverts logs a text that the inverse of a rule does not restore.
func inverts(t *rapid.T, r Rule, c *command, in string) {
	for _, rule := range table {
		if rule.name != r {
			continue
		}
		out, _, ok := rule.do(c, in)
		if !ok {
			return
		}
		if back, ok := rule.undo(out); !ok || back != in {
			// Output leaves such a text alone.
			t.Logf("not inverted: %q → %q → %q", in, out, back)
		}
	}
}

// Each rule that rearranges text has an inverse for all texts that tools really print.
func TestInverses(t *testing.T) {
	must := func(t *rapid.T, r Rule, c *command, in string) {
		for _, rule := range table {
			if rule.name == r {
				if out, _, ok := rule.do(c, in); ok {
					if back, ok := rule.undo(out); !ok || back != in {
						t.Fatalf("%s: %q\n→ %q\n→ %q, %v", r, in, out, back, ok)
					}
				}
			}
		}
	}
	plain := rapid.StringMatching(`[a-z_.]{1,8}`)
	path := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(plain, 1, 5).Draw(t, "parts"), "/")
	})
	content := rapid.OneOf(rapid.StringMatching(`[ -~]{0,30}`), rapid.Just("\tx := 1"))
	t.Run("search", rapid.MakeCheck(func(t *rapid.T) {
		c := &command{numbered: rapid.Bool().Draw(t, "numbered")}
		var lines []string
		for range rapid.IntRange(1, 8).Draw(t, "files") {
			p := path.Draw(t, "path")
			for i := range rapid.IntRange(1, 6).Draw(t, "hits") {
				mark := ":"
				if i > 0 && c.numbered {
					mark = rapid.SampledFrom([]string{":", "-"}).Draw(t, "mark")
				}
				if c.numbered {
					lines = append(lines, fmt.Sprintf("%s%s%d%s%s", p, mark, rapid.IntRange(1, 9999).Draw(t, "line"), mark, content.Draw(t, "content")))
				} else {
					lines = append(lines, p+":"+content.Draw(t, "content"))
				}
			}
			if rapid.Bool().Draw(t, "separator") {
				lines = append(lines, "--")
			}
		}
		must(t, Search, c, ended(lines...))
	}))
	t.Run("tree", rapid.MakeCheck(func(t *rapid.T) {
		must(t, Tree, &command{}, ended(rapid.SliceOfN(path, 8, 40).Draw(t, "paths")...))
	}))
	t.Run("repeats", rapid.MakeCheck(func(t *rapid.T) {
		block := rapid.SliceOfN(rapid.StringMatching(`[a-z "\\%]{20,80}`), 3, 6).Draw(t, "block")
		var lines []string
		for range rapid.IntRange(2, 5).Draw(t, "times") {
			lines = append(lines, rapid.SliceOfN(content, 0, 3).Draw(t, "between")...)
			lines = append(lines, block...)
			for range rapid.IntRange(0, 6).Draw(t, "again") {
				lines = append(lines, lines[len(lines)-1])
			}
		}
		must(t, Repeats, &command{}, ended(lines...))
	}))
	t.Run("alike", rapid.MakeCheck(func(t *rapid.T) {
		words := []string{"src/", "app/", "warning: ", "test ", "(1)", "  ", "x", ": ", "ok", "'", "\t", "12:", " - unused", ", value"}
		line := rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 7).Draw(t, "words"), "")
		})
		must(t, Alike, &command{}, ended(rapid.SliceOfN(line, 3, 30).Draw(t, "lines")...))
	}))
	t.Run("numbers", rapid.MakeCheck(func(t *rapid.T) {
		var lines []string
		form := rapid.SampledFrom([]string{"Item %d of 300 in %d ms", "[%d/900] Building C object %d.o", "warn: %03d at %d \"x\""}).Draw(t, "form")
		from, by := rapid.IntRange(0, 100).Draw(t, "from"), rapid.IntRange(0, 2).Draw(t, "by")
		for i := range rapid.IntRange(1, 20).Draw(t, "lines") {
			lines = append(lines, fmt.Sprintf(form, from+i, 7+by*i))
		}
		must(t, Numbers, &command{}, ended(append(lines, content.Draw(t, "after"))...))
	}))
}

// If several blocks begin and end alike, the text refers to the right one by its number.
func TestBlocksHaveNumbers(t *testing.T) {
	block := func(middle string) string {
		return ended("warning: the declaration of this function is deprecated", "note: "+middle+" is declared here and nowhere else in it, and is used in the files that follow below, one a line", "note: it was introduced for the benefit of programs that have long been gone", "note: build the library anew to get rid of this warning")
	}
	in := block("alpha") + "one\n" + block("beta") + "two\n" + block("alpha") + "three\n" + block("beta") + "four\n" + block("alpha")
	r, ok := Output("make", in, Options{})
	if !ok || strings.Count(r.Text, "block 1 again") != 2 || strings.Count(r.Text, "block 2 again") != 1 ||
		!strings.Contains(r.Text, "[cachebro: block 2, 4 lines:]\nwarning: the declaration of this function is deprecated\nnote: beta") {
		t.Fatalf("%v\n%s", ok, r.Text)
	}
	if back, ok := invert(r); !ok || back != in {
		t.Errorf("leads back to\n%s", back)
	}
}

// Passed tests are folded only if the runner says that all of them passed, whatever command started
// the runner. If it crashed, if its output was cut off, or if it reported a failure in words that
// we do not know, everything stays.
func TestPassesAreFoldedWhereAllPassed(t *testing.T) {
	pass := func(format string) string {
		var b strings.Builder
		for i := range 20 {
			fmt.Fprintf(&b, format+"\n", i)
		}
		return b.String()
	}
	goPass := pass("--- PASS: TestNumber%d (0.00s)")
	bun := pass("(pass) adds the number %d to another [0.12ms]")
	vitest := pass(" ✓ src/a.test.js > works for case %d 3ms")
	pytest := pass("tests/test_a.py::test_case_%d PASSED             [ 10%%]")
	for _, x := range []struct {
		command, printed string
		folded           bool
	}{
		{"mise run test", "[test] $ go test -v ./...\n" + goPass + "PASS\nok  \tx\t0.1s\n", true},
		{"mise run test lint", pass("[test] --- PASS: TestNumber%d (0.00s)") + "[test] PASS\n[test] ok  \tx\t0.1s\n[lint] fine\n", true},
		{"make check", goPass + "PASS\nok  \tx\t(cached)\n", true},
		{"just ci", pytest + "\n============================== 20 passed in 0.40s ==============================\n", true},
		{"npm run ci", vitest + "\n Test Files  1 passed (1)\n      Tests  20 passed (20)\n", true},
		{"bun test", bun + "\n 20 pass\n 0 fail\n 40 expect() calls\n", true},
		{"git commit -m \"$(cat <<'EOF'\nOne line\n\nMore.\nEOF\n)\"", "Running the tests before the commit\n" + goPass + "PASS\nok  \tx\t0.1s\n[main 1234567] One line\n 1 file changed, 1 insertion(+)\n", true},
		{"bun test || true", "(fail) subtracts [1.00ms]\n" + bun + "\n 20 pass\n 1 fail\n", false},
		{"bun test || true", bun + "\n 20 pass\n 1 fail\n", false},
		{"npx vitest run || true", vitest + " ❯ src/a.test.js > breaks\n", false},
		{"npx vitest run || true", vitest + " ❯ src/a.test.js > breaks\n\n      Tests  20 passed (20)\n", false},
		{"go test -v ./... || true", goPass + "signal: segmentation violation\n", false},
		{"make test || true", goPass + "PASS\nok  \tx\t0.1s\n" + goPass + "Connection lost\n", false},
		{"python3 -m pytest -v | head -20", pytest, false},
		{"make check | sort -n", goPass + "PASS\nok  \tx\t(cached)\n", true},
		{"make check | sort -n log", goPass + "PASS\nok  \tx\t(cached)\n", false}, // the lines of a file
		// One suite ends without a result, and another passes.
		{"make test || true", pytest + goPass + "PASS\nok  \tx\t0.1s\n", false},
		{"npm test || true", pass("  ✓ adds the number %d to another (2 ms)") + "Disconnected from the worker\n" + pass("  ✓ takes the number %d from another (2 ms)") + "Tests:       20 passed, 20 total\n", false},
		{"make test || true", pytest + "tests/test_b.py: Verbindung verloren\n" + pytest + "============================== 20 passed in 0.40s ==============================\n", false},
		{"cargo test || true", pass("test tests::number_%d ... ok") + pass("test more::number_%d ... ok") + "test result: ok. 20 passed; 0 ignored\n", false},
		{"cargo test", pass("test tests::number_%d ... ok") + "test result: ok. 20 passed; 0 ignored\n" + pass("test more::number_%d ... ok") + "test result: ok. 20 passed; 0 ignored\n", true},
		{"make test", pytest + "============================== 20 passed in 0.40s ==============================\n" + goPass + "PASS\nok  \tx\t0.1s\n", true},
		{"npm test", pass("  ✔ adds the number %d to another") + "\n  20 passing (14ms)\n", true},
		{"python3 -m pytest -v; true", pytest + "====================== 1 failed, 20 passed in 0.40s ======================\n", false},
		{"mise exec -- prog", goPass + "PASS\n", false},
		{"npm run build", pass(" ✓ built chunk number %d of the application") + "done\n", false},
	} {
		r, ok := Output(x.command, x.printed, Options{})
		folded := ok && r.Folded && strings.Contains(r.Text, "passed tests folded")
		if folded != x.folded {
			t.Errorf("%s: folded %v:\n%s\n%s", x.command, folded, x.printed, r.Text)
		}
	}
}

// A text that lines share at their beginning or end is printed once, and the lines are cut only
// between words. Source that a search or git blame shows stays in one piece, and a heading of a
// search stays with its lines.
func TestAlike(t *testing.T) {
	many := func(format string, values ...string) string {
		var b strings.Builder
		for _, v := range values {
			fmt.Fprintf(&b, format+"\n", v)
		}
		return b.String()
	}
	files := []string{"login.ts", "token.ts", "user.ts", "pages/home.ts", "pages/list.ts", "main.ts", "router.ts", "server.ts", "store.ts", "theme.ts",
		"api.ts", "button.ts", "card.ts", "dialog.ts", "events.ts", "form.ts", "grid.ts", "hooks.ts", "icons.ts", "json.ts"}
	pages := "pages/home.ts\n  pages/list.ts\n"
	var blamed, numbered strings.Builder
	for i := range 24 {
		fmt.Fprintf(&blamed, "1a2b3c4d (Ann Other 2024-11-23 02:38:00 +0100 %2d) %s\n", i+1, []string{"func main() {", "\treturn nil, errNotFound", "\t\treturn nil, errNotFound"}[i%3])
		fmt.Fprintf(&numbered, "src/components/dialogs/part%02d.ts:%d:\tthrow new TypeError(`no such thing: ${name}`);\n", i, i+3)
	}
	for _, x := range []struct{ command, printed, want string }{
		{"git add -A", many("warning: in the working copy of 'src/%s', LF will be replaced by CRLF the next time Git touches it", files...),
			"\nwarning: in the working copy of 'src/…', LF will be replaced by CRLF the next time Git touches it\n  login.ts\n  token.ts\n  user.ts\n  " + pages},
		{"git commit -m x", "[main 1a2b3c4] x\n" + many(" create mode 100644 apps/web/src/features/%s", files...) + many(" delete mode 100644 apps/web/old/%s", files...),
			" create mode 100644 apps/web/src/features/…\n   login.ts\n   token.ts\n   user.ts\n   pages/home.ts\n"},
		{"python3 -m pytest -v; true", many("tests/unit/test_models.py::test_round_trip[%s] PASSED", files...) + many("tests/unit/test_models.py::test_loads[%s] FAILED", files...) + "== 20 failed, 20 passed in 0.40s ==\n",
			"tests/unit/test_models.py::…\n  test_round_trip…\n    [login.ts] PASSED\n"},
		{"npx tsc", many("apps/web/src/features/pages/auth.ts(%s,7): error TS2304: Cannot find name 'x'.", "1", "2", "4", "8", "9", "11", "17", "19", "23", "29", "31", "37", "40", "42", "45", "49", "51", "58"),
			"apps/web/src/features/pages/auth.ts…\n  (1,7): error TS2304: Cannot find name 'x'.\n"},
		{"git blame main.go", blamed.String(), "1a2b3c4d (Ann Other 2024-11-23 02:38:00 +0100 …\n   1) func main() {\n   2) \treturn nil, errNotFound\n"},
		{"rg -n TypeError", numbered.String(), "src/components/dialogs/…:\tthrow new TypeError(`no such thing: ${name}`);\n  part00.ts:3\n  part01.ts:4\n"},
		{"rg -n TypeError", many("src/components/dialogs/a.ts:%s:new TypeError(1)", "1", "2", "3", "4", "5") + numbered.String(), "src/components/dialogs/a.ts\n1:new TypeError(1)\n2:new TypeError(1)\n3:new TypeError(1)\n4:new TypeError(1)\n5:new TypeError(1)\nsrc/components/dialogs/…"},
		// Neither a time nor the blanks of a column are cut.
		{"docker logs web", many("web-server  | 2024-11-23T02:38:%s GET /api/items 200", "00", "01", "05", "07", "11", "13", "17", "19", "23", "29", "31", "37", "41", "42", "43", "44", "47", "48", "49", "50", "51", "53", "54", "55", "57", "58", "59", "59", "59", "59", "59", "59", "59", "59", "59", "59", "59"),
			"web-server  | …\n  2024-11-23T02:38:00 GET /api/items 200\n"},
		{"git diff --stat", many(" apps/web/src/features/billing/%-16s | 2 +-", files...), " apps/web/src/features/billing/…\n   login.ts         | 2 +-\n"},
	} {
		r, ok := Output(x.command, x.printed, Options{})
		if !ok || !strings.Contains(r.Text, x.want) {
			t.Errorf("%s: %v\n%s", x.command, ok, r.Text)
			continue
		}
		if back, ok := invert(r); !ok || back != x.printed {
			t.Errorf("%s leads back to\n%s", x.command, back)
		}
	}
	for command, printed := range map[string]string{
		"git blame -p main.go":  strings.Repeat("1a2b3c4d5e6f 1 1 40\nauthor Ann Other\n\tfunc main() {\n", 40),
		"git show HEAD:main.ts": many("import thing from '@/components/ui/%s';", files...),
		"go mod edit -print":    many("\tgithub.com/somebody/%s v1.2.3", files...),
		"systemctl cat web":     many("ExecStart=/usr/lib/somebody/%s", files...),
		"cat main.ts":           many("import thing from '@/components/ui/%s';", files...),
		"git add -A":            many("warning: … in the working copy of 'src/%s', LF will be replaced by CRLF", files...),
	} {
		if r, ok := Output(command, printed, Options{}); ok {
			t.Errorf("%s: %s", command, r.Text)
		}
	}
}

// Lines that differ in numbers that do not count up stay as they are, because nobody could read a
// column of bare numbers.
func TestNoColumnsOfNumbers(t *testing.T) {
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, "Fetched the package %d of 40 (%d kB) from the registry\n", i+1, i*37%83)
	}
	if r, ok := Output("make", b.String(), Options{}); ok {
		t.Errorf("%s", r.Text)
	}
}

// Whatever the text is, a rule is used only if its inverse restores the text, and the result is
// shorter by exactly the reported number of bytes.
func TestOnlyWhatCanBeTakenBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var lines []string
		for range rapid.IntRange(5, 60).Draw(t, "n") {
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				lines = append(lines, fmt.Sprintf("%s:%d:%s", aPath(t), rapid.IntRange(1, 99).Draw(t, "l"), aLine(t)))
			case 1:
				lines = append(lines, aPath(t))
			default:
				lines = append(lines, aLine(t))
			}
		}
		in := ended(lines...)
		for _, c := range []*command{{numbered: true}, {}} {
			for _, r := range []Rule{Search, Tree, Repeats, Numbers, Alike} {
				inverts(t, r, c, in)
			}
		}
		checkResult(t, "rg -n x", in)
		checkResult(t, "find .", in)
		checkResult(t, "make", in)
	})
}

type failer interface {
	Helper()
	Fatalf(string, ...any)
}

// checkResult checks that a result is shorter than its text, and that without folding the text can
// be restored from it.
func checkResult(t failer, line, in string) {
	t.Helper()
	r, ok := Output(line, in, Options{NoFold: true})
	if !ok {
		return
	}
	saved := len(in) - len(r.Text)
	if r.Folded || saved < minSaved || saved*100 < minPart*len(in) || sum(r.Parts) != saved {
		t.Fatalf("%s: %d of %d bytes saved, parts %v, folded %v", line, saved, len(in), r.Parts, r.Folded)
	}
	if back, ok := invert(r); ok && back != in {
		t.Fatalf("%s:\n%s\nbecame\n%s\nand back\n%s", line, in, r.Text, back)
	} else if !ok && r.Parts[0].Rule != Terminal {
		t.Fatalf("%s: not inverted:\n%s", line, r.Text)
	}
}

// invert undoes all rules of a result except the terminal's.
func invert(r Result) (string, bool) {
	out := r.Text
	if h, rest, ok := strings.Cut(out, "\n"); ok && strings.HasPrefix(h, Mark) {
		out = rest
	}
	for i := len(r.Parts) - 1; i >= 0; i-- {
		if r.Parts[i].Rule == Terminal {
			return "", false
		}
		for _, rule := range table {
			if rule.name == r.Parts[i].Rule {
				var ok bool
				if out, ok = rule.undo(out); !ok {
					return "", false
				}
			}
		}
	}
	return out, true
}

func FuzzOutput(f *testing.F) {
	f.Add("rg -n x src", ended(strings.Split(strings.Repeat("src/a.go:12:x y z|", 40), "|")...))
	f.Add("find . -type f", ended(strings.Split(strings.Repeat("./src/long/name/b.go|", 30), "|")...))
	f.Add("go test -v ./...", strings.Repeat("=== RUN   TestA\n--- PASS: TestA (0.00s)\n", 30)+"PASS\nok  \tx\t0.1s\n")
	f.Add("npm install", strings.Repeat("\rprogress \x1b[32m10%\x1b[0m \x1b[K", 40)+"\ndone\n")
	f.Add("ls -l", strings.Repeat("-rw-r--r-- 1 root root 12 Nov 23 02:38 a\n", 30))
	f.Add("make", strings.Repeat("[12/40] Building C object src/file12.c.o with flags\n", 40))
	f.Fuzz(func(t *testing.T, line, in string) {
		checkResult(t, line, in)
		if r, ok := Output(line, in, Options{}); ok && (len(r.Text) >= len(in) || r.Folded && (!strings.Contains(r.Text, "cachebro output "+ID(in)) || secrets(in))) {
			t.Fatalf("%q: %q", line, r.Text)
		}
	})
}

// TestExamples: there is an example of every rule, and each result is shorter than the output.
func TestExamples(t *testing.T) {
	got := map[Rule]bool{}
	for _, e := range examples() {
		got[e.Rule] = true
		if len(e.Shown) >= len(e.Printed) {
			t.Errorf("%s: %q became %q", e.Rule, e.Printed, e.Shown)
		}
	}
	for _, r := range Rules() {
		if !got[r] {
			t.Errorf("no example of %s", r)
		}
	}
}
