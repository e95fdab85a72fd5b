package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// fork makes a fork beside the project and removes it at the end.
func (p *project) fork(name string, more ...string) *project {
	p.t.Helper()
	f := *p
	f.dir = filepath.Join(p.base, name)
	p.t.Cleanup(f.unmount)
	if said := p.cb(append([]string{"fork", f.dir, "--dir", p.dir}, more...)...); strings.Contains(said, "( ") {
		p.t.Errorf("the time has a column's blanks: %s", said)
	}
	return &f
}

// plainTree is treeOf without git's own files.
func plainTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	tree := treeOf(t, dir)
	for name := range tree {
		if name == ".git" || strings.HasPrefix(name, ".git/") {
			delete(tree, name)
		}
	}
	return tree
}

// A fork of any moment of a random history equals the tree at that moment: contents, modes,
// links. This also holds after the daemon was killed, and writes in the fork stay there.
func TestForkIsTheMoment(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for i := range 12 {
		files[fmt.Sprintf("d%d/e%d/f%d.txt", i%3, i%2, i)] = fmt.Sprintf("first %d\n", i)
	}
	p := newProject(t, files)
	p.mount()
	p.scanned()
	seed := int64(11)
	if s := os.Getenv("CACHEBRO_SEED"); s != "" {
		seed, _ = strconv.ParseInt(s, 10, 64)
	}
	r := rand.New(rand.NewSource(seed))
	type moment struct {
		at   string
		tree map[string]string
	}
	moments := []moment{{p.newest(), treeOf(t, p.dir)}}
	for range 4 {
		for range 10 {
			p.change(r)
		}
		moments = append(moments, moment{p.newest(), treeOf(t, p.dir)})
	}
	now := treeOf(t, p.dir)
	for i, m := range moments {
		if i == len(moments)/2 {
			_ = syscall.Kill(p.process("daemon"), syscall.SIGKILL)
		}
		f := p.fork(fmt.Sprint("at", i), "--at", m.at)
		if d := differ(m.tree, treeOf(t, f.dir)); d != "" {
			t.Errorf("seed %d, moment %d (%s):\n%s", seed, i, m.at, d)
		}
	}
	f := p.fork("now")
	if d := differ(now, treeOf(t, f.dir)); d != "" {
		t.Errorf("now:\n%s", d)
	}
	for range 20 {
		f.change(r)
	}
	if d := differ(now, treeOf(t, p.dir)); d != "" {
		t.Errorf("the project after writes in the fork:\n%s", d)
	}
	p.cb("fork", "drop", "--force", f.dir)
	if _, err := os.Lstat(f.dir); !os.IsNotExist(err) {
		t.Errorf("a dropped fork: %v", err)
	}
	if out := p.cb("fork", "--dir", p.dir); strings.Count(out, "mounted") != len(moments) || strings.Contains(out, f.dir) {
		t.Errorf("the list:\n%s", out)
	}
}

