package conformance

import (
	"fmt"
	"strings"
	"time"
)

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

// day is longer than any expiry.
const day = 24 * time.Hour
