package diff

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cachebro/scripts/testkit/difftest"
	"cachebro/store/leaf/text"
)

// check verifies everything that a script promises.
func check(t *testing.T, old, new []byte) *Script {
	t.Helper()
	s := Compare(old, new)
	o, n := 0, 0
	for i, e := range s.Edits {
		if e.OldFrom < o || e.NewFrom < n || e.OldFrom-o != e.NewFrom-n {
			t.Fatalf("edit %d is out of step: %+v", i, s.Edits)
		}
		if i > 0 && e.OldFrom == o {
			t.Fatalf("edit %d touches its predecessor: %+v", i, s.Edits)
		}
		for ; o < e.OldFrom; o, n = o+1, n+1 {
			if !bytes.Equal(s.Old[o], s.New[n]) {
				t.Fatalf("old line %d and new line %d are not equal", o+1, n+1)
			}
		}
		o, n = e.OldTo, e.NewTo
	}
	if len(s.Old)-o != len(s.New)-n {
		t.Fatalf("tail is out of step: %+v", s.Edits)
	}
	old, _ = text.Shown(old) // lines are counted in the text that readers are shown
	new, _ = text.Shown(new)
	got, err := difftest.Apply(old, s.Body(Context))
	if err != nil || !bytes.Equal(got, new) {
		t.Fatalf("apply: %v\nold %q\nnew %q\ngot %q\ndiff:\n%s", err, old, new, got, s.Body(Context))
	}
	return s
}

func TestUnifiedText(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"equal", "a\nb\n", "a\nb\n", ""},
		{"replace", "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n", "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"},
		{"from empty", "", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"to empty", "a\nb\n", "", "@@ -1,2 +0,0 @@\n-a\n-b\n"},
		{"newline goes", "a\nb\n", "a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n"},
		{"newline comes", "a\nb", "a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"},
		{"no newline in context", "a\nb", "x\nb", "@@ -1,2 +1,2 @@\n-a\n+x\n b\n\\ No newline at end of file\n"},
		{"carriage return", "a\r\nb\r\n", "a\nb\r\n", "@@ -1,2 +1,2 @@\n-a\r\n+a\n b\r\n"},
		{"slides down", "f {\n}\n\ng {\n}\n", "f {\n}\n\nh {\n}\n\ng {\n}\n", "@@ -1,5 +1,8 @@\n f {\n }\n \n+h {\n+}\n+\n g {\n }\n"},
		{"two hunks", lines(1, 20, ""), strings.Replace(strings.Replace(lines(1, 20, ""), "3\n", "x\n", 1), "18\n", "y\n", 1),
			"@@ -1,6 +1,6 @@\n 1\n 2\n-3\n+x\n 4\n 5\n 6\n@@ -15,6 +15,6 @@\n 15\n 16\n 17\n-18\n+y\n 19\n 20\n"},
	} {
		if got := string(check(t, []byte(c.old), []byte(c.new)).Body(Context)); got != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", c.name, got, c.want)
		}
	}
	got := string(Unified("a/x", "b/x", []byte("1\n"), []byte("2\n"), Context))
	if want := "--- a/x\n+++ b/x\n@@ -1,1 +1,1 @@\n-1\n+2\n"; got != want {
		t.Errorf("Unified = %q, want %q", got, want)
	}
}

func lines(from, to int, prefix string) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "%s%d\n", prefix, i)
	}
	return b.String()
}

// Small alphabets produce every kind of overlap. The length of the script is compared with the
// longest common subsequence.
func TestMinimalOnSmallInputs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	shortest, longer, found := 0, 0, 0
	for range 20000 {
		old, new := randomText(r, r.IntN(12), 3), randomText(r, r.IntN(12), 3)
		s := check(t, old, new)
		want := len(s.Old) + len(s.New) - 2*lcs(s.Old, s.New)
		got := s.Added() + s.Removed()
		if shortest, found = shortest+want, found+got; got > want {
			longer++
		}
	}
	// The script may be longer than necessary. If one text contains the other, go-diff takes that
	// as the match without looking further, and moves edits together afterwards.
	if found*100 > shortest*101 {
		t.Errorf("%d edits where %d are enough (%d scripts of 20,000 are longer than need be)", found, shortest, longer)
	}
	t.Logf("%d edits, %d are enough; %d of 20,000 scripts are longer than need be", found, shortest, longer)
}

func randomText(r *rand.Rand, n, alphabet int) []byte {
	var b []byte
	for range n {
		b = append(b, byte('a'+r.IntN(alphabet)), '\n')
	}
	if len(b) > 0 && r.IntN(4) == 0 {
		b = b[:len(b)-1]
	}
	return b
}

