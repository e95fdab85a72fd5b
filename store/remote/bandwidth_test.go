//go:build bandwidth

package remote

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cachebro/scripts/testkit/remotetest"
	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
	"cachebro/store/diff"
)

// TestBandwidth compares how many bytes are sent to a bucket with how many bytes changed, commit
// by commit, over the histories that scripts/safety/storage.sh checks out. It needs the network
// once and takes minutes, so it is run by hand, with -tags bandwidth.
func TestBandwidth(t *testing.T) {
	type count struct {
		commits, segments, requests int
		written, changed, sent      int64
	}
	for _, each := range []bool{true, false} {
		var all count
		for _, git := range histories(t) {
			srv := remotetest.New(t)
			s := storetest.Fresh(t)
			r := added(t, s, place(t, srv, "app"))
			asked, took := srv.Asked(), srv.Took()
			var c count
			tree, had := "4b825dc642cb6eb9a060e54bf8d69288fbee4904", map[store.Path][]byte{} // git's empty tree
			for _, commit := range strings.Fields(git("rev-list", "--reverse", "--topo-order", "HEAD")) {
				var cs []store.Change
				fields := strings.Split(git("diff-tree", "-r", "-z", "--no-renames", tree, commit), "\x00")
				for i := 0; i+1 < len(fields); i += 2 {
					f, p := strings.Fields(fields[i]), store.Path(fields[i+1])
					switch {
					case f[1] == "160000" || f[0] == ":160000": // a submodule is a directory
					case f[4] == "D":
						delete(had, p)
						cs = append(cs, storetest.Told(store.OpUnlink, p, "", storetest.FileMode))
					default:
						now := git("cat-file", "blob", f[3])
						c.written += int64(len(now))
						sc := diff.Compare(had[p], []byte(now))
						for _, e := range sc.Edits {
							for _, l := range sc.New[e.NewFrom:e.NewTo] {
								c.changed += int64(len(l))
							}
						}
						had[p] = []byte(now)
						cs = append(cs, storetest.Closed(store.OpWrite, p, now))
					}
				}
				if len(cs) > 0 {
					storetest.Apply(t, s, cs...)
				}
				tree = commit
				c.commits++
				if each {
					sendAll(t, r)
				}
			}
			sendAll(t, r)
			c.segments, c.requests, c.sent = int(r.Head().N), srv.Asked()-asked, srv.Took()-took
			all.commits += c.commits
			all.segments += c.segments
			all.requests += c.requests
			all.written += c.written
			all.changed += c.changed
			all.sent += c.sent
		}
		t.Logf("%d commits, sent after each: %v: %d bytes in closed files, %d in new lines; %d bytes sent in %d segments by %d requests: %.2f of what was closed, %.2f of the new lines",
			all.commits, each, all.written, all.changed, all.sent, all.segments, all.requests, float64(all.sent)/float64(all.written), float64(all.sent)/float64(all.changed))
	}
}

// histories returns the repositories of storage.sh, each as a function that runs git in it.
func histories(t *testing.T) (out []func(args ...string) string) {
	t.Helper()
	script, err := os.ReadFile("../../scripts/safety/storage.sh")
	if err != nil {
		t.Fatal(err)
	}
	get := exec.Command("go", "mod", "download", "-json", string(regexp.MustCompile(`github.com/go-git/go-git-fixtures/\S+`).Find(script)))
	get.Dir, get.Env = "/", append(os.Environ(), "GOFLAGS=")
	said, err := get.Output()
	var module struct{ Dir string }
	if err != nil || json.Unmarshal(said, &module) != nil {
		t.Fatalf("the histories cannot be had: %v %s", err, said)
	}
	for _, m := range regexp.MustCompile(`(?m)^\t\t([0-9a-f]{40}) ([0-9a-f]{40}) (\S+)$`).FindAllStringSubmatch(string(script), -1) {
		dir := filepath.Join(t.TempDir(), m[3]+".git")
		git := func(args ...string) string {
			t.Helper()
			c := exec.Command("git", append([]string{"-C", dir}, args...)...)
			var errs bytes.Buffer
			c.Stderr = &errs
			if len(args) > 0 && args[0] == "unpack-objects" {
				if c.Stdin, err = os.Open(filepath.Join(module.Dir, "data", "pack-"+m[1]+".pack")); err != nil {
					t.Fatal(err)
				}
			}
			text, err := c.Output()
			if err != nil {
				t.Fatalf("git %q: %v %s", args, err, &errs)
			}
			return string(text)
		}
		if err := exec.Command("git", "init", "-q", "--bare", dir).Run(); err != nil {
			t.Fatal(err)
		}
		git("unpack-objects", "-q")
		git("update-ref", "refs/heads/main", m[2])
		git("symbolic-ref", "HEAD", "refs/heads/main")
		out = append(out, git)
	}
	if len(out) != 5 {
		t.Fatalf("%d histories in storage.sh", len(out))
	}
	return out
}
