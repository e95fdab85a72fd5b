package conformance

import (
	"strings"
	"time"
)

// These cases need more than files and readers.
func init() {
	cases = append(cases,
		testCase{"compaction", epoch("precompact", "postcompact", "start")},
		testCase{"compaction whose start was missed", epoch("postcompact")},
		testCase{"clear", epoch("start")},
		testCase{"resume", epoch("start")},
		testCase{"events were lost", epoch("lost")},
		testCase{"an ordinary prompt changes nothing", func(b *bench) {
			b.write(file, Text(100))
			o := b.reader()
			ev := need[Eventful](b, o.Reader)
			o.full(Read{Path: file})
			ev.Event(b, "prompt")
			o.unchanged(Read{Path: file})
		}},
		testCase{"sub-agent", func(b *bench) {
			b.write(file, Text(100))
			o := b.reader()
			f := need[Forker](b, o.Reader)
			o.full(Read{Path: file})
			sub := b.as(f.Agent(b, "agent-1"))
			sub.full(Read{Path: file})
			b.as(f.Agent(b, "agent-2")).full(Read{Path: file})
			o.unchanged(Read{Path: file})
			sub.unchanged(Read{Path: file})
		}},
		testCase{"unknown reader", func(b *bench) {
			u := need[Unknowing](b, b.Subject)
			b.write(file, Text(100))
			o := b.as(u.Unknown(b))
			for range 3 {
				o.full(Read{Path: file})
			}
		}},
		testCase{"expiry by time", func(b *bench) {
			c := need[Clocked](b, b.Subject)
			b.write(file, Text(100))
			o := b.reader()
			o.full(Read{Path: file})
			c.Advance(b, 29*time.Minute)
			o.unchanged(Read{Path: file})
			c.Advance(b, day)
			o.full(Read{Path: file})
		}},
		testCase{"expiry by tokens", func(b *bench) {
			b.write(file, Text(100))
			b.write("src/big.go", Text(2500)) // about 40k tokens
			o := b.reader()
			o.full(Read{Path: file})
			o.full(Read{Path: "src/big.go"})
			o.unchanged(Read{Path: file})
			o.full(Read{Path: "src/big.go", Force: true})
			o.full(Read{Path: file})
		}},
		testCase{"same size and time, other content", stealth},
		testCase{"change underneath", stealth},
		testCase{"symlink swap", func(b *bench) {
			l := need[Linker](b, b.Subject)
			b.write("one", Text(100))
			b.write("two", WithLine(Text(100), 50, "two"))
			l.Symlink(b, "one", "link")
			b.files["link"] = b.files["one"]
			o := b.reader()
			o.full(Read{Path: "link"})
			b.Remove(b, "link")
			l.Symlink(b, "two", "link")
			b.files["link"] = b.files["two"]
			o.notUnchanged(Read{Path: "link"})
		}},
		testCase{"pending never committed", func(b *bench) {
			b.write(file, Text(100))
			o := b.reader()
			c := need[Committer](b, o.Reader)
			c.ReadPending(b, "t1", Read{Path: file})
			o.full(Read{Path: file})
		}},
		testCase{"pending, committed", func(b *bench) {
			b.write(file, Text(100))
			o := b.reader()
			c := need[Committer](b, o.Reader)
			r := Read{Path: file}
			c.Commit(b, "t1", o.hear(r, c.ReadPending(b, "t1", r)).Text)
			a := o.hear(r, c.ReadPending(b, "t2", r))
			if !a.Unchanged() {
				b.Fatalf("%.100q, want unchanged", a.Text)
			}
		}},
		testCase{"other text delivered", func(b *bench) {
			r := Read{Path: file}
			for _, cut := range []func(string) string{
				func(s string) string { return s[:len(s)/2] },
				func(s string) string { return "<persisted-output>\n" + s[:1000] + "\n</persisted-output>" },
				func(s string) string { return strings.Replace(s, "fox", "cat", 1) },
				func(string) string { return "" },
				func(string) string { return "blocked by a hook" },
			} {
				b.write(file, Text(100))
				o := b.reader()
				c := need[Committer](b, o.Reader)
				c.Commit(b, "t1", cut(c.ReadPending(b, "t1", r).Text))
				o.full(r)
			}
		}},
		testCase{"no unchanged after a change notice that may not have arrived", func(b *bench) {
			b.write(file, Text(100))
			o := b.reader()
			c := need[Committer](b, o.Reader)
			r := Read{Path: file}
			c.Commit(b, "t1", o.hear(r, c.ReadPending(b, "t1", r)).Text)
			b.write(file, WithLine(Text(100), 50, "changed"))
			c.ReadPending(b, "t2", r) // the answer may or may not have reached the model
			b.write(file, Text(100))
			if a := c.ReadPending(b, "t3", r); a.Unchanged() {
				b.Fatalf("%q", a.Text)
			}
		}},
		testCase{"rewind", func(b *bench) {
			b.write(file, Text(100))
			o := b.reader()
			c := need[Committer](b, o.Reader)
			w := need[Rewinder](b, o.Reader)
			r := Read{Path: file}
			c.Commit(b, "t1", o.hear(r, c.ReadPending(b, "t1", r)).Text)
			w.Alive(b, []string{"t0", "t1"}, true)
			if a := c.ReadPending(b, "t2", r); !a.Unchanged() {
				b.Fatalf("%.100q, want unchanged", a.Text)
			}
			w.Alive(b, []string{"t0"}, true)
			o.full(r)
		}},
		testCase{"rewind to before a diff", func(b *bench) {
			b.write(file, Text(100))
			o := b.reader()
			c := need[Committer](b, o.Reader)
			w := need[Rewinder](b, o.Reader)
			r := Read{Path: file}
			c.Commit(b, "t1", o.hear(r, c.ReadPending(b, "t1", r)).Text)
			b.write(file, WithLine(Text(100), 50, "changed"))
			c.Commit(b, "t2", o.hear(r, c.ReadPending(b, "t2", r)).Text)
			w.Alive(b, []string{"t1"}, true)
			if a := c.ReadPending(b, "t3", r); a.Unchanged() {
				b.Fatalf("%q", a.Text)
			}
		}},
		testCase{"the result that a diff rests on was cleared", func(b *bench) {
			b.write(file, Text(100))
			o := b.reader()
			c := need[Committer](b, o.Reader)
			w := need[Rewinder](b, o.Reader)
			r := Read{Path: file}
			c.Commit(b, "t1", o.hear(r, c.ReadPending(b, "t1", r)).Text)
			b.write(file, WithLine(Text(100), 50, "changed"))
			c.Commit(b, "t2", o.hear(r, c.ReadPending(b, "t2", r)).Text)
			w.Alive(b, []string{"t2"}, true)
			o.full(Read{Path: file, Offset: 10, Limit: 20})
		}},
		testCase{"partial reads after the model got another text than ours", func(b *bench) {
			b.write(file, Text(100))
			o := b.reader()
			c := need[Committer](b, o.Reader)
			c.ReadPending(b, "t1", Read{Path: file})
			c.Commit(b, "t1", Text(120))
			o.full(Read{Path: file, Limit: 60})
			o.full(Read{Path: file, Offset: 50})
			o.full(Read{Path: file})
			o.unchanged(Read{Path: file})
		}},
		testCase{"unreadable transcript", func(b *bench) {
			b.write(file, Text(100))
			o := b.reader()
			w := need[Rewinder](b, o.Reader)
			o.full(Read{Path: file})
			w.Alive(b, nil, false)
			o.full(Read{Path: file})
		}},
		testCase{"own edit of a file that was read", func(b *bench) {
			b.write(file, Text(100))
			o := b.reader()
			e := need[Editor](b, o.Reader)
			o.full(Read{Path: file})
			b.edit(o, e, "50: the quick", "50: the slow\n50b: and steady")
			o.unchanged(Read{Path: file})
			o.full(Read{Path: file})
		}},
		testCase{"own edit after reading a part", func(b *bench) {
			b.write(file, Text(100))
			o := b.reader()
			e := need[Editor](b, o.Reader)
			o.full(Read{Path: file, Offset: 45, Limit: 10})
			b.edit(o, e, "50: the quick", "50: the slow")
			o.full(Read{Path: file})
		}},
		testCase{"own edit of a file never read", func(b *bench) {
			b.write(file, Text(100))
			o := b.reader()
			e := need[Editor](b, o.Reader)
			b.edit(o, e, "50: the quick", "50: the slow")
			o.full(Read{Path: file, Offset: 45, Limit: 10})
			o.full(Read{Path: file})
		}},
		testCase{"own edit, then reverted by somebody else", func(b *bench) {
			b.write(file, Text(100))
			o := b.reader()
			e := need[Editor](b, o.Reader)
			o.full(Read{Path: file})
			b.edit(o, e, "50: the quick", "50: the slow")
			b.write(file, Text(100))
			o.notUnchanged(Read{Path: file})
		}},
	)
}

func (b *bench) edit(o *one, e Editor, old, new string) {
	b.Helper()
	e.Edit(b, file, old, new)
	b.files[file] = strings.Replace(b.files[file], old, new, 1)
	o.mind(file).Edited(old, new)
}

func epoch(names ...string) func(b *bench) {
	return func(b *bench) {
		b.write(file, Text(100))
		o := b.reader()
		ev := need[Eventful](b, o.Reader)
		o.full(Read{Path: file})
		o.unchanged(Read{Path: file})
		for _, n := range names {
			ev.Event(b, n)
		}
		o.minds = map[string]*Mind{}
		o.full(Read{Path: file})
		o.unchanged(Read{Path: file})
	}
}

func stealth(b *bench) {
	w := need[Stealthy](b, b.Subject)
	b.write(file, Text(100))
	o := b.reader()
	o.full(Read{Path: file})
	b.files[file] = strings.Replace(Text(100), "fox", "cat", 1)
	w.WriteSameStat(b, file, b.files[file])
	o.notUnchanged(Read{Path: file})
}
