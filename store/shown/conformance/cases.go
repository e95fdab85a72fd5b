package conformance

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Run runs every case that the subject can play, each against a fresh one.
func Run(t *testing.T, fresh func(t *testing.T) Subject) {
	var able []testCase
	t.Run("what it can do", func(t *testing.T) {
		s := fresh(t)
		r := s.Reader(t)
		for _, c := range cases {
			if plays(s, r, needs[c.name]) {
				able = append(able, c)
			}
		}
		t.Logf("%d of %d cases", len(able), len(cases))
	})
	for _, c := range able {
		t.Run(c.name, func(t *testing.T) {
			c.run(&bench{TB: t, Subject: fresh(t), files: map[string]string{}})
		})
	}
}

// bench keeps what the files are and what readers believe of them.
type bench struct {
	testing.TB
	Subject
	files map[string]string
}

// one is a reader with its beliefs.
type one struct {
	b *bench
	Reader
	minds map[string]*Mind
}

func (b *bench) reader() *one { return b.as(b.Subject.Reader(b)) }

func (b *bench) as(r Reader) *one { return &one{b: b, Reader: r, minds: map[string]*Mind{}} }

func (b *bench) write(path, content string) {
	b.Helper()
	b.files[path] = content
	b.Subject.Write(b, path, content)
}

func (o *one) mind(path string) *Mind {
	if o.minds[path] == nil {
		o.minds[path] = NewMind()
	}
	return o.minds[path]
}

// hear checks an answer that the reader really got.
func (o *one) hear(r Read, a Answer) Answer {
	o.b.Helper()
	if a.Err != nil {
		o.b.Fatalf("read %+v: %v", r, a.Err)
	}
	if err := o.mind(r.Path).Hear(r, a, o.b.files[r.Path]); err != nil {
		o.b.Fatalf("read %+v: %v", r, err)
	}
	return a
}

func (o *one) read(r Read) Answer {
	o.b.Helper()
	return o.hear(r, o.Reader.Read(o.b, r))
}

func (o *one) full(r Read) {
	o.b.Helper()
	if a := o.read(r); !a.Full() {
		o.b.Fatalf("read %+v: %.100q, want the full text", r, a.Text)
	}
}

func (o *one) unchanged(r Read) {
	o.b.Helper()
	if a := o.read(r); !a.Unchanged() {
		o.b.Fatalf("read %+v: %.100q, want unchanged", r, a.Text)
	}
}

func (o *one) changed(r Read) {
	o.b.Helper()
	if a := o.read(r); !a.Changed() {
		o.b.Fatalf("read %+v: %.100q, want a diff", r, a.Text)
	}
}

// notUnchanged: a diff or the text, but no stub.
func (o *one) notUnchanged(r Read) {
	o.b.Helper()
	if a := o.read(r); a.Unchanged() {
		o.b.Fatalf("read %+v: %.100q", r, a.Text)
	}
}

// Text is an ordinary file of n lines; no line is another's double.
func Text(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "%d: the quick brown fox jumps over lazy dog number %d\n", i, i*7)
	}
	return b.String()
}

// WithLine is a text with one line replaced.
func WithLine(text string, n int, line string) string {
	ls := split(text)
	ls[n-1] = line + "\n"
	return strings.Join(ls, "")
}

func need[T any](b *bench, x any) T {
	b.Helper()
	c, ok := x.(T)
	if !ok {
		b.Fatalf("this way in has no %T, which the case is not listed to need", new(T))
	}
	return c
}

const file = "src/a.go"

type testCase struct {
	name string
	run  func(b *bench)
}

