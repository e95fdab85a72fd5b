package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"cachebro/scripts/testkit/remotetest"
	"cachebro/store/remote"
)

// machine returns the id under which a project's history is in its bucket.
func (p *project) machine() string {
	p.t.Helper()
	_, id, ok := strings.Cut(p.cb("remote", "--dir", p.dir), "machine:  ")
	if !ok {
		p.t.Fatal("no machine")
	}
	id, _, _ = strings.Cut(id, "\n")
	return strings.TrimSpace(id)
}

// Two machines with one project read each other's histories as far as they were sent. Versions that
// were fetched remain available without the bucket.
func TestOtherMachines(t *testing.T) {
	srv := remotetest.New(t)
	p, other := newProject(t, map[string]string{"a.txt": "one\n", "b.txt": "b\n"}), newProject(t, map[string]string{"a.txt": "one\n", "b.txt": "b\n"})
	for _, q := range []*project{p, other} {
		q.let(srv)
		q.scanned()
	}
	p.refuse(1, "log", "--machine", "nobody", p.dir) // this project sends nothing
	for _, q := range []*project{p, other} {
		q.cb("remote", "add", srv.Address("app"), "--dir", q.dir)
	}
	other.write("a.txt", "one\ntwo of the other\n")
	other.write("lost.txt", "vanished word\n")
	other.sh("rm lost.txt")
	p.write("a.txt", "one\nmine\n")
	other.cb("remote", "send", "--dir", other.dir)
	p.cb("remote", "send", "--dir", p.dir)
	id := other.machine()

	for _, args := range [][]string{{"--dir", p.dir}, {srv.Address("app")}} {
		if out := p.cb(append([]string{"remote", "du"}, args...)...); !strings.Contains(out, id) || !strings.Contains(out, p.machine()) || strings.Count(out, "\n") != 3 {
			t.Errorf("remote du: %s", out)
		}
	}
	if out := p.cb("log", "--machine", id, p.dir); !strings.Contains(out, "a.txt") || !strings.Contains(out, "lost.txt") && !strings.Contains(out, "created and removed again") {
		t.Errorf("log: %s", out)
	}
	if out := p.cb("log", "--machine", id, p.path("a.txt")); strings.Count(out, "\n") != 2 {
		t.Errorf("log of a file: %s", out)
	}
	if out := p.cb("show", "--machine", id, p.path("a.txt")); out != "one\ntwo of the other\n" {
		t.Errorf("show: %q", out)
	}
	if out := p.cb("show", "--machine", id[:8], p.path("a.txt")+"@1"); out != "one\n" {
		t.Errorf("show @1: %q", out)
	}
	for arg, want := range map[string]string{id + ":" + p.path("a.txt"): "one\ntwo of the other\n", id[:8] + ":" + p.path("a.txt") + "@1": "one\n"} {
		if out := p.cb("show", arg); out != want {
			t.Errorf("show %s: %q", arg, out)
		}
	}
	if out := p.cb("diff", id+":"+p.path("a.txt")); !strings.Contains(out, "--- "+id+":a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n one\n-two of the other\n+mine\n") {
		t.Errorf("diff with the file here: %s", out)
	}
	if out := p.cb("diff", id+":"+p.path("b.txt")); out != "" {
		t.Errorf("diff of what is equal: %s", out)
	}
	if out := p.cb("diff", "--json", id+":"+p.path("lost.txt")+"@1"); !strings.Contains(out, `"removed":1`) {
		t.Errorf("diff with what is not here: %s", out)
	}
	p.refuse(1, "show", "nobody:"+p.path("a.txt"))
	p.refuse(2, "diff", "--since", "1h", id+":"+p.path("a.txt"))
	p.write("odd:name", "odd\n")
	if out := p.sh("cd " + p.dir + " && " + p.command().Path + " show odd:name@1"); out != "odd\n" {
		t.Errorf("a file with a colon: %q", out)
	}
	if out := p.cb("diff", "--machine", id, p.path("a.txt")); !strings.Contains(out, "+two of the other") {
		t.Errorf("diff: %s", out)
	}
	if out := p.cb("search", "--history", "--machine", id, "vanished", "--dir", p.dir); !strings.Contains(out, "lost.txt") {
		t.Errorf("search: %s", out)
	}
	if out := p.cb("blame", "--machine", id, p.path("a.txt")); !strings.Contains(out, "two of the other") {
		t.Errorf("blame: %s", out)
	}
	if out := p.cb("log", p.path("a.txt")); strings.Contains(out, "two of the other") || strings.Count(out, "\n") != 2 {
		t.Errorf("the own log: %s", out)
	}

	// everywhere returns the log of all machines, sorted by time. Each machine's versions must be
	// in order, and none may appear twice.
	everywhere := func(args ...string) (machines, seqs []string) {
		for _, line := range strings.Split(strings.TrimSpace(p.cb(append([]string{"log", "--machine", "all", "--json", p.dir}, args...)...)), "\n") {
			var v struct {
				Machine string    `json:"machine"`
				Seq     uint64    `json:"seq"`
				Time    time.Time `json:"time"`
			}
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			machines, seqs = append(machines, v.Machine), append(seqs, fmt.Sprintf("%s %s #%d", v.Time.UTC().Format("2006-01-02T15:04:05.000000000"), v.Machine, v.Seq))
		}
		return machines, seqs
	}
	of, when := everywhere()
	if n := len(p.log("")) + len(p.log("", "--machine", id)); len(of) != n || !slices.Contains(of, id) || !slices.Contains(of, p.machine()) || !slices.IsSortedFunc(when, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("%d versions of all machines, want %d:\n%s", len(of), n, strings.Join(when, "\n"))
	}
	if _, back := everywhere("--reverse"); !slices.IsSorted(back) || len(back) != len(when) {
		t.Errorf("the oldest first:\n%s", strings.Join(back, "\n"))
	}
	if of, _ := everywhere("--limit", "2"); len(of) != 2 {
		t.Errorf("two of %d", len(of))
	}
	if out := p.cb("log", "--machine", "all", p.path("a.txt")); strings.Count(out, "a.txt") != 2 {
		t.Errorf("one file: %s", out)
	}
	p.refuse(2, "log", "--machine", "all", "--stat", p.dir)

	// An undo of the other machine's changes changes only files that have the same change here.
	p.write("c.txt", "c\n")
	p.write("b.txt", "b\nchanged there\n")
	other.write("b.txt", "b\nchanged there\n")
	other.sh("rm a.txt; echo c >c.txt; chmod 600 c.txt")
	other.write("only-there.txt", "only there\n")
	other.cb("remote", "send", "--dir", other.dir)
	out := p.refuseOut(1, "undo", "--machine", id, "--since", "1h", "--yes", "--dir", p.dir)
	if !strings.Contains(out, "a.txt: it was also changed here") {
		t.Errorf("undo: %s", out)
	}
	for name, want := range map[string]string{"a.txt": "one\nmine\n", "b.txt": "b\n"} {
		if got := p.read(name); got != want {
			t.Errorf("%s is %q, not %q\n%s", name, got, want, out)
		}
	}
	if _, err := os.Lstat(p.path("c.txt")); err == nil {
		t.Errorf("c.txt is there\n%s", out)
	}
	p.cb("redo", "--yes", "--dir", p.dir)
	if got := p.read("b.txt") + p.read("c.txt"); got != "b\nchanged there\nc\n" {
		t.Errorf("after the redo: %q", got)
	}

	// Versions that are sent later are read too, and none is read twice.
	before := p.cb("log", "--versions", "--machine", id, p.dir)
	other.write("b.txt", "b\nlater\n")
	other.cb("remote", "send", "--dir", other.dir)
	if out := p.cb("log", "--versions", "--machine", id, p.dir); !strings.HasSuffix(out, before) || strings.Count(out, "\n") != strings.Count(before, "\n")+1 {
		t.Errorf("after another change:\n%s\nbefore:\n%s", out, before)
	}

	p.cb("remote", "send", "--dir", p.dir) // not in the background, while objects are counted

	// remote prune drops replaced contents from the bucket, but only some time after it has marked
	// them. Contents that were fetched stay here.
	if out := p.cb("remote", "fsck", "--whole", "--dir", p.dir); !strings.Contains(out, "0 problems") {
		t.Errorf("remote fsck: %s", out)
	}
	prune := []string{"remote", "prune", "--older", "1h", "--grace", "1h", "--dir", p.dir}
	p.refuse(2, "remote", "prune", "--dir", p.dir)
	if out := p.cb(prune...); !strings.Contains(out, "deleted: 0 objects") || !strings.Contains(out, "marked:  contents of 0 segments") {
		t.Errorf("too early: %s", out)
	}
	srv.Pass(3 * time.Hour)
	if out := p.cb(append(prune, "--dry-run")...); !strings.Contains(out, "would be deleted: 0 objects") || strings.Contains(out, "contents of 0 segments") {
		t.Errorf("remote prune --dry-run: %s", out)
	}
	if out := p.cb(prune...); !strings.Contains(out, "deleted: 0 objects") || strings.Contains(out, "contents of 0 segments") {
		t.Errorf("the mark: %s", out)
	}
	there := srv.Objects()
	srv.Pass(2 * time.Hour)
	out = p.cb(prune...)
	now := srv.Objects() // a daemon may have sent something in the meantime
	if strings.Contains(out, "deleted: 0 objects") || !slices.ContainsFunc(there, func(k string) bool { return !slices.Contains(now, k) }) {
		t.Errorf("what was marked: %s; of %v there are all", out, there)
	}
	if out := p.cb("remote", "fsck", "--whole", "--dir", p.dir); !strings.Contains(out, "0 problems") || !strings.Contains(out, "whose contents remote prune has dropped") {
		t.Errorf("remote fsck: %s", out)
	}
	other.write("b.txt", "b\n") // as it was at first
	other.write("b.txt", "b\nlater\n")
	other.cb("remote", "send", "--dir", other.dir)
	if out := p.cb("show", "--machine", id, p.path("b.txt")+"@-1"); out != "b\n" {
		t.Errorf("what came again: %q", out)
	}
	if out := p.cb("remote", "fsck", "--whole", "--dir", p.dir); !strings.Contains(out, "0 problems") {
		t.Errorf("remote fsck: %s", out)
	}

	// Without the bucket, the answer uses what is known of the machine, and says so. For an unknown
	// machine there is an error.
	srv.Break(func(*http.Request) remotetest.Fault { return remotetest.Error503 })
	out, err := p.try("show", "--machine", id, p.path("b.txt"))
	if err != nil || !strings.HasSuffix(out, "b\nlater\n") || !strings.Contains(out, "is used, which ends at") {
		t.Errorf("without the bucket: %v %q", err, out)
	}
	p.refuse(1, "show", "--machine", "nobody", p.path("b.txt"))
	srv.Break(nil)
	p.refuse(1, "log", "--machine", "nobody", p.dir)
}