// A fork in a git repository has the uncommitted, the staged and, if requested, the ignored files.
// Its changes are merged back line by line. Conflicts are named and left alone. An undo reverses
// the merge, and nothing that exists only in the fork is dropped.
func TestForkAndMerge(t *testing.T) {
	lines := strings.Join([]string{"1", "2", "3", "4", "5", "6", "7", "8", "9"}, "\n") + "\n"
	p := newProject(t, map[string]string{
		".gitignore": "*.ign\nnode_modules/\n", "a.txt": lines, "b.txt": lines, "c/gone.txt": "gone\n", "c/run.sh": "#!/bin/sh\n",
		"secret.ign": "secret\n", "node_modules/m/index.js": "{}\n",
	})
	p.sh(`git init -q . && git add -A && git -c user.name=n -c user.email=e commit -qm one; echo staged >staged.txt; git add staged.txt; echo own >own.txt; chmod 755 c/run.sh; ln -s a.txt link; mkdir g; echo one >g/log; chmod 750 .`)
	p.mount()
	p.scanned()
	before := p.sh("git status --porcelain")

	f := p.fork("plain")
	if out := p.cb("status", "--dir", f.dir); !strings.Contains(out, "fork:     of "+p.dir+" at version ") {
		t.Errorf("status of the fork:\n%s", out)
	}
	if got := f.sh("git status --porcelain"); got != before {
		t.Errorf("git status in the fork:\n%swant\n%s", got, before)
	}
	if fi, err := os.Stat(f.dir); err != nil || fi.Mode().Perm() != 0o750 {
		t.Errorf("the fork's directory: %v, %v, want the project's 0750", fi.Mode(), err)
	}
	for _, name := range []string{"secret.ign", "node_modules"} {
		if _, err := os.Lstat(f.path(name)); !os.IsNotExist(err) {
			t.Errorf("%s, which git ignores: %v", name, err)
		}
	}
	whole := p.fork("whole", "--ignored")
	if d := differ(plainTree(t, p.dir), plainTree(t, whole.dir)); d != "" {
		t.Errorf("with what is ignored:\n%s", d)
	}
	p.cb("fork", "drop", whole.dir) // the fork has nothing of its own
	if out := p.sh("git worktree list"); strings.Contains(out, whole.dir) {
		t.Errorf("git knows the dropped fork:\n%s", out)
	}
	p.refuse(1, "fork", f.dir, "--dir", p.dir)
	p.refuse(1, "fork", p.path("c/inside"), "--dir", p.dir)

	// Both sides continue. In the project, a.txt gets another name, and a process has g/log open
	// for writing.
	server := p.hold("g/log")
	f.sh(`sed -i 's/^2$/two/' a.txt; sed -i 's/^5$/five/' b.txt; echo new >new.txt; rm c/gone.txt; chmod 644 c/run.sh; echo x >made.ign; echo two >>g/log`)
	p.sh(`sed -i 's/^8$/eight/' a.txt; sed -i 's/^5$/FIVE/' b.txt; ln a.txt a.ign`)
	merged := plainTree(t, p.dir)
	if out := p.cb("fork", "diff", f.dir); out != "M a.txt\nM b.txt\nD c/gone.txt\nM c/run.sh\nM g/log\nA new.txt\n" {
		t.Errorf("fork diff:\n%s", out)
	}
	if out := p.refuse(2, "fork", "drop", f.dir); !strings.Contains(out, "a.txt, b.txt") {
		t.Errorf("drop of what is nowhere else:\n%s", out)
	}
	if out := p.refuseOut(1, "fork", "merge", "--dry-run", f.dir); !strings.Contains(out, "conflict: b.txt") || differ(merged, plainTree(t, p.dir)) != "" {
		t.Errorf("dry run:\n%s%s", out, differ(merged, plainTree(t, p.dir)))
	}
	out := p.refuseOut(1, "fork", "merge", f.dir)
	for _, want := range []string{"M a.txt (merged with", "conflict: b.txt: it was also changed here", "A new.txt", "D c/gone.txt", "M c/run.sh", "conflict: g/log: is open for writing"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if got := p.read("a.txt"); got != strings.NewReplacer("2", "two", "8", "eight").Replace(lines) {
		t.Errorf("a.txt: %q", got)
	}
	if a, b := p.read("a.ign"), p.read("a.txt"); a != b {
		t.Errorf("the other name of a.txt: %q, want %q", a, b)
	}
	if got := p.read("g/log"); got != "one\n" {
		t.Errorf("a file that a server has open for writing: %q", got)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if got := p.read("b.txt"); got != strings.Replace(lines, "5", "FIVE", 1) {
		t.Errorf("b.txt: %q", got)
	}
	if _, err := os.Lstat(p.path("made.ign")); !os.IsNotExist(err) {
		t.Errorf("an ignored file came along: %v", err)
	}
	p.cb("undo", "--dir", p.dir, "--yes")
	if d := differ(merged, plainTree(t, p.dir)); d != "" {
		t.Errorf("after undo:\n%s", d)
	}
	p.cb("redo", "--dir", p.dir, "--yes")
	if out := p.refuseOut(1, "fork", "merge", f.dir); !strings.Contains(out, "conflict: b.txt") || !strings.Contains(out, "M g/log") || strings.Contains(out, "a.txt") {
		t.Errorf("merged again:\n%s", out)
	}

	// The conflict is resolved in the fork, and commits that are made there on no branch prevent its
	// drop.
	f.sh(`sed -i 's/^five$/FIVE/' b.txt; git -c user.name=n -c user.email=e commit -qam two`)
	if out := p.cb("fork", "merge", f.dir); !strings.Contains(out, "nothing to merge") {
		t.Errorf("settled:\n%s", out)
	}
	if out := p.refuse(2, "fork", "drop", f.dir); !strings.Contains(out, "on no branch") {
		t.Errorf("drop of commits:\n%s", out)
	}
	f.sh("git branch kept")
	p.cb("fork", "drop", f.dir)
	if out := p.cb("fork", "--dir", p.dir); !strings.Contains(out, "no forks") {
		t.Errorf("the list:\n%s", out)
	}
	p.sh("git fsck --full && git log kept -1")
}

// A merge makes and removes directories, even where a file replaces a directory or a directory
// replaces a file. A second merge finds nothing to do, and the fork can be dropped. A file that was
// renamed on both sides does not get both names.
func TestForkMergeOfShapes(t *testing.T) {
	p := newProject(t, map[string]string{
		".gitignore": "*.ign\n", "file": "file\n", "dir/x.txt": "x\n", "gone/y.txt": "y\n", "kept/z.txt": "z\n", "name.txt": "one text\n",
	})
	p.sh("mkdir hollow")
	p.mount()
	p.scanned()
	f := p.fork("shapes")
	f.sh("rm file; mkdir file; echo in >file/in; rm -r dir; echo dir >dir; rm -r gone kept; rmdir hollow; mkdir -p new/empty; mv name.txt fork.txt")
	p.sh("echo i >kept/own.ign; mv name.txt project.txt")
	if out := p.cb("fork", "diff", f.dir); out != "M dir\nD dir/x.txt\nM file\nA file/in\nA fork.txt\nD gone\nD gone/y.txt\nD hollow\nD kept\nD kept/z.txt\nD name.txt\nA new/empty\n" {
		t.Errorf("fork diff:\n%s", out)
	}
	if out := p.refuseOut(1, "fork", "merge", f.dir); !strings.Contains(out, "conflict: fork.txt: it was renamed from name.txt") || strings.Count(out, "\nconflict: ") != 1 {
		t.Errorf("merge:\n%s", out)
	}
	f.sh("mv fork.txt project.txt") // this resolves the conflict
	p.sh("rm kept/own.ign; rmdir kept")
	if d := differ(plainTree(t, f.dir), plainTree(t, p.dir)); d != "" {
		t.Errorf("merged:\n%s", d)
	}
	if out := p.cb("fork", "merge", f.dir); !strings.Contains(out, "nothing to merge") {
		t.Errorf("merged again:\n%s", out)
	}
	p.cb("fork", "drop", f.dir)
}

// A merge gives files and directories the modes that they have in the fork. Before, a private file
// kept its mode although fork diff listed the change, a directory kept its mode and was not listed,
// and a new private directory was open to everybody. The merge also used to fail as a whole if the
// project had put a symlink in the place of a directory.
func TestForkMergeOfModes(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{"file": "1\n", "dir/x": "x\n", "gone/y": "y\n", "same/z": "z\n"})
	p.sh("chmod 600 file; chmod 700 dir")
	p.mount()
	p.scanned()
	f := p.fork("modes")
	f.sh("chmod 644 file; chmod 755 dir; mkdir -m 700 private; echo s >private/secret; echo 2 >>gone/y; echo 2 >>same/z; mkdir made; echo 1 >made/1; chmod 711 made")
	p.sh("rm -r gone; ln -s /etc gone; mv same other; ln -s other same")
	if out := p.cb("fork", "diff", f.dir); out != "M dir\nM file\nM gone/y\nA made/1\nA private/secret\nM same/z\n" {
		t.Errorf("fork diff:\n%s", out)
	}
	out := p.refuseOut(1, "fork", "merge", f.dir)
	if !strings.Contains(out, "conflict: gone/y: it is not here") || !strings.Contains(out, "conflict: same/z: it is not here") || !strings.Contains(out, "merged 4 files") {
		t.Errorf("merge:\n%s", out)
	}
	for name, want := range map[string]os.FileMode{"file": 0o644, "dir": 0o755, "private": 0o700, "made": 0o711} {
		if fi, err := os.Stat(p.path(name)); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want the mode %o", name, fi.Mode(), err, want)
		}
	}
	p.cb("undo", "--yes", "--dir", p.dir)
	if out := p.sh("stat -c '%a %n' file dir; ls"); out != "600 file\n700 dir\ndir\nfile\ngone\nother\nsame\n" {
		t.Errorf("undone:\n%s", out)
	}
}

