package conformance

import (
	"fmt"
	"strings"
	"testing"
)

// Run runs every case that the subject supports, each with a new subject.
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

// bench holds the subject and the contents of its files.
type bench struct {
	testing.TB
	Subject
	files map[string]string
}

// one is a reader together with its beliefs about the files.
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

// hear checks an answer that has reached the reader.
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

// notUnchanged makes a read whose answer may be a diff or the text, but not a stub.
func (o *one) notUnchanged(r Read) {
	o.b.Helper()
	if a := o.read(r); a.Unchanged() {
		o.b.Fatalf("read %+v: %.100q", r, a.Text)
	}
}

// Text returns an ordinary text of n lines. All lines are different.
func Text(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "%d: the quick brown fox jumps over lazy dog number %d\n", i, i*7)
	}
	return b.String()
}

// WithLine returns a text with one line replaced.
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
