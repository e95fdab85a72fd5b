package actions

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// world is a history whose changes are reported as mountd reports them.
type world struct {
	t    *testing.T
	st   *store.Store
	tree *storetest.Tree
	who  store.Actor
	plan string
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, st: storetest.Fresh(t), tree: storetest.NewTree()}
	w.process(100, 1, 100, "zsh", "-zsh")
	return w
}

// process reports a process. Its pid also serves as its start time.
func (w *world) process(pid, ppid, group uint32, comm string, args ...string) {
	w.t.Helper()
	p := attribution.Process{Key: attribution.Key{PID: pid, Start: uint64(pid)}, Parent: attribution.Key{PID: ppid, Start: uint64(ppid)}, Group: group, Comm: comm, Args: args, Seen: storetest.Now().UnixNano()}
	key, val := attribution.ProcessRow(p)
	if err := attribution.OpenProcesses(w.st).Keep(map[string][]byte{key: val}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) as(pid uint32, comm string) *world {
	w.who = store.Actor{PID: pid, Start: uint64(pid), Comm: comm}
	return w
}

func (w *world) do(cs ...store.Change) {
	w.t.Helper()
	for i := range cs {
		cs[i].Actor, cs[i].Plan = w.who, w.plan
	}
	storetest.Apply(w.t, w.st, cs...)
}

// save makes an atomic save: it writes a temporary file and renames that to p.
func (w *world) save(p store.Path, data string) {
	temp := p + ".tmp"
	w.do(w.tree.Write(temp, data), w.tree.Rename(temp, p))
}

func (w *world) service() *Service {
	return &Service{store: w.st, book: attribution.OpenProcesses(w.st), paths: onwire.Paths{Root: "/p", Mountpoint: func() string { return "" }}, marks: newMarks()}
}

func (w *world) page(f store.Filter, q wire.ActionsQuery) wire.Actions {
	w.t.Helper()
	q.Lines = true
	f.Oldest = q.Oldest
	if q.Oldest {
		f.After = q.Seq
	} else {
		f.Before = q.Seq
	}
	a, err := w.service().Page(f, q)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// told returns a description of an action in one line.
func told(a wire.Action) string {
	var files []string
	for _, f := range a.Files {
		s := f.Change + " "
		if len(f.From) > 0 {
			s += string(f.From) + ">"
		}
		s += string(f.Path)
		if f.Dir {
			s += "/"
		}
		if f.Below > 0 {
			s += fmt.Sprintf(" (%d)", f.Below)
		}
		if f.Added+f.Removed > 0 {
			s += fmt.Sprintf(" +%d-%d", f.Added, f.Removed)
		}
		files = append(files, s)
	}
	s := fmt.Sprintf("%s: %d: %s", a.Command, a.Count, strings.Join(files, ", "))
	if a.Fleeting > 0 {
		s += fmt.Sprintf("; fleeting %d", a.Fleeting)
	}
	if a.Same > 0 {
		s += fmt.Sprintf("; same %d", a.Same)
	}
	return s
}

func texts(as []wire.Action) (out []string) {
	for _, a := range as {
		out = append(out, told(a))
	}
	return out
}

func (w *world) want(a wire.Actions, want ...string) {
	w.t.Helper()
	if got := texts(a.Actions); !slices.Equal(got, want) {
		w.t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// start makes a project whose files the baseline scan found long ago.
func (w *world) start(files ...store.Path) {
	w.t.Helper()
	for _, f := range files {
		c := w.tree.Write(f, "one\ntwo\n")
		c.Op = store.OpBaseline
		c.Actor = store.Actor{}
		storetest.Apply(w.t, w.st, c)
	}
	storetest.Wait(time.Hour)
}

// Each way in which programs change files is described as a person would describe it.
func TestFiles(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(w *world)
		want string
	}{
		{"atomic save", func(w *world) { w.save("a", "one\n2\n") }, "sed -i x: 1: modified a +1-1"},
		{"atomic save of a new file", func(w *world) { w.save("new", "one\n") }, "sed -i x: 1: added new +1-0"},
		{"write after write", func(w *world) { w.do(w.tree.Write("a", "1\n"), w.tree.Write("a", "one\ntwo\nthree\n")) }, "sed -i x: 1: modified a +1-0"},
		{"written as it was", func(w *world) { w.do(w.tree.Write("a", "1\n"), w.tree.Write("a", "one\ntwo\n")) }, "sed -i x: 0: ; same 1"},
		{"made and written", func(w *world) { w.do(w.tree.Write("n", ""), w.tree.Write("n", "x\n")) }, "sed -i x: 1: added n +1-0"},
		{"came and went", func(w *world) { w.do(w.tree.Write("n", "x\n"), w.tree.Remove("n")) }, "sed -i x: 0: ; fleeting 1"},
		{"deleted", func(w *world) { w.do(w.tree.Remove("a")) }, "sed -i x: 1: deleted a +0-2"},
		{"deleted and made again", func(w *world) { w.do(w.tree.Remove("a"), w.tree.Write("a", "one\n")) }, "sed -i x: 1: modified a +0-1"},
		{"renamed", func(w *world) { w.do(w.tree.Rename("a", "b")) }, "sed -i x: 1: renamed a>b"},
		{"renamed and changed", func(w *world) { w.do(w.tree.Rename("a", "b"), w.tree.Write("b", "one\n")) }, "sed -i x: 1: renamed a>b +0-1"},
		{"renamed twice", func(w *world) { w.do(w.tree.Rename("a", "b"), w.tree.Rename("b", "c")) }, "sed -i x: 1: renamed a>c"},
		{"renamed away and back", func(w *world) { w.do(w.tree.Rename("a", "b"), w.tree.Rename("b", "a")) }, "sed -i x: 0: ; same 1"},
		{"aside, written, aside deleted", func(w *world) {
			w.do(w.tree.Rename("a", "a~"), w.tree.Write("a", "one\ntwo\n3\n"), w.tree.Remove("a~"))
		}, "sed -i x: 1: modified a +1-0"},
		{"permissions", func(w *world) { w.do(w.tree.Chmod("a", 0o100755)) }, "sed -i x: 1: mode a"},
		{"a name like HTML, with a newline, invalid, and of 255 bytes", func(w *world) {
			w.do(w.tree.Write("<b>", "x\n"), w.tree.Write("a\nb", "x\n"), w.tree.Write("bad\xff", "x\n"), w.tree.Write(store.Path(strings.Repeat("n", 255)), "x\n"))
		}, "sed -i x: 4: added <b> +1-0, added a\nb +1-0, added bad\xff +1-0, added " + strings.Repeat("n", 255) + " +1-0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.process(101, 100, 101, "sed", "sed", "-i", "x")
			w.start("a")
			w.as(101, "sed")
			c.do(w)
			w.want(w.page(store.Filter{}, wire.ActionsQuery{}), c.want)
		})
	}
}

// A directory stands for everything that was deleted or renamed with it. A new directory is
// described by its contents.
func TestDirectories(t *testing.T) {
	w := newWorld(t)
	w.process(101, 100, 101, "rm", "rm", "-r", "d")
	w.start("keep")
	w.as(101, "cp").do(w.tree.Mkdir("d", storetest.DirMode), w.tree.Mkdir("d/e", storetest.DirMode), w.tree.Write("d/a", "1\n"), w.tree.Write("d/e/b", "1\n"), w.tree.Mkdir("empty", storetest.DirMode))
	storetest.Wait(time.Hour)
	w.as(101, "rm").do(w.tree.Remove("d/a"), w.tree.Remove("d/e/b"), w.tree.Remove("d/e"), w.tree.Remove("d"))
	a := w.page(store.Filter{}, wire.ActionsQuery{})
	w.want(a, "rm -r d: 2: deleted d/ (2) +0-2", "cp (pid 101): 3: added d/a +1-0, added d/e/b +1-0, added empty/")
}

// make and the commands that it runs are one job. Parallel jobs are separate, and a job that was
// inactive for a long time begins a new action.
func TestJobs(t *testing.T) {
	w := newWorld(t)
	w.process(101, 100, 101, "make", "make", "-j2")
	w.process(102, 101, 101, "sh", "sh", "-c", "cc -c a.c")
	w.process(103, 102, 101, "cc", "cc", "-c", "a.c")
	w.process(200, 100, 200, "vim", "vim", "a")
	w.start("a")
	w.as(103, "cc").do(w.tree.Write("a.o", "x\n"))
	w.as(200, "vim").do(w.tree.Write("a", "one\n"))
	w.as(101, "make").do(w.tree.Write("b.o", "x\n"))
	w.want(w.page(store.Filter{}, wire.ActionsQuery{}), "make -j2: 2: added a.o +1-0, added b.o +1-0", "vim a: 1: modified a +0-1")
	storetest.Wait(time.Minute)
	w.as(200, "vim").do(w.tree.Write("a", "1\n"))
	w.want(w.page(store.Filter{}, wire.ActionsQuery{Limit: 1}), "vim a: 1: modified a +1-1")
	w.want(w.page(store.Filter{}, wire.ActionsQuery{Together: true}), ": 3: modified a +1-2, added b.o +1-0, added a.o +1-0")
}

// If a program merges two forks one after the other, the merges can be undone separately.
func TestOwnCommandsAreActions(t *testing.T) {
	w := newWorld(t)
	w.process(200, 1, 200, "driver")
	for pid, path := range map[uint32]store.Path{201: "a", 202: "b"} {
		w.process(pid, 200, 200, "cachebro", "cachebro", "fork", "merge", string(path))
		w.as(pid, "cachebro").do(w.tree.Write(path, "merged"))
	}
	if got := w.page(store.Filter{}, wire.ActionsQuery{Limit: 9}); len(got.Actions) != 2 {
		t.Errorf("%d actions of two merges", len(got.Actions))
	}
}

// TestSeveralCommands: a line of several commands used to be shown as its newest command only, so
// "echo x >f; rm old" looked like "rm old".
func TestSeveralCommands(t *testing.T) {
	w := newWorld(t)
	w.as(100, "zsh").do(w.tree.Write("old", "1\n"))
	typed := func(line int64, pid uint32, comm string, cs ...store.Change) {
		w.as(pid, comm).who.Line = line
		w.do(cs...)
	}
	w.process(201, 100, 201, "sed", "sed", "-i", "s/1/2/", "old")
	w.process(202, 100, 202, "rm", "rm", "old")
	typed(7, 201, "sed", w.tree.Write("old", "2\n"))
	typed(7, 100, "zsh", w.tree.Write("f", "x\n"))
	typed(7, 202, "rm", w.tree.Remove("old"))
	typed(7, 100, "zsh", w.tree.Write("g", "x\n"))
	for i := range uint32(6) {
		w.process(300+i, 100, 300+i, "touch", "touch", fmt.Sprint("t", i))
		typed(8, 300+i, "touch", w.tree.Write(store.Path(fmt.Sprint("t", i)), "x\n"))
	}
	page := w.page(store.Filter{}, wire.ActionsQuery{}).Actions
	for i, want := range []string{"touch t0; touch t1; touch t2; touch t3; … and 2 more", "sed -i s/1/2/ old; zsh; rm old"} {
		if page[i].Command != want {
			t.Errorf("%q, want %q", page[i].Command, want)
		}
	}
	newest, err := w.st.Version(page[1].Last)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.st.View(func(v *store.View) error {
		_, _, said, err := w.service().ActionOf(v, newest)
		if said != page[1].Command {
			t.Errorf("an undo calls it %q", said)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// A tool call is shown with its command, its prompt and its agent. If somebody else changed one of
// its files in the meantime, the file is marked.
func TestToolCalls(t *testing.T) {
	w := newWorld(t)
	w.start("a")
	now := storetest.Now().UnixNano()
	for _, err := range []error{
		w.st.Sessions.Put(store.Session{ID: "S", Client: "claude", PID: 50, Started: now}),
		w.st.Sessions.PutPrompt(store.Prompt{ID: "P", Session: "S", Time: now, Text: "tidy up"}),
		w.st.Sessions.PutToolCall(store.ToolCall{ID: "T1", Session: "S", Prompt: "P", Tool: "Bash", Title: "sed -i s/a/b/ *\nls", Begin: now}),
		w.st.Sessions.PutToolCall(store.ToolCall{ID: "T2", Session: "S", Agent: "A", Prompt: "P", Tool: "Edit", Title: "a", Begin: now, Failed: true}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	one := store.Actor{PID: 61, Start: 61, Comm: "sed", Session: "S", Prompt: "P", ToolCall: "T1", Tool: "Bash"}
	two := store.Actor{PID: 50, Start: 50, Comm: "claude", Session: "S", Agent: "A", Prompt: "P", ToolCall: "T2", Tool: "Edit"}
	w.who = one
	w.do(w.tree.Write("a", "1\n"))
	w.who = two
	w.do(w.tree.Write("a", "2\n"))
	w.who = one
	w.do(w.tree.Write("a", "3\n"))
	a := w.page(store.Filter{}, wire.ActionsQuery{})
	w.want(a, "sed -i s/a/b/ *; ls: 1: modified a +1-2", "Edit a: 1: modified a +1-1")
	if x := a.Actions[0]; x.Files[0].Also != "Edit a" || x.Asked != "tidy up" || x.Client != "claude" || x.Failed {
		t.Errorf("%+v", x)
	}
	if x := a.Actions[1]; x.Actor.Agent != "A" || !x.Failed || x.Files[0].Also != "" {
		t.Errorf("%+v", x)
	}
}

// A sandbox creates empty placeholders in the tree for a command, and the client that ran it
// removes them. Both changes belong to the command. If the command changed nothing else, the
// command is shown as having had no effect. If somebody else removes a placeholder, or if the
// placeholder was not empty, the removal is a separate action.
func TestPlaceholders(t *testing.T) {
	w := newWorld(t)
	w.process(50, 1, 50, "claude", "claude")
	w.process(60, 50, 60, "bwrap", "bwrap", "cat", "a")
	w.process(61, 60, 60, "sh", "sh", "-c", "make it")
	w.process(70, 100, 70, "rm", "rm", "mine")
	w.start("a")
	w.as(60, "bwrap").do(w.tree.Mkdir(".claude", storetest.DirMode), w.tree.Write(".claude/settings.json", ""), w.tree.Write(".bashrc", ""))
	w.as(50, "claude").do(w.tree.Remove(".claude/settings.json"), w.tree.Remove(".claude"), w.tree.Remove(".bashrc"))
	a := w.page(store.Filter{}, wire.ActionsQuery{})
	w.want(a, "bwrap cat a: 0: ; fleeting 2")
	if !a.Actions[0].NoEffect() || len(wire.WithEffect(a.Actions)) != 0 {
		t.Errorf("it changed nothing: %+v", a.Actions[0])
	}
	err := w.st.View(func(v *store.View) error {
		newest, err := v.Version(v.Seq())
		if err != nil {
			return err
		}
		_, span, _, err := w.service().ActionOf(v, newest)
		if span.First != a.Actions[0].First || span.Last != a.Actions[0].Last {
			t.Errorf("undo takes %+v, the log shows %+v", span, a.Actions[0])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	storetest.Wait(time.Hour)
	w.as(61, "sh").do(w.tree.Write("mine", ""), w.tree.Write("full", "x\n"))
	w.as(70, "rm").do(w.tree.Remove("mine"))
	w.as(50, "claude").do(w.tree.Remove("full"))
	w.want(w.page(store.Filter{}, wire.ActionsQuery{Limit: 3}), "claude: 1: deleted full +0-1", "rm mine: 1: deleted mine", "bwrap cat a: 2: added full +1-0, added mine")
}

// Small pages together show the same actions as one large page, in both directions and with
// parallel jobs.
func TestPages(t *testing.T) {
	w := newWorld(t)
	for i := uint32(0); i < 12; i++ {
		w.process(200+i, 100, 200+i, "p", "p", fmt.Sprint(i))
	}
	for i := range 60 {
		n := uint32(i*7%4 + i/20*4)
		w.as(200+n, "p").do(w.tree.Write(store.Path(fmt.Sprintf("f%d", i)), "x\n"))
		if i%20 == 19 {
			storetest.Wait(time.Minute)
		}
	}
	for _, oldest := range []bool{false, true} {
		all := w.page(store.Filter{}, wire.ActionsQuery{Oldest: oldest})
		if len(all.Actions) != 12 || all.More {
			t.Fatalf("%d actions: %v", len(all.Actions), texts(all.Actions))
		}
		for _, limit := range []int{1, 2, 3, 5} {
			var got []string
			q := wire.ActionsQuery{Oldest: oldest, Limit: limit}
			for {
				a := w.page(store.Filter{}, q)
				got = append(got, texts(a.Actions)...)
				if !a.More {
					break
				}
				if len(a.Actions) != limit || len(got) > 50 {
					t.Fatalf("a page of %d has %d actions", limit, len(a.Actions))
				}
				q.Seq, q.Skip = a.Seq, a.Skip
			}
			if !slices.Equal(got, texts(all.Actions)) {
				t.Errorf("oldest %v, pages of %d:\n\t%s\nwant\n\t%s", oldest, limit, strings.Join(got, "\n\t"), strings.Join(texts(all.Actions), "\n\t"))
			}
		}
	}
}

// The newest actions are found without reading the whole log.
func TestReadsNoFurther(t *testing.T) {
	w := newWorld(t)
	for i := range 200 {
		w.as(uint32(1000+i), "p").do(w.tree.Write(store.Path(fmt.Sprint("f", i)), "x\n"))
		storetest.Wait(time.Minute)
	}
	read := 0
	f := store.Filter{Match: func(store.Version) bool { read++; return true }}
	if a := w.page(f, wire.ActionsQuery{Limit: 3}); len(a.Actions) != 3 || !a.More {
		t.Errorf("%d actions, more %v", len(a.Actions), a.More)
	}
	if read > 10 {
		t.Errorf("%d versions were read for 3 actions of one each", read)
	}
}

// If an action has thousands of versions in a row, only some of them are read, but its whole span
// is reported. Earlier actions, and the actions of others during it, are reported completely.
func TestLongActionIsNotReadWhole(t *testing.T) {
	w := newWorld(t)
	w.start("a", "d/f7")
	w.as(300, "vim").do(w.tree.Write("a", "one\n"))
	first := w.st.Seq() + 1
	many := func(n int) {
		w.as(301, "gen")
		for n > 0 {
			var cs []store.Change
			for range min(n, 500) {
				cs = append(cs, w.tree.Write(store.Path(fmt.Sprintf("d/f%d", n%1000)), fmt.Sprint("text ", n, "\n")))
				storetest.Wait(time.Second)
				n--
			}
			w.do(cs...)
		}
	}
	many(9000)
	w.as(302, "nano").do(w.tree.Write("a", "two\n"))
	many(6000)
	last := w.st.Seq()
	w.as(303, "emacs").do(w.tree.Write("a", "three\n"))
	for _, oldest := range []bool{false, true} {
		read := 0
		f := store.Filter{Match: func(store.Version) bool { read++; return true }}
		got := w.page(f, wire.ActionsQuery{Limit: 10, Oldest: oldest}).Actions
		if oldest {
			slices.Reverse(got)
		}
		if len(got) != 4 || read > 8000 {
			t.Fatalf("oldest first %v: %d actions of 4, %d versions read", oldest, len(got), read)
		}
		for _, x := range got {
			switch x.Actor.Comm {
			case "gen":
				if !x.Least || x.First != first || x.Last != last || x.Versions != 15000 || x.Count != 1000 {
					t.Errorf("oldest first %v: %d-%d, want %d-%d, %d versions, %d files, least %v", oldest, x.First, x.Last, first, last, x.Versions, x.Count, x.Least)
				}
				for _, file := range x.Files {
					want := wire.FileAdded
					if string(file.Path) == "d/f7" {
						want = wire.FileModified
					}
					if file.Change != want {
						t.Errorf("oldest first %v: %s is shown as %s", oldest, file.Path, file.Change)
					}
				}
			default:
				if x.Least || x.Versions != 1 || x.Count != 1 {
					t.Errorf("%s: %+v", x.Actor.Comm, x)
				}
			}
		}
	}
}

// ActionOf assigns each version to the action that the page shows for it, even with parallel jobs,
// pauses and tool calls.
func TestOfIsWhatThePageTells(t *testing.T) {
	w := newWorld(t)
	w.process(101, 100, 101, "make", "make", "-j2")
	for i := uint32(0); i < 4; i++ {
		w.process(110+i, 101, 101, "cc", "cc", fmt.Sprint(i))
		w.process(200+i, 100, 200+i, "p", "p", fmt.Sprint(i))
	}
	w.start("a")
	for i := range 80 {
		pid := []uint32{110, 200}[i*5%2] + uint32(i*7%4)
		if w.as(pid, "x"); i%9 == 4 {
			w.who.ToolCall = fmt.Sprint("T", i/40)
		}
		w.do(w.tree.Write(store.Path(fmt.Sprint("f", i%17)), fmt.Sprintln(i)))
		if i%20 == 19 {
			storetest.Wait(time.Minute)
		}
	}
	s := w.service()
	pages := w.page(store.Filter{}, wire.ActionsQuery{}).Actions
	if len(pages) < 15 {
		t.Fatalf("%d actions", len(pages))
	}
	err := w.st.View(func(v *store.View) error {
		told := map[string]int{}
		for _, a := range pages {
			told[fmt.Sprint(a.Key, a.First, a.Last)] = a.Versions
		}
		return v.Each(store.Filter{}, func(of store.Version) bool {
			has, span, _, err := s.ActionOf(v, of)
			if err != nil {
				t.Fatal(err)
			}
			selected := 0
			if err := v.Each(store.Filter{Match: has}, func(store.Version) bool { selected++; return true }); err != nil {
				t.Fatal(err)
			}
			if want := told[fmt.Sprint(span.Key, span.First, span.Last)]; selected != want || !has(of) {
				t.Errorf("#%d: %d versions of %v; the page tells %d", of.Seq, selected, span, want)
			}
			return true
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// An action that is too long to list is summarised by directory where necessary. Deletions are
// listed first, and the counts include everything.
func TestFold(t *testing.T) {
	w := newWorld(t)
	w.process(101, 100, 101, "sh", "sh", "-c", "x")
	var all []store.Path
	for i := range 12 {
		all = append(all, store.Path(fmt.Sprintf("http/c%02d", i)), store.Path(fmt.Sprintf("web/a/b%d/f", i)))
	}
	w.start(append(all, "main", "old", "web/top")...)
	w.as(101, "sh")
	for _, p := range append(all, "main") {
		w.do(w.tree.Write(p, "one\n2\n"))
	}
	w.do(w.tree.Remove("old"), w.tree.Rename("web/top", "web/moved"))
	for i := range 20 {
		c := w.tree.Write(store.Path(fmt.Sprintf("out/o%02d", i)), "x\n")
		c.Class = 1
		w.do(c)
	}
	for _, x := range []struct {
		most int
		want string
	}{
		{5, "x: 47: deleted old +0-2, renamed web/top>web/moved, modified http/ (12) +12-12, modified main +1-1, modified web/a/ (12) +12-12"},
		{20, "x: 47: deleted old +0-2, renamed web/top>web/moved, modified http/c00 +1-1, modified http/c01 +1-1,"},
		{3, "x: 47: deleted old +0-2, renamed web/top>web/moved, modified / (25) +25-25"},
		{2, "x: 47: deleted old +0-2, renamed web/top>web/moved"},
	} {
		a := w.page(store.Filter{}, wire.ActionsQuery{Files: x.most, Fold: true, Limit: 1})
		if got := told(a.Actions[0]); !strings.HasPrefix(got, x.want) {
			t.Errorf("%d: %s", x.most, got)
		}
	}
	whole := w.page(store.Filter{}, wire.ActionsQuery{Files: 47, Fold: true, Limit: 1}).Actions[0]
	if len(whole.Files) != 47 || slices.ContainsFunc(whole.Files, func(f wire.ActionFile) bool { return f.Folded }) {
		t.Errorf("there is room for all: %s", told(whole))
	}
	folded := w.page(store.Filter{}, wire.ActionsQuery{Files: 5, Fold: true, Limit: 1}).Actions[0]
	if !folded.Files[2].Folded || !folded.Files[2].Dir || folded.Added != whole.Added || folded.Removed != whole.Removed {
		t.Errorf("%+v", folded.Files[2])
	}
}

// If a plan renames a file to a temporary name and then removes it, the log shows that the file was
// removed, and never shows the temporary name.
func TestRemovedByAPlan(t *testing.T) {
	w := newWorld(t)
	w.as(100, "zsh").do(w.tree.Write("a.txt", "one\n"))
	storetest.Wait(time.Minute)
	w.process(200, 100, 200, "cachebro", "cachebro", "redo")
	w.plan = "redo-1"
	aside := store.Path(".cachebro-redo-1-1~")
	w.as(200, "cachebro").do(w.tree.Rename("a.txt", aside), w.tree.Remove(aside))
	a := w.page(store.Filter{}, wire.ActionsQuery{Limit: 1})
	if len(a.Actions) != 1 || len(a.Actions[0].Files) != 1 {
		t.Fatalf("%+v", a.Actions)
	}
	if f := a.Actions[0].Files[0]; string(f.Path) != "a.txt" || f.Change != wire.FileDeleted || f.Removed != 1 {
		t.Errorf("%+v", f)
	}
}