// In the project, a file gets a second name that the fork gave to another file. The merge changes the
// file as the fork changed the file of its first name, and names the second as a conflict. It used to
// take the content by the second name, and crashed.
func TestForkMergeIntoALinkedFile(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{"b": "1\n2\n3\n", "z": "z\n"})
	p.mount()
	p.scanned()
	f := p.fork("linked")
	f.sh("echo other >a; sed -i s/1/one/ b; echo z >>z")
	p.sh("ln b a; echo 4 >>b")
	if out := p.refuseOut(1, "fork", "merge", f.dir); !strings.Contains(out, "M b (merged with") || !strings.Contains(out, "conflict: a: ") || !strings.Contains(out, "merged 2 files") {
		t.Errorf("merge:\n%s", out)
	}
	if got := p.read("a") + p.read("b") + p.read("z"); got != strings.Repeat("one\n2\n3\n4\n", 2)+"z\nz\n" {
		t.Errorf("merged: %q", got)
	}
}

// What a fork did not get from the project is not a deletion: a pipe, another worktree inside the
// project, a content that the history does not have, and an ignored file, even if the fork no longer
// ignores it. A merge used to remove such files from the project.
func TestForkMergeLeavesWhatTheForkLacks(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{".gitignore": "*.ign\n", "a.txt": "a\n"})
	p.sh("mkfifo pipe; git init -q . && git add a.txt && git -c user.name=n -c user.email=e commit -qm one && git worktree add -q wt; echo i >seen.ign; truncate -s 33M large; echo here >>large")
	p.mount()
	p.scanned()
	p.sh("rm seen.ign")
	p.cb("undo", "--yes", "--dir", p.dir) // the history has seen.ign and its content now
	moment := p.newest()
	p.sh("echo more >>large")
	before := plainTree(t, p.dir)
	for i, more := range [][]string{nil, {"--at", moment}} {
		f := *p
		f.dir = fmt.Sprint(p.base, "/lacks", i)
		t.Cleanup(f.unmount)
		if out := p.refuseOut(1, append([]string{"fork", f.dir, "--dir", p.dir}, more...)...); !strings.Contains(out, "\n  pipe: it is not a file") {
			t.Errorf("fork %d:\n%s", i, out)
		}
		f.sh("echo >.gitignore; echo mine >new.txt")
		if out := p.cb("fork", "diff", f.dir); out != "M .gitignore\nA new.txt\n" {
			t.Errorf("fork diff %d:\n%s", i, out)
		}
		p.cb("fork", "merge", f.dir)
		p.cb("undo", "--yes", "--dir", p.dir)
		if d := differ(before, plainTree(t, p.dir)); d != "" {
			t.Errorf("merge %d, undone:\n%s", i, d)
		}
	}
}