var cases = []testCase{
	{"first read is full, second is a stub", func(b *bench) {
		b.write(file, Text(100))
		o := b.reader()
		o.full(Read{Path: file})
		o.unchanged(Read{Path: file})
	}},
	{"partial then full", func(b *bench) {
		b.write(file, Text(100))
		o := b.reader()
		o.full(Read{Path: file, Offset: 10, Limit: 20})
		o.full(Read{Path: file})
	}},
	{"parts that cover the whole", func(b *bench) {
		b.write(file, Text(100))
		o := b.reader()
		o.full(Read{Path: file, Limit: 60})
		o.full(Read{Path: file, Offset: 50})
		o.unchanged(Read{Path: file})
	}},
	{"full then part", func(b *bench) {
		b.write(file, Text(100))
		o := b.reader()
		o.full(Read{Path: file})
		o.unchanged(Read{Path: file, Offset: 10, Limit: 20})
		o.full(Read{Path: file, Offset: 10, Limit: 20})
	}},
	{"part then beyond it", func(b *bench) {
		b.write(file, Text(100))
		o := b.reader()
		o.full(Read{Path: file, Offset: 10, Limit: 20})
		o.unchanged(Read{Path: file, Offset: 12, Limit: 15})
		o.full(Read{Path: file, Offset: 25, Limit: 20})
	}},
	{"edit then read", func(b *bench) {
		b.write(file, Text(100))
		o := b.reader()
		o.full(Read{Path: file})
		b.write(file, WithLine(Text(100), 50, "changed"))
		o.changed(Read{Path: file})
		o.full(Read{Path: file})
		o.unchanged(Read{Path: file})
	}},
	{"ask twice, get it", func(b *bench) {
		b.write(file, Text(100))
		o := b.reader()
		o.full(Read{Path: file})
		o.unchanged(Read{Path: file})
		o.full(Read{Path: file})
		o.unchanged(Read{Path: file})
	}},
	{"force", func(b *bench) {
		b.write(file, Text(100))
		o := b.reader()
		o.full(Read{Path: file})
		o.full(Read{Path: file, Force: true})
		o.unchanged(Read{Path: file})
	}},
	{"range untouched, file changed elsewhere", func(b *bench) {
		b.write(file, Text(100))
		o := b.reader()
		o.full(Read{Path: file})
		b.write(file, WithLine(Text(100), 80, "changed"))
		a := o.read(Read{Path: file, Offset: 10, Limit: 20})
		if !a.Unchanged() || !strings.Contains(a.Text, " · changed elsewhere · ") {
			b.Fatalf("%q", a.Text)
		}
	}},
	{"range moved by a change above it", func(b *bench) {
		b.write(file, Text(100))
		o := b.reader()
		o.full(Read{Path: file})
		b.write(file, "new\n"+Text(100))
		o.full(Read{Path: file, Offset: 11, Limit: 20})
	}},
	{"range overlaps a change", func(b *bench) {
		b.write(file, Text(100))
		o := b.reader()
		o.full(Read{Path: file})
		b.write(file, WithLine(Text(100), 15, "changed"))
		o.full(Read{Path: file, Offset: 10, Limit: 20})
	}},
	{"A to B to A, B seen", func(b *bench) {
		b.write(file, Text(100))
		o := b.reader()
		o.full(Read{Path: file})
		b.write(file, WithLine(Text(100), 50, "changed"))
		o.changed(Read{Path: file})
		b.write(file, Text(100))
		o.changed(Read{Path: file})
	}},
	{"A to B to A, B not seen", func(b *bench) {
		b.write(file, Text(100))
		o := b.reader()
		o.full(Read{Path: file})
		b.write(file, WithLine(Text(100), 50, "changed"))
		b.write(file, Text(100))
		o.unchanged(Read{Path: file})
	}},
	{"A to B to A, part of B seen", func(b *bench) {
		b.write(file, Text(100))
		o := b.reader()
		o.full(Read{Path: file})
		b.write(file, WithLine(Text(100), 50, "changed"))
		o.full(Read{Path: file, Offset: 45, Limit: 10})
		b.write(file, Text(100))
		o.notUnchanged(Read{Path: file})
	}},
	{"the end of a longer text was never taken back", func(b *bench) {
		b.write(file, Text(100))
		o := b.reader()
		o.full(Read{Path: file})
		b.write(file, Text(90))
		o.read(Read{Path: file, Limit: 50})
		o.read(Read{Path: file, Offset: 40, Limit: 60})
		o.notUnchanged(Read{Path: file})
	}},
	{"two sessions", func(b *bench) {
		b.write(file, Text(100))
		x, y := b.reader(), b.reader()
		x.full(Read{Path: file})
		y.full(Read{Path: file})
		b.write(file, WithLine(Text(100), 50, "changed"))
		x.changed(Read{Path: file})
		y.changed(Read{Path: file})
		b.reader().full(Read{Path: file})
	}},
	{"truncated diff", truncatedDiff},
	{"truncated diff, then back", func(b *bench) {
		old, now := Text(2000), manyChanges()
		b.write(file, old)
		o := b.reader()
		o.full(Read{Path: file})
		b.write(file, now)
		if a := o.read(Read{Path: file}); !a.Truncated() {
			b.Fatalf("%.100q, want a cut diff", a.Text)
		}
		b.write(file, old)
		o.notUnchanged(Read{Path: file})
	}},
	{"truncated diff shows only what it had", func(b *bench) {
		b.write(file, Text(2000))
		o := b.reader()
		o.full(Read{Path: file})
		b.write(file, manyChanges())
		if a := o.read(Read{Path: file}); !a.Truncated() {
			b.Fatalf("%.100q, want a cut diff", a.Text)
		}
		o.notUnchanged(Read{Path: file, Offset: 1900, Limit: 60})
		o.full(Read{Path: file})
	}},
	{"delete and recreate", func(b *bench) {
		b.write(file, Text(100))
		o := b.reader()
		o.full(Read{Path: file})
		b.Remove(b, file)
		if a := o.Reader.Read(b, Read{Path: file}); a.Err == nil {
			b.Fatalf("a deleted file reads as %.60q", a.Text)
		}
		b.write(file, WithLine(Text(100), 3, "recreated"))
		o.notUnchanged(Read{Path: file})
	}},
	{"rename", func(b *bench) {
		b.write(file, Text(100))
		o := b.reader()
		o.full(Read{Path: file})
		b.Rename(b, file, "src/b.go")
		b.files["src/b.go"] = b.files[file]
		o.minds["src/b.go"] = o.minds[file]
		a := o.read(Read{Path: "src/b.go"})
		if a.Unchanged() && !(strings.Contains(a.Text, file) && strings.Contains(a.Text, "src/b.go")) {
			b.Fatalf("%q: a renamed file needs both names", a.Text)
		}
	}},
	{"rename, and another file under the old name", func(b *bench) {
		b.write(file, Text(100))
		o := b.reader()
		o.full(Read{Path: file})
		b.Rename(b, file, "src/b.go")
		b.write(file, WithLine(Text(90), 7, "another"))
		o.notUnchanged(Read{Path: file})
	}},
	{"whole-file rewrite falls back to full", func(b *bench) {
		b.write(file, Text(100))
		o := b.reader()
		o.full(Read{Path: file})
		b.write(file, strings.ReplaceAll(Text(120), "fox", "cat"))
		o.full(Read{Path: file})
	}},
	{"small files are not stubbed", func(b *bench) {
		b.write(file, "a\n")
		o := b.reader()
		for range 3 {
			o.full(Read{Path: file})
		}
		b.write(file, "")
		for range 3 {
			o.full(Read{Path: file})
		}
	}},
	{"final newline", func(b *bench) {
		b.write(file, Text(100))
		o := b.reader()
		o.full(Read{Path: file})
		b.write(file, strings.TrimSuffix(Text(100), "\n"))
		o.notUnchanged(Read{Path: file})
		b.write(file, Text(100))
		o.notUnchanged(Read{Path: file})
	}},
	{"line ends", func(b *bench) {
		b.write(file, Text(100))
		o := b.reader()
		o.full(Read{Path: file})
		b.write(file, strings.ReplaceAll(Text(100), "\n", "\r\n"))
		o.notUnchanged(Read{Path: file})
		o.read(Read{Path: file})
		b.write(file, strings.Replace(strings.ReplaceAll(Text(100), "\n", "\r\n"), "\r\n", "\n", 1))
		o.notUnchanged(Read{Path: file})
	}},
	{"very long lines", func(b *bench) {
		long := strings.Repeat("x = y + z; ", 20000)
		b.write(file, long+"\n"+long+"\n")
		o := b.reader()
		o.full(Read{Path: file})
		o.unchanged(Read{Path: file})
		b.write(file, long+"\n"+long+"!\n")
		o.notUnchanged(Read{Path: file})
	}},
	{"offset beyond the end", func(b *bench) {
		b.write(file, Text(10))
		o := b.reader()
		if a := o.Reader.Read(b, Read{Path: file, Offset: 11}); a.Err == nil {
			b.Fatalf("%q, want an error", a.Text)
		}
		o.full(Read{Path: file})
	}},
}

func manyChanges() string {
	ls := split(Text(2000))
	for i := 20; i < len(ls); i += 25 {
		ls[i] = "changed " + ls[i]
	}
	return strings.Join(ls, "")
}

func truncatedDiff(b *bench) {
	b.write(file, Text(2000))
	o := b.reader()
	o.full(Read{Path: file})
	b.write(file, manyChanges())
	a := o.read(Read{Path: file})
	for at := 200; a.Truncated(); at += 200 {
		if !strings.Contains(a.Text, fmt.Sprintf("[... diff truncated at %d lines. Full file has 160 total changes. next: read_file path=%s diff_offset=%d]", at, file, at)) {
			b.Fatalf("%s", a.Text[len(a.Text)-200:])
		}
		a = o.read(Read{Path: file, DiffOffset: at})
		if !a.Changed() {
			b.Fatalf("page at %d: %.100q", at, a.Text)
		}
	}
	o.unchanged(Read{Path: file, Offset: 1900, Limit: 60})
}

// day is longer than anything keeps.
const day = 24 * time.Hour
