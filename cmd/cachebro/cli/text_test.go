package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cachebro/store/wire"

	"github.com/spf13/cobra"
)

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"plain.txt": "plain.txt", "with space": "with space", "umläut": "umläut", "日本": "日本",
		"new\nline": `"new\nline"`, "tab\t": `"tab\t"`, `quo"te`: `"quo\"te"`, `back\slash`: `"back\\slash"`,
		"\xff\xfe": `"\377\376"`, "esc\x1b[31m": `"esc\033[31m"`, "\u202egnp.exe": `"\342\200\256gnp.exe"`, "": "",
	} {
		if got := Quote(in); got != want {
			t.Errorf("quote(%q) = %s, want %s", in, got, want)
		}
	}
}

// An argument in a printed command must be one word for the shell into which the command is pasted,
// whatever the path is.
func TestArgIsOneWordOfTheShell(t *testing.T) {
	for _, in := range []string{
		"plain.txt", "with space", "it's", `quo"te`, `back\slash`, "new\nline", "tab\t", "$HOME", "`id`", "a;b", "a&b", "(x)", "*?[a]", "~/x", "!x", "#x", "a=b",
		"umläut", "日本", "\xff\xfe", "esc\x1b[31m", "\u202egnp.exe", "", "-n", "'\n'", "{a,b}", "x|y", "<x>",
	} {
		out, err := exec.Command("bash", "-c", "printf '%s\\0' "+Arg(in)).Output()
		if err != nil || string(out) != in+"\x00" {
			t.Errorf("%q as %s is read as %q, %v", in, Arg(in), out, err)
		}
		if printed := Arg(in); strings.ContainsAny(printed, "\n\x1b\t") {
			t.Errorf("%q: control characters in %q", in, printed)
		}
	}
	if got := Arg("/home/me/日本/a-b_c.go"); got != "/home/me/日本/a-b_c.go" {
		t.Errorf("quoted without need: %s", got)
	}
}

func TestOneLine(t *testing.T) {
	if got := OneLine("a\nb\x1b[0m\tc"); got != "a b\ufffd[0m c" {
		t.Errorf("%q", got)
	}
}

func TestParseVersion(t *testing.T) {
	now := time.Date(2026, 5, 10, 12, 0, 0, 0, time.UTC)
	at := func(y int, m time.Month, d, h, min int) wire.ShowQuery {
		return wire.ShowQuery{At: time.Date(y, m, d, h, min, 0, 0, time.UTC)}
	}
	for in, want := range map[string]wire.ShowQuery{
		"@3": {Number: 3}, "-1": {Number: -1}, "@-1": {Number: -1}, "812": {Seq: 812}, "#812": {Seq: 812}, "@#812": {Seq: 812},
		"11:40": at(2026, 5, 10, 11, 40), "12:40": at(2026, 5, 9, 12, 40), // 12:40 has not come yet today, so yesterday's is meant
		"2026-05-01 12:40": at(2026, 5, 1, 12, 40), "2026-05-01": at(2026, 5, 1, 0, 0), "10m": at(2026, 5, 10, 11, 50), "1d": at(2026, 5, 9, 12, 0),
	} {
		got, ok := parseVersion(in, now)
		if !ok || got.Number != want.Number || got.Seq != want.Seq || !got.At.Equal(want.At) {
			t.Errorf("%q: %+v, %v; want %+v", in, got, ok, want)
		}
	}
	for _, bad := range []string{"", "0", "@0", "@", "#0", "#-1", "#x", "example.org", "-10m", "25:00", "10x"} {
		if got, ok := parseVersion(bad, now); ok {
			t.Errorf("%q was taken for %+v", bad, got)
		}
	}
}

func TestSplitVersion(t *testing.T) {
	dir := t.TempDir()
	e := &Env{Dir: dir, Now: time.Now, Cmd: &cobra.Command{Use: "show"}}
	write := func(name string) {
		t.Helper()
		if err := writeFile(dir, name); err != nil {
			t.Fatal(err)
		}
	}
	write("a@2")
	for _, c := range []struct {
		in, path string
		number   int
		seq      uint64
	}{
		{"a.txt@3", "a.txt", 3, 0}, {"a.txt", "a.txt", 0, 0}, {"a@2", "a@2", 0, 0}, {"a@2@1", "a@2", 1, 0},
		{"me@example.org", "me@example.org", 0, 0}, {"x@#9", "x", 0, 9}, {"#12", "", 0, 12},
	} {
		path, q, err := e.SplitVersion(c.in)
		if err != nil || path != c.path || q.Number != c.number || q.Seq != c.seq {
			t.Errorf("%s: %q %+v %v", c.in, path, q, err)
		}
	}
	if _, _, err := e.SplitVersion("#x"); err == nil {
		t.Error("#x was accepted")
	}
}

func TestVersionLine(t *testing.T) {
	now := time.Date(2026, 5, 10, 12, 0, 0, 0, time.UTC)
	v := wire.Version{Seq: 812, Number: 3, Path: []byte("src/a\nb.go"), Op: "write", Size: 1234, Time: now.Add(-time.Minute), Actor: wire.Actor{PID: 811, Comm: "sed", Session: "0123456789abcdef", Tool: "Bash"}}
	for _, c := range []struct {
		v    wire.Version
		one  bool
		want string
	}{
		{v, false, `812       11:59:00  write        1234 B  sed[811]              "src/a\nb.go"  [0123456789abc Bash]`},
		{v, true, `@3    812  11:59:00  write        1234 B  sed[811]              "src/a\nb.go"  [0123456789abc Bash]`},
		{wire.Version{Seq: 7, Op: "rename", Path: []byte("b"), From: []byte("a"), Time: now.AddDate(-1, 0, 0)}, false,
			`7         2025-05-10  rename          0 B  -                     a -> b`},
		{wire.Version{Seq: 8, Op: "unlink", Path: []byte("b"), Deleted: true, Time: now.AddDate(0, 0, -3), NoContent: "gap: store too slow", Actor: wire.Actor{Comm: "outside"}}, false,
			`8         May  7 12:00  unlink            -  outside               b  (gap: store too slow)`},
	} {
		if got := VersionLine(c.v, Paint{}, c.one, now); got != c.want {
			t.Errorf("\n got %s\nwant %s", got, c.want)
		}
	}
}

func writeFile(dir, name string) error {
	return os.WriteFile(filepath.Join(dir, name), nil, 0o644)
}
