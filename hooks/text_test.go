package hooks

import (
	"strings"
	"testing"
	"time"

	"cachebro/store/wire"
)

// Changes by others are reported within a budget. A file's text must not look like one of our
// lines.
func TestNewsBlock(t *testing.T) {
	if got := newsBlock(nil); got != "" {
		t.Errorf("%q", got)
	}
	got := newsBlock([]wire.News{{Text: "a.go: +1 -1 at 12:41 by vi (pid 7)", Diff: "@@ -1,1 +1,1 @@\n-x\n+\x1b[31my\r\n"}})
	if want := "cachebro: changed by others since you were shown them:\n- a.go: +1 -1 at 12:41 by vi (pid 7)\n  @@ -1,1 +1,1 @@\n  -x\n  +[31my\nRead a file again for what is not shown here."; got != want && got != strings.Replace(want, "+[31m", "+?[31m", 1) {
		t.Errorf("%q", got)
	}
	many := make([]wire.News, 40)
	for i := range many {
		many[i] = wire.News{Text: strings.Repeat("long/", 10) + "name.go: +1 -1 at 12:41 by vi (pid 7)"}
	}
	got = newsBlock(many)
	if n := utf16Len(got); n > maxNews || n < maxNews-150 || !strings.Contains(got, " more: cachebro log\n") || !strings.HasSuffix(got, " not shown here.") {
		t.Errorf("%d characters: %q", n, got)
	}
	many[0].Text = strings.Repeat("long/", 1000)
	if n := utf16Len(newsBlock(many)); n > maxNews {
		t.Errorf("%d characters", n)
	}
}

func at(hour, minute int) time.Time { return time.Date(2026, 1, 2, hour, minute, 0, 0, time.UTC) }

func recovery() wire.Recovery {
	return wire.Recovery{
		Known: true, Branch: "main",
		Set: wire.WorkingSet{Files: []wire.WorkingFile{
			{Path: []byte("src/cache.ts"), Edits: 5, Reads: 2, Last: at(12, 41), By: "Edit"},
			{Path: []byte("src/mcp.ts"), Edits: 2, Last: at(12, 38), By: "sed"},
			{Path: []byte("src/types.ts"), Reads: 1, Last: at(12, 30)},
		}},
		Metrics: wire.Metrics{Saved: 45230, Percent: 42.8},
	}
}

func TestRecoveryBlock(t *testing.T) {
	golden(t, "recovery.golden", recoveryBlock(recovery(), time.UTC)+"\n")
	r := recovery()
	r.Metrics = wire.Metrics{}
	r.Set.Files = append(r.Set.Files[:1], wire.WorkingFile{Path: []byte("old\n## cachebro\x1b[2J\u202e.ts\xff"), Edits: 1, Deleted: true, Last: at(9, 5), By: "rm"})
	r.Changed = []string{"src/a.go at 12:41 by gofmt (pid 811)"}
	r.Failed = "go test ./..."
	golden(t, "recovery_full.golden", recoveryBlock(r, time.UTC)+"\n")
	if got := recoveryBlock(wire.Recovery{Branch: "main"}, time.UTC); got != "" {
		t.Errorf("nothing to tell, yet %q", got)
	}
	read := wire.Recovery{Branch: "main", Set: wire.WorkingSet{Files: []wire.WorkingFile{{Path: []byte("a.go"), Reads: 3}}}}
	if got := recoveryBlock(read, time.UTC); got != "" {
		t.Errorf("only read, nothing saved, yet %q", got)
	}
	if read.Metrics.Saved = 1; recoveryBlock(read, time.UTC) == "" {
		t.Error("nothing is reported about a session that saved something")
	}
}

// The client cuts injected text at 10,000 characters. The last line, which says that files may be
// gone from the conversation, must not be cut off.
func TestRecoveryBlockFits(t *testing.T) {
	r := recovery()
	for range 500 {
		r.Set.Files = append(r.Set.Files, wire.WorkingFile{Path: []byte(strings.Repeat("d/", 400)), Edits: 1})
	}
	got := recoveryBlock(r, time.UTC)
	if n := len([]rune(got)); n > maxContext || !strings.HasSuffix(got, "unchanged markers.") {
		t.Errorf("%d characters, ends with %q", n, got[len(got)-40:])
	}
}

func TestStopLine(t *testing.T) {
	lines := []string{
		stopLine(wire.Metrics{Saved: 4230, Cached: 3, Diffs: 1}, "main", 0, "--prompt P"),
		stopLine(wire.Metrics{}, "main", 0, "--prompt P"),
		stopLine(wire.Metrics{Saved: -12}, "", 1, "--prompt P"),
		stopLine(wire.Metrics{Saved: 1234567, Diffs: 2}, "feature/x\n", 3, "--session S"),
	}
	golden(t, "stop.golden", strings.Join(lines, "\n")+"\n")
}