// called runs cachebro on a host with this name.
func (p *project) called(host string, args ...string) {
	p.t.Helper()
	apart := []string{"--uts"}
	if os.Getuid() != 0 {
		apart = append(apart, "--user", "--map-root-user")
	}
	cmd := exec.Command("unshare", slices.Concat(apart, []string{"sh", "-c", `hostname "$0" && exec "$@"`, host, binary}, args)...)
	cmd.Dir, cmd.Env = p.base, p.env
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("%s: %v: %s", args, err, out)
	}
}

// Two more machines continue a machine's history, one after the other. Every answer attributes each
// version to the machine that wrote it, even when the first machine later continues under a new id.
func TestHandedOverTwice(t *testing.T) {
	srv := remotetest.New(t)
	first, watcher := newProject(t, map[string]string{"f.txt": "before\n"}), newProject(t, nil)
	first.let(srv)
	watcher.let(srv)
	address := srv.Address("app")
	for _, p := range []*project{watcher, first} {
		p.mount()
		p.scanned()
	}
	watcher.called("watcher", "remote", "add", address, "--dir", watcher.dir)
	first.called("agent1", "remote", "add", address, "--dir", first.dir)
	wrote := map[string][]string{}
	work := func(p *project, host string) {
		for i := range 2 {
			name := fmt.Sprintf("%s-%d.txt", host, i)
			p.within("run", "--", "sh", "-c", "echo "+host+" >"+name) // in a session of its own
			wrote[host] = append(wrote[host], name)
		}
		p.within("run", "--", "sh", "-c", "echo "+host+" >>f.txt")
		wrote[host] = append(wrote[host], "f.txt")
		p.cb("remote", "send", "--dir", p.dir)
	}
	work(first, "agent1")
	from := first
	for _, host := range []string{"agent2", "agent3"} {
		srv.Pass(remote.Lease)
		next := newProject(t, nil)
		next.let(srv)
		next.called(host, "remote", "resume", "--send", address, next.dir, "--machine", first.machine())
		next.mount()
		if next.machine() != from.machine() {
			t.Fatalf("%s goes on under another id", host)
		}
		work(next, host)
		from = next
	}
	id := first.machine()
	paths := func(machine string, more ...string) (all []string) {
		for _, v := range watcher.log("", append([]string{"--machine", machine}, more...)...) {
			all = append(all, v.name())
		}
		slices.Sort(all)
		return all
	}
	total := 0
	for host, want := range wrote {
		slices.Sort(want)
		if got := paths(host); !slices.Equal(got, want) {
			t.Errorf("%s wrote %v, and log says %v", host, want, got)
		}
		total += len(want)
		story := watcher.cb("log", "--machine", host, "--actions", "--json", watcher.dir)
		for other := range wrote {
			if strings.Contains(story, other+"-0.txt") != (other == host) {
				t.Errorf("what %s did: %s", host, story)
			}
		}
		if got := paths(host, "--limit", "2"); len(got) != 2 {
			t.Errorf("two versions of %s are %v", host, got)
		}
		if host == "agent3" {
			continue
		}
		// The file is shown as the host left it, without the changes of its successors.
		lines := map[string]string{"agent1": "before\nagent1\n", "agent2": "before\nagent1\nagent2\n"}[host]
		if out := watcher.cb("show", host+":"+watcher.path("f.txt")); out != lines {
			t.Errorf("f.txt of %s: %q", host, out)
		}
		if out := watcher.cb("blame", "--machine", host, watcher.path("f.txt")); strings.Count(out, "\n") != strings.Count(lines, "\n") {
			t.Errorf("blame as of %s: %s", host, out)
		}
		if out := watcher.cb("diff", "--machine", host, watcher.path("f.txt")); !strings.Contains(out, "+"+host) || strings.Contains(out, "+agent3") {
			t.Errorf("diff of %s: %s", host, out)
		}
		watcher.cb("restore", "--machine", host, "--at", "0s", "--yes", "--dir", watcher.dir)
		if got := watcher.read("f.txt"); got != lines {
			t.Errorf("restored as of %s: %q", host, got)
		}
	}
	if got := paths(id); len(got) != total {
		t.Errorf("%d versions under the id, not %d: %v", len(got), total, got)
	}
	watcher.cb("restore", "--machine", "agent3", "--at", "0s", "--yes", "--dir", watcher.dir)
	out, _ := watcher.try("undo", "--machine", "agent2", "--since", "1h", "--dry-run", "--dir", watcher.dir)
	if !strings.Contains(out, "agent2-0.txt") || strings.Contains(out, "agent1-0.txt") || strings.Contains(out, "agent3-0.txt") {
		t.Errorf("an undo of what agent2 did: %s", out)
	}
	// The first machine comes back. Its earlier versions still belong to it.
	first.write("late.txt", "late\n")
	_, _ = first.try("remote", "send", "--dir", first.dir)
	first.called("agent1", "remote", "add", address, "--dir", first.dir)
	first.cb("remote", "send", "--dir", first.dir)
	if first.machine() == id {
		t.Fatal("two machines write under one id")
	}
	want := append(wrote["agent1"], "late.txt")
	slices.Sort(want)
	if got := paths("agent1"); !slices.Equal(got, want) {
		t.Errorf("agent1 wrote %v, and log says %v", want, got)
	}
}

