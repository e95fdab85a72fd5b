package hooks

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func entry(uuid, parent, msg, tool string) string {
	p := "null"
	if parent != "" {
		p = `"` + parent + `"`
	}
	if tool == "" {
		return fmt.Sprintf(`{"uuid":"%s","parentUuid":%s,"type":"user","isSidechain":false,"message":{"role":"user","content":"x"}}`+"\n", uuid, p)
	}
	return fmt.Sprintf(`{"uuid":"%s","parentUuid":%s,"type":"assistant","isSidechain":false,"message":{"id":"%s","content":[{"type":"text","text":"x"},{"type":"tool_use","id":"%s","input":{}}]}}`+"\n", uuid, p, msg, tool)
}

type script struct {
	t    *testing.T
	c    *call
	file string
}

func newScript(t *testing.T) *script {
	p := newProject(t)
	return &script{t, &call{scene: scene{env: Env{Paths: p.paths, Now: time.Now}, event: event{session: "s1"}, root: p.root}}, filepath.Join(t.TempDir(), "t.jsonl")}
}

func (s *script) write(lines ...string) {
	s.t.Helper()
	f, err := os.OpenFile(s.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(strings.Join(lines, "")); err != nil {
		s.t.Fatal(err)
	}
}

// want checks which calls are on the chain of a call. Each check is a process of its own.
func (s *script) want(tool string, ids ...string) {
	s.t.Helper()
	got := s.c.chain().alive(s.file, tool)
	slices.Sort(got)
	if !slices.Equal(got, ids) {
		s.t.Errorf("chain of %s: %v, want %v", tool, got, ids)
	}
}

func TestChain(t *testing.T) {
	s := newScript(t)
	s.c.chain().begin(s.file) // before there is a transcript
	s.write(entry("u1", "", "", ""), entry("a1", "u1", "m1", "t1"), entry("r1", "a1", "", ""))
	s.want("t1", "t1")
	s.want("t9")
	s.write(entry("a2", "r1", "m2", "t2"), entry("r2", "a2", "", ""))
	s.want("t2", "t1", "t2")
	// The person returns to a point before t2, so the new branch does not contain t2.
	s.write(entry("u3", "r1", "", ""), entry("a3", "u3", "m3", "t3"))
	s.want("t3", "t1", "t3")
	// Parallel calls are entries of one message, and the chain goes through one of them.
	s.write(entry("a4", "a3", "m4", "t4"), entry("a5", "a4", "m4", "t5"), entry("a6", "a5", "m4", "t6"),
		entry("r4", "a4", "", ""), entry("r6", "a6", "", ""), entry("r5", "a5", "", ""), entry("a7", "r5", "m7", "t7"))
	s.want("t7", "t1", "t3", "t4", "t5", "t6", "t7")
	// A compaction begins a new chain.
	s.write(entry("c1", "", "", ""), entry("a8", "c1", "m8", "t8"))
	s.want("t8", "t8")
	// Entries of sub-agents in the same file, and lines that are not entries, are ignored.
	s.write("not json\n", `{"type":"summary"}`+"\n", strings.Replace(entry("x", "a8", "m9", "t9"), "false", "true", 1))
	s.want("t9")
	// A line that is still being written is read later.
	line := entry("a10", "a8", "m10", "t10")
	s.write(line[:40])
	s.want("t10")
	s.write(line[40:])
	s.want("t10", "t10", "t8")
}

// Entries that were written before the session was first seen are not indexed, so no answer can be
// based on them.
func TestChainBeginsWhereSeen(t *testing.T) {
	s := newScript(t)
	s.write(entry("u1", "", "", ""), entry("a1", "u1", "m1", "t1"))
	s.c.chain().begin(s.file)
	s.write(entry("a2", "a1", "m2", "t2"))
	s.want("t2", "t2")
}

func TestChainUnreadable(t *testing.T) {
	s := newScript(t)
	s.want("t1") // there is no file
	s.write(entry("u1", "", "", ""), entry("a1", "u1", "m1", "t1"))
	s.want("t1", "t1")
	if err := os.Truncate(s.file, 10); err != nil {
		t.Fatal(err)
	}
	s.want("t1")
	if err := s.c.chain().advance(filepath.Join(t.TempDir(), "gone")); err == nil {
		t.Error("a missing transcript was read")
	}
}

func TestChainJudgedOncePerPrompt(t *testing.T) {
	s := newScript(t)
	if s.c.chain().wasChecked("p1") || s.c.chain().wasChecked("") {
		t.Error("judged before")
	}
	s.c.chain().markChecked("p1")
	if !s.c.chain().wasChecked("p1") || s.c.chain().wasChecked("p2") {
		t.Error("not noted")
	}
}

func TestChainLongLines(t *testing.T) {
	s := newScript(t)
	s.c.chain().begin(s.file)
	long := strings.Replace(entry("a1", "", "m1", "t1"), `"text":"x"`, `"text":"`+strings.Repeat("y", 3<<20)+`"`, 1)
	s.write(long, entry("a2", "a1", "m2", "t2"))
	s.want("t2", "t1", "t2")
}

// A client's id cannot lead out of the directory.
func TestChainFileName(t *testing.T) {
	for _, id := range []string{"../../etc/x", "a/b", "", strings.Repeat("a", 300), "a\x00b"} {
		if n := fileName(id); id != "" && (strings.ContainsAny(n, "/\x00.") || len(n) > 64) {
			t.Errorf("%q becomes %q", id, n)
		}
	}
}