func lcs(a, b [][]byte) int {
	row := make([]int, len(b)+1)
	for _, x := range a {
		diag := 0
		for j, y := range b {
			up := row[j+1]
			if bytes.Equal(x, y) {
				row[j+1] = diag + 1
			} else {
				row[j+1] = max(row[j+1], row[j])
			}
			diag = up
		}
	}
	return row[len(b)]
}

// A library that maps each line to a rune would merge or corrupt lines here, because more than
// 65,536 of them differ, and some are not UTF-8.
func TestManyDistinctLinesAndBadUTF8(t *testing.T) {
	var old, new bytes.Buffer
	for i := range 150000 {
		fmt.Fprintf(&old, "line %d \xff\xfe%c\n", i, i%256)
		if i%1000 == 500 {
			fmt.Fprintf(&new, "line %d \xff\xfd%c\n", i, i%256)
		} else {
			fmt.Fprintf(&new, "line %d \xff\xfe%c\n", i, i%256)
		}
	}
	s := check(t, old.Bytes(), new.Bytes())
	// where i%256 is 10, the byte is a newline and begins another line
	if s.Added() != 150 || s.Removed() != 150 {
		t.Errorf("+%d -%d, want 150 each", s.Added(), s.Removed())
	}
}

func TestUnlikeFilesStayFast(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	old, new := randomText(r, 40000, 20), randomText(r, 40000, 20)
	check(t, old, new)
	check(t, []byte(lines(1, 50000, "a")), []byte(lines(1, 50000, "b")))
}

// patch(1) applies each diff to the old text and gets the new text.
func TestAppliesWithPatch(t *testing.T) {
	bin, err := exec.LookPath("patch")
	if err != nil {
		t.Skip("no patch(1)")
	}
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 60 {
		old := randomText(r, r.IntN(80), 1+r.IntN(26))
		new := mutate(r, old)
		if i%3 == 0 {
			old, new = bytes.ReplaceAll(old, []byte("b\n"), []byte("b\r\n")), bytes.ReplaceAll(new, []byte("c\n"), []byte("\xff\r\n"))
		}
		d := Unified("f", "f", old, new, Context)
		if len(d) == 0 {
			continue
		}
		f, out := filepath.Join(dir, "f"), filepath.Join(dir, "out")
		if err := os.WriteFile(f, old, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(bin, "--binary", "-s", "-F0", "-o", out, f)
		cmd.Stdin = bytes.NewReader(d)
		if msg, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("patch: %v %s\n%s", err, msg, d)
		}
		if got, _ := os.ReadFile(out); !bytes.Equal(got, new) {
			t.Fatalf("patch made %q, want %q", got, new)
		}
	}
}

func mutate(r *rand.Rand, old []byte) []byte {
	ls := Lines(old)
	var out []byte
	for _, l := range ls {
		switch r.IntN(12) {
		case 0:
		case 1:
			out = append(out, "new\n"...)
			out = append(out, l...)
		case 2:
			out = append(out, "other\n"...)
		default:
			out = append(out, l...)
		}
	}
	return out
}

func TestApplyRefuses(t *testing.T) {
	for _, d := range []string{
		"@@ -1,1 +1,1 @@\n-x\n+y\n",
		"@@ -5,1 +5,1 @@\n-a\n+y\n",
		"@@ -1,1 +1,1 @@\n-a\n",
		"@@ nonsense @@\n-a\n",
		"@@ -1,1 +1,1 @@\n?a\n+b\n",
		"@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+b\n",
	} {
		if got, err := difftest.Apply([]byte("a\nb\n"), []byte(d)); err == nil {
			t.Errorf("Apply(%q) = %q, want an error", d, got)
		}
	}
}

func TestUnmoved(t *testing.T) {
	old := []byte(lines(1, 20, ""))
	new := []byte(strings.Replace(strings.Replace(lines(1, 20, ""), "5\n", "5\nnew\n", 1), "10\n", "", 1))
	s := Compare(old, new)
	for _, c := range []struct {
		first, last int
		want        bool
	}{{1, 5, true}, {1, 6, false}, {6, 6, false}, {7, 9, false}, {10, 11, false}, {11, 12, true}, {11, 20, true}, {10, 20, false}, {20, 21, false}} {
		if got := s.Unmoved(c.first, c.last); got != c.want {
			t.Errorf("Unmoved(%d, %d) = %v", c.first, c.last, got)
		}
	}
}

