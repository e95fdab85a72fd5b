package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"
)

const crashDir = "CACHEBRO_STORE_CRASH_DIR"

// bigTree is large enough that its rename takes several transactions.
const bigTree = 2500

// crashBatch returns batch i of an endless sequence: three files, and every tenth time the rename
// of a large directory.
func crashBatch(i uint64) []Change {
	stat := Stat{Mode: fileMode, Nlink: 1}
	var cs []Change
	for f := range 3 {
		text := fmt.Appendf(nil, "batch %d, file %d\n%s", i, f, bytes.Repeat([]byte("text\n"), int(i%50)))
		st := stat
		st.Size = int64(len(text))
		cs = append(cs, Change{Op: OpWrite, Path: Path(fmt.Sprintf("f%d", f)), Time: int64(i), HasContent: true, Content: text, Stat: st})
	}
	dir := Stat{Mode: dirMode}
	switch {
	case i == 1:
		cs = append(cs, Change{Op: OpMkdir, Path: "big0", Stat: dir})
		for f := range bigTree {
			cs = append(cs, Change{Op: OpCreate, Path: Path(fmt.Sprintf("big0/file%d", f)), HasContent: true, Content: fmt.Append(nil, f), Stat: stat})
		}
	case i%10 == 0:
		cs = append(cs, Change{Op: OpRename, Path: Path(fmt.Sprintf("big%d", i/10-1)), Path2: Path(fmt.Sprintf("big%d", i/10)), Stat: dir})
	}
	return cs
}

// crashSeq returns the number of the newest version after batch i.
func crashSeq(i uint64) uint64 {
	if i == 0 {
		return 0
	}
	return 3*i + bigTree + 1 + i/10*2*(bigTree+1)
}

// TestCrashChild is the process that TestKill starts and kills. In any other run it does nothing.
func TestCrashChild(t *testing.T) {
	dir := os.Getenv(crashDir)
	if dir == "" {
		return
	}
	s, err := Open(dir, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	for i := crashAt(s) + 1; ; i++ {
		if _, err := s.Apply(context.Background(), crashBatch(i), binary.BigEndian.AppendUint64(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
}

func crashAt(s *Store) uint64 {
	if cp := s.Checkpoint(); len(cp) == 8 {
		return binary.BigEndian.Uint64(cp)
	}
	return 0
}

// Whenever the process is killed, the store holds each batch up to the checkpoint exactly once, and
// nothing of later batches.
func TestKill(t *testing.T) {
	if os.Getenv(crashDir) != "" {
		return
	}
	dir := t.TempDir()
	rounds := 20
	if testing.Short() {
		rounds = 4
	}
	midway := 0
	for round := range rounds {
		cmd := exec.Command(os.Args[0], "-test.run=^TestCrashChild$")
		cmd.Env = append(os.Environ(), crashDir+"="+dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(80*time.Millisecond + rand.N(250*time.Millisecond))
		cmd.Process.Kill()
		cmd.Wait()
		s, err := Open(dir, testOptions())
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		i := crashAt(s)
		if s.Seq() != crashSeq(i) {
			t.Fatalf("round %d: %d versions after batch %d, want %d", round, s.Seq(), i, crashSeq(i))
		}
		if i > 0 {
			want := string(crashBatch(i)[2].Content)
			if got := contentOf(t, s, "f2"); got != want {
				t.Fatalf("round %d: f2 is %.40q, want %.40q", round, got, want)
			}
			n := 0
			s.Live(Path(fmt.Sprintf("big%d", i/10)), func(Version) error { n++; return nil })
			all := 0
			s.Live("", func(Version) error { all++; return nil })
			if n != bigTree+1 || all != bigTree+4 {
				t.Fatalf("round %d: %d of %d paths in the big tree, %d in all", round, n, bigTree+1, all)
			}
			if (i+1)%10 == 0 {
				midway++
			}
		}
		if round == rounds-1 {
			checked(t, s)
			t.Logf("%d rounds, %d batches, %d versions; killed %d times around a large rename", rounds, i, s.Seq(), midway)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A batch that is applied again with the same checkpoint is stored once.
func TestFeedTwice(t *testing.T) {
	s := fresh(t)
	for range 2 {
		if _, err := s.Apply(context.Background(), crashBatch(2), []byte("two")); err != nil {
			t.Fatal(err)
		}
	}
	if s.Seq() != 3 {
		t.Fatalf("%d versions, want 3", s.Seq())
	}
}
