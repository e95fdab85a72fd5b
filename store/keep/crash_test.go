package keep

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"
)

const tidyDir = "CACHEBRO_STORE_TIDY_DIR"

// TestTidyChild is the process that TestKillCollection starts and kills. It writes, prunes,
// collects and purges in an endless loop. In any other run it does nothing.
func TestTidyChild(t *testing.T) {
	dir := os.Getenv(tidyDir)
	if dir == "" {
		return
	}
	o := testOptions()
	o.Cap, o.KeepAge = 6*mib, time.Nanosecond
	s, err := opened(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	text := noise(rnd, 400)
	for i := 0; ; i++ {
		copy(text[rnd.IntN(len(text)-60):], fmt.Sprintf("%050d", i))
		var cs []Change
		for f := range 4 {
			cs = append(cs, Change{Op: OpWrite, Path: Path(fmt.Sprintf("f%d", f)), Time: time.Now().UnixNano(), HasContent: true,
				Content: append(fmt.Appendf(nil, "%d\n", f), text...), Stat: Stat{Mode: fileMode, Nlink: 1, Size: 1}})
		}
		if _, err := s.Apply(context.Background(), cs, nil); err != nil {
			t.Fatal(err)
		}
		switch i % 12 {
		case 5:
			_, err = s.Prune(context.Background(), 2, "")
		case 8:
			_, err = s.Collect(context.Background())
		case 11:
			_, err = s.Purge(context.Background(), "f3")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Whenever a prune, a collection or a purge is killed, the present contents of files can be read
// and fsck finds no problem.
func TestKillCollection(t *testing.T) {
	if os.Getenv(tidyDir) != "" {
		return
	}
	dir := t.TempDir()
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	for round := range rounds {
		cmd := exec.Command(os.Args[0], "-test.run=^TestTidyChild$")
		cmd.Env = append(os.Environ(), tidyDir+"="+dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100*time.Millisecond + rand.N(700*time.Millisecond))
		cmd.Process.Kill()
		cmd.Wait()
		s, err := opened(dir, testOptions())
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for f := range 3 {
			p := Path(fmt.Sprintf("f%d", f))
			if v, found, _ := s.Current(p); found && v.Blob != (Hash{}) {
				contentOf(t, s, p)
			}
		}
		checked(t, s)
		if round == rounds-1 {
			t.Logf("%d rounds, %d versions, %+v", rounds, s.Seq(), s.Stats())
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
