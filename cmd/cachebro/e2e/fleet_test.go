package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cachebro/scripts/testkit/remotetest"
)

// story returns the history of a machine ("" is this one) and the hashes of countFile's contents in
// it. Git's own files are not sent.
func (p *project) story(machine string) (all []string, hashes []string) {
	p.t.Helper()
	for _, e := range p.log("", "--baselines", "--machine", machine) {
		if strings.HasPrefix(e.name(), ".git/") {
			continue
		}
		all = append(all, fmt.Sprintf("#%d %s %s %s %d %o %s", e.Seq, e.Op, e.name(), e.Hash, e.Size, e.Mode, e.Actor.Comm))
		if e.name() == countFile && e.Hash != "" {
			hashes = append(hashes, e.Hash)
		}
	}
	return all, hashes
}

// countFile is written again and again by each machine, each time with another text.
const countFile = "count.txt"

// work changes files and writes countFile until a time, and kills the daemon now and then. It
// returns the hashes of the contents of countFile that it closed.
func (p *project) work(r *rand.Rand, until time.Time, kills *atomic.Int32) (closed []string) {
	src := *p
	src.dir = p.path("src") // git's own files must not be changed
	for n := 0; time.Now().Before(until); n++ {
		src.change(r)
		text := fmt.Sprintf("%s %d\n", p.base, n)
		if err := os.WriteFile(p.path(countFile), []byte(text), 0o644); err != nil {
			p.t.Error(err)
			return closed
		}
		sum := sha256.Sum256([]byte(text))
		closed = append(closed, hex.EncodeToString(sum[:]))
		switch r.Intn(12) {
		case 0:
			_, _ = p.try("remote", "send", "--dir", p.dir)
		case 1:
			for _, pid := range p.processes() {
				args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				if f := bytes.Split(args, []byte{0}); len(f) > 1 && string(f[1]) == "daemon" && syscall.Kill(pid, syscall.SIGKILL) == nil {
					kills.Add(1)
				}
			}
		}
		time.Sleep(time.Duration(r.Intn(100)) * time.Millisecond)
	}
	return closed
}

// Four machines with clones of one repository use one bucket from time to time, over a bad link.
// In the end the bucket has every content that each machine closed, once and in the same order, and
// the other machines can read it. When all machines are deleted, the tree and history of each are
// restored on another machine. CACHEBRO_FLEET_FOR is how long they work.
func TestFleet(t *testing.T) {
	lasts := 3 * time.Second
	if s := os.Getenv("CACHEBRO_FLEET_FOR"); s != "" {
		var err error
		if lasts, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	needFuse(t)
	origin := filepath.Join(t.TempDir(), "origin")
	script := `git init -q "$0" && cd "$0" && git config user.name x && git config user.email x@example.org && mkdir -p src/a src/b && for i in 1 2 3 4 5 6; do echo "first $i" >src/a/f$i.txt; echo "other $i" >src/b/g$i.txt; done && git add . && git commit -qm first`
	if out, err := exec.Command("sh", "-ec", script, origin).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	srv := remotetest.New(t)
	address := srv.Address("app")
	var fleet []*project
	for range 4 {
		p := newProject(t, nil)
		p.let(srv)
		p.sh("git clone -q " + origin + " .")
		p.scanned()
		p.cb("remote", "add", address, "--dir", p.dir)
		fleet = append(fleet, p)
	}
	var mu sync.Mutex
	chance, met := rand.New(rand.NewSource(1)), 0
	srv.Break(func(*http.Request) remotetest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if chance.Intn(8) > 0 {
			return remotetest.None
		}
		met++
		return remotetest.Fault(chance.Intn(int(remotetest.Faults)))
	})
	var wg sync.WaitGroup
	var kills atomic.Int32
	closed := make([][]string, len(fleet))
	until := time.Now().Add(lasts)
	for i, p := range fleet {
		wg.Go(func() { closed[i] = p.work(rand.New(rand.NewSource(int64(i))), until, &kills) })
	}
	wg.Wait()
	srv.Break(nil)

	var ids []string
	var histories [][]string
	var trees []map[string]string
	for _, p := range fleet {
		eventually(t, 3*time.Minute, "all is sent", func() bool {
			out, err := p.try("remote", "send", "--dir", p.dir)
			return err == nil && strings.Contains(out, "not yet:  0 versions")
		})
		ids = append(ids, p.machine())
		history, _ := p.story("")
		histories = append(histories, history)
		trees = append(trees, plainTree(t, p.dir))
	}
	versions := 0
	for i := range fleet {
		reader := fleet[(i+1)%len(fleet)]
		got, hashes := reader.story(ids[i])
		versions += len(got)
		if strings.Join(got, "\n") != strings.Join(histories[i], "\n") {
			t.Errorf("machine %d, read by another:\n%s\nwas\n%s", i, strings.Join(got, "\n"), strings.Join(histories[i], "\n"))
		}
		if !slices.Equal(hashes, closed[i]) {
			t.Errorf("machine %d closed %d texts, of which the bucket has %d, or in another order", i, len(closed[i]), len(hashes))
		}
		if out := reader.cb("show", "--machine", ids[i], reader.path(countFile)+"@1"); !strings.HasPrefix(out, fleet[i].base) {
			t.Errorf("machine %d: the first text is %q", i, out)
		}
	}
	if out := fleet[0].cb("remote", "fsck", "--whole", "--dir", fleet[0].dir); !strings.Contains(out, " of 4 machines: 0 problems") {
		t.Errorf("remote fsck: %s", out)
	}
	if kills.Load() == 0 || met == 0 {
		t.Errorf("%d daemons were killed, %d requests failed: too few to say anything", kills.Load(), met)
	}
	t.Logf("%d versions, %d daemons killed, %d of %d requests broken", versions, kills.Load(), met, srv.Asked())

	for _, p := range fleet {
		p.unmount()
		for _, pid := range p.processes() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if err := os.RemoveAll(filepath.Join(p.base, "state")); err != nil {
			t.Fatal(err)
		}
	}
	fifth := newProject(t, nil)
	fifth.let(srv)
	for i, id := range ids {
		heir := *fifth
		heir.dir = filepath.Join(fifth.base, fmt.Sprint("heir", i))
		heir.cb("remote", "resume", "--machine", id, address, heir.dir)
		if d := differ(trees[i], plainTree(t, heir.dir)); d != "" {
			t.Errorf("the tree of machine %d:\n%s", i, d)
		}
		if got, _ := heir.story(""); strings.Join(got, "\n") != strings.Join(histories[i], "\n") {
			t.Errorf("the history of machine %d:\n%s\nwas\n%s", i, strings.Join(got, "\n"), strings.Join(histories[i], "\n"))
		}
	}
}
