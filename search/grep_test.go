package search

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"cachebro/store"
	"cachebro/store/leaf/text"
)

// goSource is the source tree of the Go installation.
func goSource(tb testing.TB, sub string) string {
	tb.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		tb.Fatal(err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), "src", sub)
	if _, err := os.Stat(dir); err != nil {
		tb.Fatal(err)
	}
	return dir
}

func openIndex(tb testing.TB, c *diskCorpus) *Index {
	tb.Helper()
	x := Open(filepath.Join(tb.TempDir(), "index"), c, Options{})
	tb.Cleanup(func() { x.Close() })
	return x
}

// TestEqualsRipgrep compares every line that the fixed queries find with the output of rg. It
// searches a part of the Go source tree, the whole tree if CACHEBRO_SEARCH_ALL=1, or another tree
// if CACHEBRO_SEARCH_TREE=DIR. The queries were once drawn at random from the Go source tree (-draw
// makes new ones).
func TestEqualsRipgrep(t *testing.T) {
	if _, err := exec.LookPath("rg"); err != nil {
		t.Fatal("ripgrep is needed: apt-get install ripgrep")
	}
	file := "../testdata/search/queries.json"
	if *draw {
		drawFile(t, file)
	}
	root, every := goSource(t, "net/http"), 4
	if os.Getenv("CACHEBRO_SEARCH_ALL") != "" {
		root, every = goSource(t, ""), 1
	}
	if dir := os.Getenv("CACHEBRO_SEARCH_TREE"); dir != "" {
		root, every = dir, 1
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var qs []Query
	if err := json.Unmarshal(raw, &qs); err != nil {
		t.Fatal(err)
	}
	c := newDiskCorpus(t, root)
	x := openIndex(t, c)
	start := time.Now()
	if err := x.CatchUp(context.Background()); err != nil {
		t.Fatal(err)
	}
	st := x.Stats()
	t.Logf("indexed %d files, %.1f MB, %d chunks, %d words in %v (%.1f MB/s), %.2f of the corpus on disk", st.Indexed, float64(st.Bytes)/1e6, st.Chunks, st.Words,
		time.Since(start), float64(st.Bytes)/1e6/time.Since(start).Seconds(), float64(st.DiskBytes)/float64(st.Bytes))
	var few, many, native []time.Duration
	for i, q := range qs {
		if i%every != 0 {
			continue
		}
		ours, rg, candidates := compareWithRipgrep(t, x, root, q)
		if native = append(native, rg); candidates <= 200 {
			few = append(few, ours)
		} else {
			many = append(many, ours)
		}
	}
	if st = x.Stats(); st.Bytes > 0 {
		t.Logf("%.2f of the corpus on disk at the end", float64(st.DiskBytes)/float64(st.Bytes))
	}
	t.Logf("%d queries; at most 200 candidates: %s; others: %s; rg: %s", len(native), quantiles(few), quantiles(many), quantiles(native))
}

var draw = flag.Bool("draw", false, "draw new queries for TestEqualsRipgrep")

// drawFile writes 300 literals and 100 regular expressions, drawn at random, to a file.
func drawFile(t *testing.T, file string) {
	t.Helper()
	var qs []Query
	literal, regex := 0, 0
	for _, q := range drawQueries(t, goSource(t, ""), rand.New(rand.NewSource(11)), 3000) {
		if q.Regex && regex < 100 {
			regex++
		} else if !q.Regex && literal < 300 {
			literal++
		} else {
			continue
		}
		qs = append(qs, q)
	}
	raw, err := json.MarshalIndent(qs, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(raw, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

func quantiles(d []time.Duration) string {
	if len(d) == 0 {
		return "none"
	}
	slices.Sort(d)
	return fmt.Sprintf("n %d p50 %v p95 %v", len(d), d[len(d)/2].Round(10*time.Microsecond), d[len(d)*95/100].Round(10*time.Microsecond))
}

func compareWithRipgrep(t *testing.T, x *Index, root string, q Query) (took, native time.Duration, candidates int) {
	t.Helper()
	start := time.Now()
	r, err := x.Grep(context.Background(), q)
	if err != nil {
		t.Errorf("%+v: %v", q, err)
		return
	}
	took = time.Since(start)
	args := []string{"--no-ignore", "--hidden", "-a", "-n", "--no-heading", "--with-filename", "--color=never", "--sort=path", "-g", "!.git", "-g", "!.env*"}
	if !q.Regex {
		args = append(args, "-F")
	}
	if !q.CaseSensitive {
		args = append(args, "-i")
	}
	args = append(args, "-e", q.Pattern, ".")
	cmd := exec.Command("rg", args...)
	cmd.Dir = root
	start = time.Now()
	out, err := cmd.Output()
	native = time.Since(start)
	if ee, ok := err.(*exec.ExitError); err != nil && !(ok && ee.ExitCode() == 1) {
		t.Fatalf("rg %q: %v %s", args, err, ee.Stderr)
	}
	want, isText := map[string]int{}, map[store.Path]bool{}
	for _, line := range strings.Split(string(out), "\n") {
		if line = strings.TrimPrefix(line, "./"); line == "" {
			continue
		}
		p := pathOf(line)
		if _, known := isText[p]; !known {
			b, err := x.corpus.Read(p, nil)
			isText[p] = err == nil && !text.Binary(b)
		}
		if isText[p] {
			want[line]++
		}
	}
	candidates = r.Candidates
	for _, l := range r.Lines {
		key := fmt.Sprintf("%s:%d:%s", l.Path, l.No, l.Text)
		if want[key]--; want[key] < 0 {
			t.Errorf("%+v: not in rg's answer: %.200s", q, key)
			return
		}
	}
	for key, n := range want {
		if n > 0 {
			t.Errorf("%+v: %d lines, missing %.200s (candidates %d)", q, len(r.Lines), key, r.Candidates)
			return
		}
	}
	return took, native, r.Candidates
}

// drawQueries makes literals and regular expressions from random lines of the tree.
func drawQueries(t *testing.T, root string, rng *rand.Rand, n int) []Query {
	t.Helper()
	var files []string
	if err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && KindOf(p) != Other {
			files = append(files, p)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var qs []Query
	for len(qs) < n {
		body, err := os.ReadFile(files[rng.Intn(len(files))])
		if err != nil || text.Binary(body) {
			continue
		}
		lines := strings.Split(string(body), "\n")
		line := strings.TrimSpace(lines[rng.Intn(len(lines))])
		if len(line) < 6 || !isASCII(line) {
			continue
		}
		q := Query{CaseSensitive: rng.Intn(2) == 0}
		a := rng.Intn(len(line) - 3)
		b := min(len(line), a+3+rng.Intn(25))
		piece := line[a:b]
		if strings.TrimSpace(piece) == "" {
			continue
		}
		switch rng.Intn(6) {
		case 0, 1, 2:
			q.Pattern = piece
		case 3:
			words := strings.FieldsFunc(line, func(r rune) bool { return !isWord(r) })
			if len(words) < 2 {
				continue
			}
			q.Regex, q.Pattern = true, words[0]+`.*`+words[len(words)-1]
		case 4:
			words := strings.FieldsFunc(line, func(r rune) bool { return !isWord(r) })
			if len(words) == 0 {
				continue
			}
			q.Regex, q.Pattern = true, `\b`+words[rng.Intn(len(words))]+`\w*\(`
		case 5:
			q.Regex = true
			q.Pattern = []string{`^func \w+\(`, `[A-Z]{5,}_[a-z]+`, `(foo|bar|baz)\d+`, `\breturn\s+nil,\s+err`, `x{3}`, `^\s*//\s*TODO`, `err(or)?\s*:?=`, `"[^"]*%w"`}[rng.Intn(8)]
		}
		qs = append(qs, q)
	}
	return qs
}

func pathOf(line string) store.Path {
	p, _, _ := strings.Cut(line, ":")
	return store.Path(p)
}

// TestEqualsRipgrepWithMarks compares the search with rg in files that begin with a byte order mark
// and in files of a single-byte encoding.
func TestEqualsRipgrepWithMarks(t *testing.T) {
	const shown = "näedle first\nsecond line\r\nthe 日本 needle\n\nneedle last"
	c := newDiskCorpus(t, t.TempDir())
	for name, order := range map[string]binary.AppendByteOrder{"le.txt": binary.LittleEndian, "be.txt": binary.BigEndian} {
		content := order.AppendUint16(nil, 0xfeff)
		for _, u := range utf16.Encode([]rune(shown)) {
			content = order.AppendUint16(content, u)
		}
		c.write(t, name, string(content))
	}
	c.write(t, "mark.txt", text.Mark+shown)
	c.write(t, "plain.txt", shown)
	c.write(t, "latin1.txt", "n\xe4edle first\nneedle last\n")
	x := openIndex(t, c)
	queries := []Query{{Pattern: "needle"}, {Pattern: "näedle"}, {Pattern: "日本"}, {Pattern: "NEEDLE", CaseSensitive: true},
		{Pattern: "^n.*dle", Regex: true}, {Pattern: `line\r?$`, Regex: true}, {Pattern: "first|last$", Regex: true}}
	for _, indexed := range []bool{false, true} {
		if indexed {
			if err := x.CatchUp(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, q := range queries {
			compareWithRipgrep(t, x, c.root, q)
		}
	}
	r, err := x.Grep(t.Context(), Query{Pattern: "^näedle", Regex: true})
	if err != nil || len(r.Lines) != 4 {
		t.Errorf("%d files with a mark or without begin so, want 4: %v", len(r.Lines), err)
	}
}

// A search that needs only the first screen of hits reads code first and no more files than
// necessary, and says that there are more hits. Rare words are found wherever they are. Without an
// index, the search is limited in time and reports the files that it did not read.
func TestEnough(t *testing.T) {
	c := newDiskCorpus(t, t.TempDir())
	for n := range readAtOnce + 500 {
		name := fmt.Sprintf("d%d/f%05d.txt", n%7, n)
		if n > readAtOnce+490 {
			name = fmt.Sprintf("z/f%05d.go", n)
		}
		c.write(t, name, fmt.Sprintf("common words\nrare%dword\n", n))
	}
	x := openIndex(t, c)
	grep := func(q Query) Result {
		t.Helper()
		r, err := x.Grep(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	rare := fmt.Sprintf("rare%dword", readAtOnce+300)
	old := scanFor
	scanFor = 0
	r := grep(Query{Pattern: rare})
	scanFor = old
	if !r.AtLeast || r.Candidates != 0 || r.Total != 0 || !strings.Contains(r.Warning, fmt.Sprintf("only 0 of %d files", readAtOnce+500)) {
		t.Errorf("without an index: %+v", r)
	}
	if r := grep(Query{Pattern: rare}); r.AtLeast || r.Total != 1 {
		t.Errorf("without an index, but in time: %+v", r)
	}
	if err := x.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := grep(Query{Pattern: "common"})
	if all.AtLeast || all.Total != readAtOnce+500 {
		t.Errorf("all: %d, at least %v", all.Total, all.AtLeast)
	}
	r = grep(Query{Pattern: "common", Enough: 20})
	if !r.AtLeast || r.Candidates != readAtOnce || r.Total != readAtOnce {
		t.Errorf("enough: %d lines of %d files, at least %v", r.Total, r.Candidates, r.AtLeast)
	}
	if last := r.Lines[len(r.Lines)-1].Path; !strings.HasPrefix(string(last), "z/") {
		t.Errorf("code is not among the first: the last is %s", last)
	}
	r = grep(Query{Pattern: "common", Enough: 20, Limit: 20})
	if !r.AtLeast || len(r.Lines) != 20 || !slices.EqualFunc(r.Lines, all.Lines[:20], func(a, b Line) bool { return a.Path == b.Path && a.No == b.No }) {
		t.Errorf("the first 20 in their order: %v", r.Lines)
	}
	if r := grep(Query{Pattern: rare, Enough: 20}); r.AtLeast || r.Total != 1 || r.Candidates > 10 {
		t.Errorf("rare: %+v", r)
	}
}