// A file that is too large to be saved cannot be compared with what it was, so a merge leaves it and
// says why. It used to say that the file had been changed in the project.
func TestForkMergeOfLargeFiles(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{"a.txt": "a\n"})
	p.sh("truncate -s 33M gone more")
	p.mount()
	p.scanned()
	f := p.fork("large")
	f.sh("rm gone; echo more >>more")
	if out := p.refuseOut(2, "fork", "merge", f.dir); !strings.HasPrefix(out, "conflict: gone: too large\nconflict: more: too large\n") {
		t.Errorf("merge:\n%s", out)
	}
}

// The changes of a fork include files in directories whose names are not UTF-8, an empty file from
// 1970, and a text of the same size and time as before. A new file is a conflict if the project has a
// file in the place of its directory. The first two used to make every command fail that compares the
// fork, and drop deleted the others.
func TestForkDropOfOddChanges(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{"same": "1\n", "odd\xff/x": "x\n", "dir/sub/y": "y\n"})
	p.mount()
	p.scanned()
	for i, c := range []struct{ name, change string }{
		{`old`, "touch -d @0 old"},
		{`same`, "touch -r same ../time; echo 2 >same; touch -r ../time same"},
		{`"odd\377/x"`, "cd odd* && echo 2 >x"},
		{`dir/sub/in`, "echo new >dir/sub/in; rm -r ../project/dir; echo file >../project/dir"},
	} {
		f := p.fork(fmt.Sprint("odd", i))
		f.sh(c.change)
		if out := p.refuse(2, "fork", "drop", f.dir); !strings.Contains(out, "not in the project: "+c.name+"\n") {
			t.Errorf("%s:\n%s", c.name, out)
		}
	}
}