// The tree here becomes equal to another machine's tree at a moment. Files that were never sent, or
// that only this machine has, stay. A redo restores what was here.
func TestRestoreOfAnotherMachine(t *testing.T) {
	srv := remotetest.New(t)
	files := map[string]string{".gitignore": "*.o\n.env\n", "a.txt": "one\n", "src/b.txt": "b\n", "same.txt": "same\n", "empty": "", "x.o": "object\n", ".env": "KEY=theirs\n", "run.sh": "echo\n"}
	other := newProject(t, files)
	files[".env"], files["x.o"] = "KEY=mine\n", "mine\n"
	p := newProject(t, files)
	for _, q := range []*project{p, other} {
		q.let(srv)
		q.mount()
		q.scanned()
		q.cb("remote", "add", srv.Address("app"), "--dir", q.dir)
	}
	other.write("a.txt", "one\ntwo of the other\n")
	other.write("src/new/deep.txt", "deep\n")
	other.sh("rm same.txt; chmod +x run.sh; mv src/b.txt src/c.txt; ln -s a.txt link; mkdir bare; : >none; printf 'KEY=later\n' >.env; rm x.o; truncate -s 20 big; chmod 600 a.txt")
	moment := other.newest()
	other.sh("rm -rf src a.txt link; echo wrong >same.txt")
	other.cb("remote", "send", "--dir", other.dir)
	id := other.machine()
	p.sh("mkdir -p src; echo mine >mine.txt; echo my-c >src/c.txt; ln -sfn b.txt link; chmod 640 a.txt; mkdir none")
	tree := func() map[string]string {
		all, err := readTree(p.dir)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	here := tree()

	p.refuse(2, "restore", "--machine", id, "--dir", p.dir)
	p.refuse(2, "restore", "--machine", "nobody", "--at", moment, "--yes", "--dir", p.dir)
	p.refuse(2, "restore", "--machine", id, "--at", "#99999", "--yes", "--dir", p.dir)
	p.refuse(2, "restore", "--machine", id, "--at", "2001-01-01 12:00", "--yes", "--dir", p.dir)
	if out := p.cb("restore", "--machine", id, "--at", moment, "--dry-run", "--dir", p.dir); !strings.Contains(out, "deep.txt") {
		t.Errorf("dry run: %s", out)
	}
	if got := tree(); !maps.Equal(got, here) {
		t.Errorf("a dry run has changed %v to %v", here, got)
	}
	p.cb("restore", "--machine", id, "--at", moment, p.path("src"), "--yes")
	if got := p.read("src/c.txt") + p.read("src/new/deep.txt") + p.read("a.txt"); got != "b\ndeep\none\n" {
		t.Errorf("src alone: %q", got)
	}
	out := p.cb("restore", "--machine", id[:8], "--at", moment, "--yes", "--dir", p.dir)
	if !strings.Contains(out, "on "+id[:8]) {
		t.Errorf("restore: %s", out)
	}
	want := map[string]string{
		".gitignore": files[".gitignore"], "a.txt": "one\ntwo of the other\n", "src/c.txt": "b\n", "src/new/deep.txt": "deep\n", "empty": "", "none": "",
		"x.o": "mine\n", ".env": "KEY=mine\n", "run.sh": "echo\n", "mine.txt": "mine\n", "link": "-> a.txt", "big": strings.Repeat("\x00", 20),
	}
	if got := tree(); !maps.Equal(got, want) {
		t.Errorf("the tree is\n%v, not\n%v\n%s", got, want, out)
	}
	for name, mode := range map[string]os.FileMode{"run.sh": 0o755, "a.txt": 0o640, "bare": 0o755} {
		if st, err := os.Stat(p.path(name)); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
	}
	if out := p.cb("restore", "--machine", id, "--at", moment, "--yes", "--dir", p.dir); !strings.Contains(out, "nothing to do") {
		t.Errorf("once more: %s", out)
	}
	p.cb("redo", "--yes", "--dir", p.dir)
	p.cb("redo", "--yes", "--dir", p.dir)
	if got := tree(); !maps.Equal(got, here) {
		t.Errorf("brought back:\n%v, not\n%v", got, here)
	}
}

// Files that a machine has begun to ignore are no longer sent. Its history of them is out of date,
// so a restore here leaves them alone.
func TestRestoreLeavesWhatIsIgnoredThere(t *testing.T) {
	srv := remotetest.New(t)
	files := map[string]string{".gitignore": "*.o\n", "notes.txt": "n\n", "local.conf": "theirs\n", "old.txt": "old\n", "sub/made/x.txt": "x\n", "kept.txt": "k\n"}
	other := newProject(t, files)
	files["local.conf"] = "mine\n"
	p := newProject(t, files)
	for _, q := range []*project{p, other} {
		q.let(srv)
		q.mount()
		q.scanned()
		q.cb("remote", "add", srv.Address("app"), "--dir", q.dir)
	}
	other.write("notes.txt", "n2\n")
	other.write(".gitignore", "*.o\nlocal.conf\nnotes.txt\n")
	other.write("notes.txt", "n3\n")
	other.write("local.conf", "theirs3\n")
	other.sh("rm old.txt; mv local.conf l2; mv l2 local.conf; mv notes.txt x.o; mv x.o notes.txt; rm -r sub/made; echo made/ >sub/.gitignore; mkdir sub/made; echo y >sub/made/x.txt")
	other.sh("echo old.txt >>.gitignore; echo again >old.txt; rm kept.txt")
	other.write("tail.txt", "t\n")
	other.cb("remote", "send", "--dir", other.dir)
	p.sh("echo mine-notes >notes.txt; echo mine >x.o; echo ignored-here >tail.o")
	out := p.cb("restore", "--machine", other.machine(), "--at", other.newest(), "--yes", "--dir", p.dir)
	got, err := readTree(p.dir)
	want := map[string]string{
		".gitignore": "*.o\nlocal.conf\nnotes.txt\nold.txt\n", "notes.txt": "mine-notes\n", "local.conf": "mine\n", "old.txt": "old\n", "sub/made/x.txt": "x\n",
		"sub/.gitignore": "made/\n", "x.o": "mine\n", "tail.o": "ignored-here\n", "tail.txt": "t\n",
	}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v\n%v, not\n%v\n%s", err, got, want, out)
	}
}

