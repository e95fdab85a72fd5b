package history

import (
	"bufio"
	"strings"
	"syscall"
	"testing"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/wire"
)

// The store has a version for every file below a renamed directory; the log shows one line.
func TestDirectoryRenameIsOneLine(t *testing.T) {
	at := time.Date(2026, 5, 10, 11, 0, 0, 0, time.UTC)
	mv := wire.Actor{PID: 7, Comm: "mv"}
	version := func(seq uint64, op, from, path string, mode uint32) wire.Version {
		return wire.Version{Seq: seq, Op: op, From: []byte(from), Path: []byte(path), Mode: mode, Time: at, Actor: mv}
	}
	var out strings.Builder
	l := &logPrinter{Env: &cli.Env{}, out: bufio.NewWriter(&out), clock: at.Add(time.Hour)}
	later := version(9, "rename", "x", "y", syscall.S_IFREG)
	later.Time = at.Add(time.Second)
	for _, v := range []wire.Version{
		later,
		version(8, "rename", "a/d/2", "b/d/2", syscall.S_IFREG), version(7, "moved", "", "a/d/2", syscall.S_IFREG),
		version(6, "rename", "a/1", "b/1", syscall.S_IFREG), version(5, "rename", "a/d", "b/d", syscall.S_IFDIR),
		version(4, "rename", "a", "b", syscall.S_IFDIR),
		version(3, "create", "", ".cachebro-revert-6-9-1~", syscall.S_IFREG),
		version(2, "write", "", "a/1", syscall.S_IFREG),
	} {
		if err := l.add(v, wire.LogAnswer{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.flush(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], "x -> y") || !strings.HasSuffix(lines[1], "a -> b  (2 files in it)") || !strings.HasPrefix(lines[2], "2 ") {
		t.Errorf("%s", out.String())
	}
}

// TestGapOutside: a content of the history of / that was not saved is listed under its absolute path, like
// the versions of that history.
func TestGapOutside(t *testing.T) {
	for root, want := range map[string]string{wire.OutsideRoot: ": /etc/a (", "/home/ann/app": ": etc/a ("} {
		lines := asides(root, cli.Paint{}, time.Now(), 5, []wire.Gap{{Path: []byte("etc/a"), Reason: "no space"}}, nil)
		if len(lines) != 1 || !strings.Contains(lines[0].text, want) {
			t.Errorf("%s: %v does not contain %q", root, lines, want)
		}
	}
}