// A fork keeps the times of symlinks, like those of other files, and the holes of sparse files.
func TestForkKeepsHolesAndTimesOfLinks(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{"a": "1\n"})
	p.sh("ln -s a link; touch -h -d 2001-02-03 link; truncate -s 40M holes; for at in 0 20 39; do echo $at | dd of=holes bs=1M seek=$at conv=notrunc status=none; done")
	p.mount()
	p.scanned()
	facts := "stat -c '%n %Y %s' link holes; sha256sum <holes"
	want := p.sh(facts)
	for _, f := range []*project{p.fork("now"), p.fork("then", "--at", p.newest())} {
		if got := f.sh("stat -c '%n %Y %s' link"); !strings.HasPrefix(want, got) {
			t.Errorf("the link is %s, want %s", got, want)
		}
	}
	f := p.fork("again")
	if got := f.sh(facts); got != want {
		t.Errorf("the fork has\n%swant\n%s", got, want)
	}
	if blocks, err := strconv.Atoi(strings.TrimSpace(f.sh("stat -c %b holes"))); err != nil || blocks > 1000 {
		t.Errorf("the copy takes %d blocks (%v)", blocks, err)
	}
}

// A fork that is a worktree of the project's repository can be dropped if its commits are on a
// branch, because the branch outlives the fork. The drop used to be refused. The commits of a fork
// with its own repository are lost with the fork. The drop used not to check them.
func TestForkDropAndCommits(t *testing.T) {
	t.Parallel()
	const commit = "git -c user.name=n -c user.email=e commit -qm "
	p := newProject(t, map[string]string{"a.txt": "a\n", "gone.txt": "gone\n", "run.sh": "#!/bin/sh\n"})
	p.sh("git init -q . && git add -A && " + commit + "one")
	p.mount()
	p.scanned()

	f := p.fork("branch", "--branch", "work")
	f.sh("echo more >>a.txt; git rm -q gone.txt; chmod +x run.sh; ln -s a.txt link; echo new >new.txt; git add -A; " + commit + "two; echo more >>new.txt")
	if out := p.refuse(2, "fork", "drop", f.dir); !strings.Contains(out, "not in the project: new.txt\n") {
		t.Errorf("drop of a change behind the commit:\n%s", out)
	}
	f.sh("git checkout -q new.txt; git checkout -q --detach; git branch -qD work")
	if out := p.refuse(2, "fork", "drop", f.dir); !strings.Contains(out, "on no branch") {
		t.Errorf("drop of commits on no branch:\n%s", out)
	}
	f.sh("git checkout -qb work")
	p.cb("fork", "drop", f.dir)
	if got := p.sh("git fsck --full && git show work:new.txt work:a.txt"); !strings.HasSuffix(got, "new\na\nmore\n") {
		t.Errorf("the branch after the drop: %q", got)
	}

	// All files are in the project, but their commits are only in the fork's repository.
	f = p.fork("own")
	f.sh("rm .git && git init -q . && git add -A && " + commit + "start && echo draft >>a.txt && " + commit + "draft a.txt && git branch draft && echo a >a.txt && " + commit + "back a.txt")
	if out := p.refuse(2, "fork", "drop", f.dir); !strings.Contains(out, "a repository of its own") {
		t.Errorf("drop of a repository:\n%s", out)
	}
	p.sh("git fetch -q " + f.dir + " '+refs/heads/*:refs/heads/own/*'")
	p.cb("fork", "drop", f.dir)
	if got := p.sh("git show own/draft:a.txt"); got != "a\ndraft\n" {
		t.Errorf("the draft: %q", got)
	}

	// The reflog of a fork's own stash has many entries. It is not enough that one of them is in
	// the project.
	f = p.fork("stash")
	f.sh("rm .git && git init -q . && git fetch -q " + p.dir + " HEAD && git reset -q FETCH_HEAD")
	f.sh("for i in 1 2; do echo $i >a.txt; git -c user.name=n -c user.email=e stash -q; done")
	p.sh("git fetch -q " + f.dir + " refs/stash:refs/heads/stash")
	if out := p.refuse(2, "fork", "drop", f.dir); !strings.Contains(out, "a repository of its own") {
		t.Errorf("drop of an older stash:\n%s", out)
	}
	f.sh("git stash drop -q 'stash@{1}'")
	p.cb("fork", "drop", f.dir)
}

