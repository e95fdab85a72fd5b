package store

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cachebro/store/db"
)

// gitFile is a path that a commit changed; hash "" is a deletion.
type gitFile struct{ path, hash string }

// gitCommits lists the commits of a repository, oldest first, each with the differences from the
// previous one in the list.
func gitCommits(t testing.TB, repo string) [][]gitFile {
	t.Helper()
	out, err := exec.Command("git", "-C", repo, "rev-list", "--reverse", "--first-parent", "HEAD").Output()
	if err != nil {
		t.Skipf("%s is no git repository: %v", repo, err)
	}
	var commits [][]gitFile
	before := "4b825dc642cb6eb9a060e54bf8d69288fbee4904" // the empty tree
	for _, c := range strings.Fields(string(out)) {
		raw, err := exec.Command("git", "-C", repo, "diff-tree", "-r", "-z", "--no-renames", before, c).Output()
		if err != nil {
			t.Fatal(err)
		}
		var files []gitFile
		parts := strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")
		for i := 0; i+1 < len(parts); i += 2 {
			f := strings.Fields(parts[i]) // :mode mode hash hash status
			if len(f) < 5 || strings.HasPrefix(f[1], "160") {
				continue
			}
			g := gitFile{path: parts[i+1], hash: f[3]}
			if f[4] == "D" {
				g.hash = ""
			}
			files = append(files, g)
		}
		commits, before = append(commits, files), c
	}
	return commits
}

// gitBlobs reads contents through one git process.
type gitBlobs struct {
	in  io.WriteCloser
	out *bufio.Reader
	cmd *exec.Cmd
}

func newGitBlobs(t testing.TB, repo string) *gitBlobs {
	t.Helper()
	g := &gitBlobs{cmd: exec.Command("git", "-C", repo, "cat-file", "--batch")}
	var err error
	if g.in, err = g.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := g.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	g.out = bufio.NewReader(out)
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.in.Close(); g.cmd.Wait() })
	return g
}

func (g *gitBlobs) get(t testing.TB, hash string) []byte {
	t.Helper()
	fmt.Fprintln(g.in, hash)
	head, err := g.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(head)
	n, err := strconv.Atoi(f[len(f)-1])
	if err != nil {
		t.Fatalf("git: %s", head)
	}
	b := make([]byte, n+1)
	if _, err := io.ReadFull(g.out, b); err != nil {
		t.Fatal(err)
	}
	return b[:n]
}

// packSize returns the space that git needs for the same contents if all reachable objects are
// packed as well as possible (window 250).
func packSize(t testing.TB, repo string) (blobs, all int64) {
	t.Helper()
	list, err := exec.Command("git", "-C", repo, "rev-list", "--objects", "--first-parent", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	size := func(objects []byte) int64 {
		cmd := exec.Command("git", "-C", repo, "pack-objects", "-q", "--stdout", "--no-reuse-delta", "--window=250", "--depth=50")
		cmd.Stdin = bytes.NewReader(objects)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return int64(len(out))
	}
	cmd := exec.Command("git", "-C", repo, "cat-file", "--batch-check=%(objecttype) %(objectname) %(rest)")
	cmd.Stdin = bytes.NewReader(list)
	kinds, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var only bytes.Buffer
	for line := range strings.Lines(string(kinds)) {
		if rest, ok := strings.CutPrefix(line, "blob "); ok {
			only.WriteString(rest)
		}
	}
	return size(only.Bytes()), size(list)
}

// BenchmarkHistory applies each commit of a git history and compares the store's size with that
// of git's packs. The repository is this one, or the one named by CACHEBRO_HISTORY.
func BenchmarkHistory(b *testing.B) {
	repo := os.Getenv("CACHEBRO_HISTORY")
	if repo == "" {
		repo = ".."
	}
	commits := gitCommits(b, repo)
	if len(commits) < 2 {
		b.Skip("too short a history")
	}
	blobs, all := packSize(b, repo)
	for b.Loop() {
		s := open(b, b.TempDir(), testOptions())
		git := newGitBlobs(b, repo)
		versions, raw, spent := 0, int64(0), time.Duration(0)
		for i, files := range commits {
			var cs []Change
			for _, f := range files {
				clock += 1e6
				c := Change{Op: OpWrite, Path: Path(f.path), Time: clock, Stat: Stat{Mode: fileMode, Nlink: 1},
					Actor: Actor{PID: uint32(1000 + i), Comm: "git", Args: "git checkout", Session: "S"}}
				if c.Op = OpUnlink; f.hash != "" {
					c.Op, c.HasContent, c.Content = OpWrite, true, git.get(b, f.hash)
					c.Stat.Size = int64(len(c.Content))
					raw += c.Stat.Size
				}
				cs = append(cs, c)
			}
			for len(cs) > 0 {
				n := min(len(cs), 256)
				began := time.Now()
				vs, err := s.Apply(context.Background(), cs[:n], nil)
				if err != nil {
					b.Fatal(err)
				}
				spent += time.Since(began)
				versions, cs = versions+len(vs), cs[n:]
			}
		}
		st := s.Stats()
		if err := s.db.Compact(context.Background(), db.WasteSome); err != nil {
			b.Fatal(err)
		}
		s.Close()
		var db int64
		filepath.Walk(s.Dir(), func(_ string, fi os.FileInfo, err error) error {
			if err == nil && !fi.IsDir() {
				db += fi.Sys().(*syscall.Stat_t).Blocks * 512
			}
			return nil
		})
		b.ReportMetric(float64(st.BlobBytes)/float64(blobs), "contents/git-blobs")
		b.ReportMetric(float64(db)/float64(all), "store/git-pack")
		b.ReportMetric(float64(versions)/spent.Seconds(), "versions/s")
		b.Logf("%d commits, %d versions, %d kB of contents: %d kB as stored, store directory %d kB; git: blobs %d kB, all %d kB",
			len(commits), versions, raw/1024, st.BlobBytes/1024, db/1024, blobs/1024, all/1024)
	}
}