// The first Row.Known lines of the new text must follow from the old text and the rows up to this
// one, whatever rows come later.
func TestRowsKnown(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 3000 {
		old := randomText(r, r.IntN(40), 5)
		s := Compare(old, mutate(r, old))
		rows := s.Rows(Context)
		o, n := 0, 0
		var built []byte
		for i, row := range rows {
			switch row.Text[0] {
			case '@':
				start, oldLines, _, err := difftest.ParseHeader(string(row.Text))
				if err != nil {
					t.Fatal(err)
				}
				if oldLines > 0 {
					start--
				}
				for ; o < start; o, n = o+1, n+1 {
					built = append(built, s.Old[o]...)
				}
			case ' ':
				built, o, n = append(built, s.Old[o]...), o+1, n+1
			case '-':
				o++
			case '+':
				built, n = append(built, row.Text[1:]...), n+1
			case '\\':
			}
			if i == len(rows)-1 {
				break
			}
			known := bytes.Join(s.New[:row.Known], nil)
			if row.Known > n || !bytes.HasPrefix(built, known) {
				t.Fatalf("row %d %q: %d lines known, %d built", i, row.Text, row.Known, n)
			}
		}
	}
}

// A diff that is sent must not be larger than git's, for artificial edits and, where two versions
// of a library are available, for real ones.
func TestSizeAgainstGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git")
	}
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	compare := func(old, new []byte) (ours, theirs int) {
		check(t, old, new)
		if os.WriteFile(a, old, 0o600) != nil || os.WriteFile(b, new, 0o600) != nil {
			t.Fatal("cannot write")
		}
		out, _ := exec.Command(git, "diff", "--no-index", "--no-color", a, b).Output()
		for _, l := range Lines(out) {
			if bytes.HasPrefix(l, []byte("@@ ")) {
				l = l[:bytes.LastIndex(l, []byte(" @@"))+4] // without the function's name
			}
			theirs += len(l)
		}
		if i := bytes.Index(out, []byte("\n@@ ")); i > 0 {
			theirs -= i + 1
		}
		return len(Compare(old, new).Body(Context)), theirs
	}
	report := func(what string, files, ours, theirs int) {
		t.Logf("%s: %d files, %d bytes, git %d", what, files, ours, theirs)
		if ours > theirs*12/10 {
			t.Errorf("%s: %d bytes, git diff has %d", what, ours, theirs)
		}
	}
	r := rand.New(rand.NewPCG(9, 10))
	var n, ours, theirs int
	files, _ := filepath.Glob(filepath.Join(goroot(), "src/net/http/*.go"))
	for i, f := range files {
		if i%4 != 0 {
			continue
		}
		old, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		x, y := compare(old, realEdit(r, old))
		n, ours, theirs = n+1, ours+x, theirs+y
	}
	report("made edits", n, ours, theirs)
	n, ours, theirs = 0, 0, 0
	olds, _ := filepath.Glob(os.Getenv("HOME") + "/.pyenv/versions/3.11*/lib/python3.11/*.py")
	for _, f := range olds {
		news, _ := filepath.Glob(os.Getenv("HOME") + "/.pyenv/versions/3.12*/lib/python3.12/" + filepath.Base(f))
		if len(news) == 0 || n == 60 {
			continue
		}
		old, err1 := os.ReadFile(f)
		new, err2 := os.ReadFile(news[0])
		if err1 != nil || err2 != nil || bytes.Equal(old, new) {
			continue
		}
		x, y := compare(old, new)
		n, ours, theirs = n+1, ours+x, theirs+y
		if x > y*12/10+40 {
			t.Errorf("%s: %d bytes, git %d", f, x, y)
		}
	}
	report("library versions", n, ours, theirs)
}

func goroot() string {
	out, _ := exec.Command("go", "env", "GOROOT").Output()
	return strings.TrimSpace(string(out))
}

// realEdit changes source as people do: it renames an identifier, moves, removes or indents a
// block, or changes single lines.
func realEdit(r *rand.Rand, old []byte) []byte {
	ls := Lines(old)
	at := func(n int) int { return r.IntN(max(1, len(ls)-n)) }
	if len(ls) < 60 {
		return append(append([]byte(nil), old...), "// more\n"...)
	}
	i := at(20)
	block := append([][]byte(nil), ls[i:i+20]...)
	ls = append(ls[:i:i], ls[i+20:]...)
	j := at(0)
	ls = append(ls[:j:j], append(block, ls[j:]...)...)
	k := at(10)
	for x := k; x < k+10; x++ {
		ls[x] = append([]byte("\t"), ls[x]...)
	}
	for range 5 {
		ls[at(0)] = []byte("\tsomething(else)\n")
	}
	return bytes.ReplaceAll(bytes.Join(ls, nil), []byte("err"), []byte("fail"))
}

func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("a\nb\nc"), []byte("a\nc\n"))
	f.Add([]byte(""), []byte("\n\n"))
	f.Add([]byte("\r\n\xff"), []byte("@@ -1 +1 @@\n-a\n"))
	f.Add([]byte("\xff\xfe"), []byte("\xff\xfe,\u4489"))
	f.Fuzz(func(t *testing.T, old, new []byte) { check(t, old, new) })
}