// A fork is kept while it contains a repository with commits that exist nowhere else. Before, only
// the repository of the fork itself was checked, so a drop deleted those of its directories and
// those of its submodules.
func TestForkDropAndNestedRepositories(t *testing.T) {
	t.Parallel()
	const commit = "git -c user.name=n -c user.email=e commit -qm "
	p := newProject(t, map[string]string{"a.txt": "a\n"})
	p.sh("git init -q ../lib && cd ../lib && " + commit + "lib --allow-empty && cd - && git init -q . && git -c protocol.file.allow=always submodule add -q ../lib lib && git add -A && " + commit + "one")
	p.mount()
	p.scanned()
	f := p.fork("nested")
	f.sh("git init -q new && cd new && echo draft >b.txt && git add -A && " + commit + "draft && echo b >b.txt && " + commit + "b -a")
	f.sh("rmdir lib; git -c protocol.file.allow=always submodule update -q --init && cd lib && echo c >c.txt && git add -A && " + commit + "c")
	p.cb("fork", "merge", f.dir)
	for _, dir := range []string{"lib", "new"} {
		if out := p.refuse(2, "fork", "drop", f.dir); !strings.Contains(out, f.dir+"/"+dir+" has a repository of its own") {
			t.Errorf("drop of the repository %s:\n%s", dir, out)
		}
		// A repository is no longer needed once the project has one with the same commits.
		p.sh("git init -q " + dir + "; git -C " + dir + " fetch -q " + f.dir + "/" + dir + " HEAD:refs/heads/kept; git -C " + dir + " update-ref HEAD refs/heads/kept")
	}
	p.cb("fork", "drop", f.dir)
	if got := p.sh("git -C new show kept~:b.txt; git -C lib show kept:c.txt"); got != "draft\nc\n" {
		t.Errorf("the commits: %q", got)
	}
}

// A fork is kept while other forks were made from it, because they are compared with its history.
// Before, it was dropped, and then all files of such a fork were shown as added, with status 0.
func TestForkOfAForkNeedsIt(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{"a.txt": "a\n"})
	p.mount()
	p.scanned()
	f := p.fork("first")
	second := f.fork("second")
	if out := p.refuse(2, "fork", "drop", f.dir); !strings.Contains(out, second.dir+" is a fork of "+f.dir) {
		t.Errorf("drop of a fork that has a fork:\n%s", out)
	}
	p.cb("fork", "drop", "--force", f.dir)
	for _, do := range []string{"diff", "merge", "drop"} {
		if out := p.refuse(2, "fork", do, second.dir); !strings.Contains(out, f.dir+" no longer exists") || !strings.Contains(out, "drop --force") {
			t.Errorf("%s without the first fork:\n%s", do, out)
		}
	}
	p.cb("fork", "drop", "--force", second.dir)
}

// Of several commands that make the same fork at once, one succeeds, and its fork is whole. Before,
// the others removed the directory when they failed, with what the first one had copied.
func TestSameForkAtOnce(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for i := range 300 {
		files[fmt.Sprintf("f%d.txt", i)] = fmt.Sprintln(i)
	}
	for _, with := range []string{"git", "no git"} {
		p := newProject(t, files)
		if with == "git" {
			p.sh("git init -q . && git add -A && git -c user.name=n -c user.email=e commit -qm one")
		}
		p.mount()
		p.scanned()
		f := *p
		f.dir = filepath.Join(p.base, "same")
		t.Cleanup(f.unmount)
		made := make(chan bool)
		for range 4 {
			go func() { made <- p.command("fork", f.dir, "--branch", "b", "--dir", p.dir).Run() == nil }()
		}
		n := 0
		for range 4 {
			if <-made {
				n++
			}
		}
		if n != 1 {
			t.Errorf("with %s: %d forks were made in one directory", with, n)
		}
		if d := differ(plainTree(t, p.dir), plainTree(t, f.dir)); d != "" {
			t.Errorf("with %s, the fork:\n%s", with, d)
		}
	}
}

// Forks that change different lines of the same files are merged at once, and each line arrives.
// Before, two merges read the same file, and one overwrote what the other had written; both said that
// they had merged it.
func TestMergesAtOnce(t *testing.T) {
	t.Parallel()
	lines := strings.Repeat("same\n", 10)
	files := map[string]string{}
	for i := range 60 {
		files[fmt.Sprintf("f%d.txt", i)] = "line1\n" + lines + "line2\n" + lines + "line3\n" + lines + "line4\n"
	}
	p := newProject(t, files)
	p.mount()
	p.scanned()
	merged := make(chan string)
	forks := map[string]*project{}
	for _, n := range []string{"1", "2", "3", "4"} {
		forks[n] = p.fork("fork" + n)
		forks[n].sh("sed -i s/line" + n + "/fork" + n + "/ *.txt")
	}
	for _, f := range forks {
		go func() {
			out, err := p.command("fork", "merge", f.dir).CombinedOutput()
			if err != nil {
				merged <- fmt.Sprintf("%v: %s", err, out)
				return
			}
			merged <- ""
		}()
	}
	for range forks {
		if failed := <-merged; failed != "" {
			t.Errorf("merge: %s", failed)
		}
	}
	if left := p.sh("grep -l line *.txt || true"); left != "" {
		t.Errorf("these files lack lines of forks that were merged:\n%s", left)
	}
}