// If a bucket has lost or damaged something, or refuses a request, the message says so plainly, and
// says what to do. Everything that can still be read is read, and nothing is lost here.
func TestUncooperativeBucket(t *testing.T) {
	srv := remotetest.New(t)
	p, other := newProject(t, map[string]string{"a.txt": "one\n"}), newProject(t, map[string]string{"a.txt": "one\n"})
	for _, q := range []*project{p, other} {
		q.let(srv)
		q.scanned()
		q.cb("remote", "add", srv.Address("app"), "--dir", q.dir)
	}
	var logs []string // one new object of each segment
	had := map[string]bool{}
	for i := range 3 {
		other.write("a.txt", fmt.Sprintf("change %d\n", i))
		other.cb("remote", "send", "--dir", other.dir)
		for _, k := range srv.Objects() {
			if strings.Contains(k, "/logs/") && !had[k] {
				had[k] = true
				logs = append(logs[:min(len(logs), i)], k)
			}
		}
	}
	id := other.machine()
	text := srv.Object(logs[1])
	says := func(err error, out string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%v: %q does not say %q", err, out, w)
			}
		}
	}
	for what, b := range map[string][]byte{"the bucket does not have it": nil, "the bucket does not contain what was sent": append([]byte("x"), text...)} {
		fresh := newProject(t, map[string]string{"a.txt": "mine\n"}) // it has no earlier copy
		fresh.let(srv)
		fresh.scanned()
		fresh.cb("remote", "add", srv.Address("app"), "--dir", fresh.dir)
		srv.Set(logs[1], b)
		out, err := fresh.try("log", "--machine", id, fresh.path("a.txt"))
		says(err, out, what, "so the older copy is used")
		if strings.Count(out, "write") != 1 {
			t.Errorf("%s: of three segments the first can be read:\n%s", what, out)
		}
		out, err = fresh.try("remote", "resume", srv.Address("app"), fresh.path("resumed"), "--machine", id)
		says(err, out, what, "restore --machine "+id)
		if err == nil {
			t.Errorf("resumed although %s", what)
		}
		fresh.cb("restore", "--machine", id, "--at", "0s", "--yes", "--dir", fresh.dir)
		if got := fresh.read("a.txt"); got != "change 0\n" {
			t.Errorf("restored: %q", got)
		}
		srv.Set(logs[1], text)
		if out := fresh.cb("show", id+":"+fresh.path("a.txt")); out != "change 2\n" {
			t.Errorf("when it is there again: %q", out)
		}
	}
	p.cb("log", "--machine", id, p.dir)

	for fault, want := range map[remotetest.Fault][]string{
		remotetest.Skewed:    {"refuses this machine's clock", "set the clock"},
		remotetest.Forbidden: {"ExpiredToken", "credentials come from"},
	} {
		srv.Break(func(*http.Request) remotetest.Fault { return fault })
		other.write("a.txt", fmt.Sprintf("while it refuses with %d\n", fault))
		out, err := other.try("remote", "send", "--dir", other.dir)
		says(err, out, append(want, "not yet:  ")...)
		srv.Break(nil)
		if out := other.cb("remote", "send", "--dir", other.dir); !strings.Contains(out, "not yet:  0 versions") || strings.Contains(out, "fails") {
			t.Errorf("when it takes it again: %s", out)
		}
	}

	for _, k := range srv.Objects() {
		srv.Set(k, nil)
	}
	out, err := p.try("log", "--machine", id, p.dir)
	says(err, out, "is used, which ends at", "a.txt")
	other.write("a.txt", "after all was lost\n")
	out, err = other.try("remote", "send", "--dir", other.dir)
	says(err, out, "the bucket has lost what was sent", "cachebro remote add sends all of it again")
	other.cb("remote", "add", srv.Address("app"), "--dir", other.dir)
	if out := other.cb("remote", "send", "--dir", other.dir); !strings.Contains(out, "not yet:  0 versions") || strings.Contains(out, "fails") {
		t.Errorf("all of it again: %s", out)
	}
	p.cb("remote", "send", "--dir", p.dir)
	if out := p.cb("show", other.machine()+":"+p.path("a.txt")+"@2"); out != "change 0\n" {
		t.Errorf("read from what was sent again: %q", out)
	}
}
