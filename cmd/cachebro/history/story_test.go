package history

import (
	"bufio"
	"strings"
	"testing"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/wire"
)

// Changes of git's own files are listed under the prompt that made them, above and below the files
// that the prompt changed. A person's change in between is not listed there.
func TestGitOperationsStandUnderTheirPrompt(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 5, 1, 12, 0, s, 0, time.Local) }
	agent := wire.Actor{Session: "sess", Prompt: "p1"}
	var b strings.Builder
	s := &story{out: bufio.NewWriter(&b), width: 200, clock: at(50)}
	s.gitOps([]wire.GitOp{
		{ID: 9, End: at(9), Command: "git tag v2", Text: "new tag"},
		{ID: 8, End: at(8), Actor: agent, Command: "git commit", Text: "main"},
		{ID: 5, End: at(5), Command: "git fetch", Text: "origin"},
		{ID: 3, End: at(3), Actor: agent, Command: "git add", Text: "index"},
	})
	for _, n := range []int{7, 4} {
		a := wire.Action{Last: uint64(n), End: at(n), Actor: agent, Command: "edit", Asked: "Do it"}
		s.printAsides(&a)
		if _, err := s.out.WriteString(s.heading(a) + "#" + a.Command + "\n"); err != nil {
			t.Fatal(err)
		}
		s.any = true
	}
	s.printAsides(nil)
	if err := s.out.Flush(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(b.String()) {
		f := strings.Fields(line)
		if len(f) > 0 {
			got = append(got, strings.Repeat(" ", len(line)-len(strings.TrimLeft(line, " ")))+f[0])
		}
	}
	want := "g9|“Do|  g8|  #edit|g5|  #edit|  g3"
	if s := strings.Join(got, "|"); s != want {
		t.Errorf("got  %s\nwant %s\n%s", s, want, &b)
	}
}

// A line for several files says that its count is partial if not all of them were compared.
func TestPartialCount(t *testing.T) {
	f := wire.ActionFile{Path: []byte("d"), Dir: true, Folded: true, Below: 9, Change: wire.FileModified, Added: 2, Counted: true}
	for want, counted := range map[string]bool{"M d/*  9 files  +2 -0": true, "M d/*  9 files  at least +2 -0": false} {
		f.Counted = counted
		if got := fileLine(cli.Paint{}, f); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The counts of an action with very many versions are lower bounds. If none of the newest versions
// changed anything, the versions are counted instead: "at least 0 files" said nothing.
func TestCountsOfManyVersions(t *testing.T) {
	for want, a := range map[string]wire.Action{
		"at least 2 files, +3 -0 lines":      {Least: true, Count: 2, Added: 3, Versions: 9000},
		"9000 versions":                      {Least: true, Versions: 9000},
		"2 files rewritten without a change": {Versions: 2, Same: 2},
	} {
		if got := countsOf(cli.Paint{}, a); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