// The forks of a project are merged into it after it was moved. Before, they named its former
// directory, so the project had no forks, and the forks no project. While git does not find the
// repository of such a fork, its commits cannot be checked, and it is kept.
func TestForksOfAMovedProject(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{"a.txt": "a\n"})
	p.sh("git init -q . && git add -A && git -c user.name=n -c user.email=e commit -qm one")
	p.mount()
	p.scanned()
	f := p.fork("work")
	p.unmount()
	moved := *p
	moved.dir = filepath.Join(p.base, "moved")
	if err := os.Rename(p.dir, moved.dir); err != nil {
		t.Fatal(err)
	}
	moved.cb("relocate", p.dir, moved.dir)
	moved.mount()
	t.Cleanup(moved.unmount)
	f.sh("echo new >new.txt")
	if out := moved.cb("fork", "--dir", moved.dir); !strings.HasPrefix(out, f.dir+" ") {
		t.Errorf("fork:\n%s", out)
	}
	if out := moved.cb("fork", "merge", f.dir); !strings.HasPrefix(out, "A new.txt\nmerged 1 file into "+moved.dir) {
		t.Errorf("merge:\n%s", out)
	}
	if out := moved.refuse(2, "fork", "drop", f.dir); !strings.Contains(out, "cannot be checked") {
		t.Errorf("drop without the repository:\n%s", out)
	}
	moved.sh("git worktree repair " + f.dir)
	moved.cb("fork", "drop", f.dir)
}

// Names are printed so that they can be read back: quoted in patches, and in base64 in JSON if they
// are not UTF-8.
func TestForkDiffOfOddNames(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{"a.txt": "a\n"})
	p.mount()
	p.scanned()
	f := p.fork("odd")
	f.sh(`printf 'new\n' >"$(printf 'two\nlines')"; printf 'b\n' >"$(printf 'b\344r')"; ln -s a.txt "$(printf 's\344')"`)
	patch := p.cb("fork", "diff", "-p", f.dir)
	cmd := exec.Command("git", "apply", "--directory", "into")
	cmd.Dir, cmd.Stdin = p.base, strings.NewReader(patch)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v: %s\n%s", err, out, patch)
	}
	if b, err := os.ReadFile(filepath.Join(p.base, "into", "two\nlines")); err != nil || string(b) != "new\n" {
		t.Errorf("applied: %q, %v", b, err)
	}
	for _, do := range []string{"diff", "merge"} {
		if out := p.cb("fork", do, "--json", f.dir); !strings.Contains(out, `"path_base64":"YuRy"`) || strings.Contains(out, "�") {
			t.Errorf("%s --json: %s", do, out)
		}
	}
}

// Five forks are made at the same time, while git also holds the index's lock. Staged changes must
// be staged in each of them. Git takes that lock to write the tree of an index, so some of the
// forks used to have nothing staged.
func TestForksAtOnce(t *testing.T) {
	p := newProject(t, map[string]string{"a.txt": "a\n"})
	p.sh("git init -q . && git add -A && git -c user.name=n -c user.email=e commit -qm one; echo staged >staged.txt; echo b >a.txt; git add -A; echo c >a.txt")
	p.mount()
	p.scanned()
	before := p.sh("git status --porcelain")
	p.write(".git/index.lock", "")
	var commands []*exec.Cmd
	var forks []*project
	for i := range 5 {
		f := *p
		f.dir = filepath.Join(p.base, fmt.Sprint("fork", i))
		t.Cleanup(f.unmount)
		cmd := p.command("fork", f.dir, "--dir", p.dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		commands, forks = append(commands, cmd), append(forks, &f)
	}
	for _, cmd := range commands {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	for _, f := range forks {
		if got := f.sh("git status --porcelain"); got != before {
			t.Errorf("git status in %s:\n%swant\n%s", f.dir, got, before)
		}
	}
	if got := p.sh("rm .git/index.lock; git status --porcelain; git fsck --full --no-dangling"); got != before {
		t.Errorf("git status in the project:\n%swant\n%s", got, before)
	}
}

// answer runs a hook for a client that wants a worktree, or wants it removed, and returns what the
// hook prints.
func (p *project) answer(event string, in map[string]any) (string, error) {
	p.t.Helper()
	text, err := json.Marshal(in)
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := p.command("hook", event)
	cmd.Stdin = bytes.NewReader(text)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, errs.Bytes())
	}
	return strings.TrimSpace(string(out)), err
}

// If a client in a project requests a worktree, it gets a fork. In a directory that cachebro does not
// know, or in a repository inside of a project, it gets an ordinary git worktree. A worktree with
// something that exists nowhere else is not removed.
func TestWorktreesOfAClient(t *testing.T) {
	p := newProject(t, map[string]string{".gitignore": ".env\n", ".env": "KEY=1\n", "a.txt": "a\n", "lib/l.txt": "l\n"})
	commit := "git init -q . && git add -A && git -c user.name=n -c user.email=e commit -qm one"
	p.sh("(cd lib && " + commit + ") && echo lib >>.git/info/exclude 2>/dev/null || true; " + commit)
	p.mount()
	p.scanned()
	create := func(cwd, name string) *project {
		t.Helper()
		dir, err := p.answer("WorktreeCreate", map[string]any{"name": name, "cwd": cwd})
		if err != nil {
			t.Fatalf("worktree %s of %s: %v", name, cwd, err)
		}
		f := *p
		f.dir = dir
		t.Cleanup(f.unmount)
		return &f
	}
	remove := func(w *project) error {
		_, err := p.answer("WorktreeRemove", map[string]any{"worktree_path": w.dir, "cwd": p.dir})
		return err
	}

	w := create(p.path("lib/.."), "one/two")
	if w.dir != p.dir+".worktrees/one+two" || w.read(".env") != "KEY=1\n" || !mounted(w.dir) {
		t.Errorf("the worktree %s has %q", w.dir, w.read(".env"))
	}
	if got := w.sh("git branch --show-current"); got != "worktree-one+two\n" {
		t.Errorf("its branch: %q", got)
	}
	w.write("new.txt", "new\n")
	if err := remove(w); err == nil || !strings.Contains(err.Error(), "new.txt") {
		t.Errorf("a worktree with what is nowhere else was removed: %v", err)
	}
	w.unmount()
	if again := create(p.dir, "one/two"); again.dir != w.dir || again.read("new.txt") != "new\n" || !mounted(w.dir) {
		t.Errorf("asked for again it is %s", again.dir)
	}
	inner := create(w.dir, "inner")
	if inner.dir != w.dir+".worktrees/inner" || inner.read("new.txt") != "new\n" {
		t.Errorf("a worktree's worktree: %s", inner.dir)
	}
	if err := remove(inner); err != nil {
		t.Error(err)
	}
	p.cb("fork", "merge", w.dir)
	if err := remove(w); err != nil {
		t.Error(err)
	}
	if out := p.sh("git worktree list; git branch --list 'worktree-*'; ls -d ../*.worktrees 2>&1 || true"); strings.Count(out, "worktree") != 1 {
		t.Errorf("left behind:\n%s", out)
	}

	nested := create(p.path("lib"), "x")
	if nested.dir != p.path("lib/.claude/worktrees/x") || nested.read("l.txt") != "l\n" {
		t.Errorf("a repository in the project: %s", nested.dir)
	}
	other := filepath.Join(p.base, "other")
	if out, err := exec.Command("sh", "-ec", "mkdir "+other+"; cd "+other+"; echo o >o.txt; "+commit).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for range 2 {
		plain := create(other, "x")
		if plain.dir != filepath.Join(other, ".claude/worktrees/x") || plain.read("o.txt") != "o\n" {
			t.Errorf("a repository that cachebro does not know: %s", plain.dir)
		}
	}
	plain := create(other, "x")
	plain.write("only.txt", "here\n")
	if err := remove(plain); err == nil {
		t.Error("a git worktree with a new file was removed")
	}
	plain.sh("rm only.txt")
	if err := remove(plain); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"", "..", "a/../b", "-x", "a b"} {
		if dir, err := p.answer("WorktreeCreate", map[string]any{"name": name, "cwd": p.dir}); err == nil {
			t.Errorf("a worktree named %q is %s", name, dir)
		}
	}
}
