package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// gitSetup makes a repository with everything that can be lost: branches, tags, packed and loose
// refs, stashes, a submodule, a worktree, a hook, staged, changed, untracked and ignored files,
// and a commit that only a reflog has. R is a directory beside the project.
const gitSetup = `
export GIT_CONFIG_COUNT=3 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=n GIT_CONFIG_KEY_1=user.email GIT_CONFIG_VALUE_1=e GIT_CONFIG_KEY_2=protocol.file.allow GIT_CONFIG_VALUE_2=always
git init -q -b main "$R"; (cd "$R"; echo lib >lib.c; git add .; git commit -qm lib)
git init -q -b main .
printf '*.ign\nwt/\n' >.gitignore
for i in $(seq 60); do echo "$i" >"file-with-a-long-name-so-that-the-index-is-larger-$i.txt"; done
git add .; git commit -qm one
echo 2 >a.txt; git add .; git commit -qm two
git submodule --quiet add "$R" lib; git commit -qm submodule
git checkout -qb packed; echo p >p.txt; git add .; git commit -qm packed; git tag v1
git checkout -q main; git pack-refs --all
git checkout -qb feature; echo f >f.txt; git add .; git commit -qm feature; git config branch.feature.description text
git checkout -q main; echo 3 >a.txt; git commit -qam three
git worktree add -q -b tree wt; echo w >wt/w.txt; git -C wt add .; git -C wt commit -qm tree; echo more >>wt/w.txt
echo lost >l.txt; git add .; git commit -qm "only in the reflog"; git reset -q --hard HEAD~1
echo s1 >>a.txt; git stash -q; echo s2 >>a.txt; git stash -q
printf '#!/bin/sh\nexit 0\n' >.git/hooks/pre-push; chmod 755 .git/hooks/pre-push
git config demo.value 1
echo staged >staged.txt; git add staged.txt; echo changed >>a.txt; echo own >untracked.txt; echo secret >x.ign
git status >/dev/null; git -C wt status >/dev/null; git -C lib status >/dev/null`

// gitState describes the state of a project's repositories and the contents of its files.
const gitState = `
export GIT_OPTIONAL_LOCKS=0 LC_ALL=C
for d in . wt lib; do
	echo "== $d"; cd "$P/$d"
	git fsck --full --no-dangling 2>&1; echo "fsck $?"
	git for-each-ref; git symbolic-ref HEAD; git ls-files -s -t -v; git stash list; git log -g --all --format='%h %gd %gs'; git worktree list --porcelain; git status --porcelain
done
cd "$P"; git submodule status
find .git \( -path .git/objects -o -path .git/modules/lib/objects \) -prune -o -type f ! -name index ! -name COMMIT_EDITMSG ! -name FETCH_HEAD -printf '%p %m %u %g ' -exec sha256sum {} \; | sort
find . -path ./.git -prune -o -type f -printf '%p %m %u ' -exec sha256sum {} \; | sort`

// disasters are commands that agents have run. undo is the command that reverses one, if it is
// not undo --git.
var disasters = []struct{ name, do, undo string }{
	{"reset", "git reset -q --hard HEAD~2", ""},
	{"branch", "git branch -D feature packed", ""},
	{"index", "printf DIRCgarbage >.git/index", ""},
	{"repository", "rm -rf .git", ""},
	{"stash drop", "git stash drop -q", ""},
	{"stash clear", "git stash clear", ""},
	{"gc", "git reflog expire --expire=now --all; git gc -q --prune=now", "undo --git --yes --since 2m"},
	{"checkout", "git checkout -q -f packed", ""},
	{"checkout of the same", "git checkout -q -f HEAD", ""},
	{"amend", "git commit -q --amend -m amended", ""},
	{"moved ref", "git update-ref refs/heads/feature main~2", ""},
	{"forced branch", "git branch -f feature main~1", ""},
	{"filter", "git -C wt checkout -q -f .; FILTER_BRANCH_SQUELCH_WARNING=1 git -C wt filter-branch -f --msg-filter 'sed s/^/x/' -- tree", "undo --git --yes --since 2m"},
	{"filter all", "git stash -q -u; FILTER_BRANCH_SQUELCH_WARNING=1 git filter-branch -f --index-filter 'git rm -q --cached --ignore-unmatch a.txt' -- main feature >/dev/null", "undo --git --yes --since 2m"},
	{"clean", "git clean -qfdx -e wt", "undo --yes"},
	{"worktree", "git worktree remove --force wt", ""},
	{"submodule", "git submodule --quiet deinit -f lib", ""},
	{"submodule's repository", "rm -rf .git/modules/lib", ""},
	{"moved repository", "mv .git was.git", ""},
	{"rebase", "git stash -q; git rebase -q --onto HEAD~2 HEAD~1", "undo --git --yes --since 2m"},
	{"merge", "git commit -qam wip; git merge -q --no-edit feature", "undo --git --yes --since 2m"},
	{"index added", "git add -A", ""},
	{"index removed", "rm .git/index", ""},
	{"read-tree", "git read-tree --empty", ""},
	{"config", "git config --remove-section demo; rm .git/hooks/pre-push", "undo --git --yes --since 2m"},
	{"head", "git symbolic-ref HEAD refs/heads/nothing", ""},
	{"packed refs", "rm .git/packed-refs", ""},
	{"refs", "rm -rf .git/refs .git/logs", ""},
	{"objects", "rm -rf .git/objects", ""},
}

// quickDisasters are run by every run of the tests. CACHEBRO_GITSAFE=all runs all, as
// scripts/safety/git.sh does.
var quickDisasters = map[string]bool{"index": true, "repository": true, "moved repository": true}

// TestGitDisasters does to one repository what agents have done, one disaster after the other. The
// daemon or mountd is killed before a third of the undos. After each undo, the repository's own
// files and everything that git says about it are as before.
func TestGitDisasters(t *testing.T) {
	t.Parallel()
	p := newProject(t, nil)
	p.env = append(p.env, "P="+p.dir, "R="+filepath.Join(p.base, "remote"))
	p.sh(gitSetup)
	p.mount()
	p.scanned()
	endure(t, p.sh, func(i int) {
		if i%3 == 1 {
			_ = syscall.Kill(p.process([]string{"daemon", "mountd"}[i/3%2]), syscall.SIGKILL)
		}
	}, func(args string) string { return p.cb(append(strings.Fields(args), "--dir", p.dir)...) })
}

// TestGitDisastersAcrossFileSystems is TestGitDisasters with the state directory on another file
// system than the repository. Files that git removes are then copied, because they cannot be saved
// by a hard link.
func TestGitDisastersAcrossFileSystems(t *testing.T) {
	t.Parallel()
	p := acrossFileSystems(t)
	p.env = append(p.env, "P="+p.dir, "R="+filepath.Join(p.base, "remote"))
	p.sh(gitSetup)
	p.mount()
	p.scanned()
	endure(t, p.sh, func(int) {}, func(args string) string { return p.cb(append(strings.Fields(args), "--dir", p.dir)...) })
}

// acrossFileSystems makes a project whose state directory is on another file system.
func acrossFileSystems(t *testing.T) *project {
	state, err := os.MkdirTemp("/dev/shm", "cachebro-e2e")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	p := newProject(t, nil)
	var here, there syscall.Stat_t
	if err := errors.Join(syscall.Stat(p.dir, &here), syscall.Stat(state, &there)); err != nil || here.Dev == there.Dev {
		t.Fatalf("%s and %s are one file system, or %v", p.dir, state, err)
	}
	name := filepath.Join(p.base, "state")
	if err := errors.Join(os.Remove(name), os.Symlink(state, name)); err != nil {
		t.Fatal(err)
	}
	return p
}

// A new repository stays whole if the objects in it are too large to be saved by a copy. Otherwise
// the undo of the undo could not restore it.
func TestNewRepositoryAcrossFileSystems(t *testing.T) {
	t.Parallel()
	p := acrossFileSystems(t)
	p.mount()
	p.sh(`git init -q new; cd new; head -c 70000000 /dev/urandom >big; git add .; git -c user.name=t -c user.email=t@example.org commit -qm big; rm big`)
	out, err := p.command("undo", "--git", "--since", "5m", "--yes", "--dir", p.dir).Output()
	if err == nil || !strings.Contains(string(out), "of objects, which could not be restored later") {
		t.Errorf("%v: %s", err, out)
	}
	p.sh(`git -C new fsck; git -C new cat-file -e HEAD:big`)
}

// TestGitDisastersOfAUser is TestGitDisasters with the mount of an ordinary user.
func TestGitDisastersOfAUser(t *testing.T) {
	t.Parallel()
	u := newUsers(t, someUser)
	u.env = append(u.env, "R="+filepath.Join(u.base, "home", "remote"))
	as := func(script string) string { return u.as(someUser, script) }
	as(gitSetup)
	as(`$CB mount .`)
	endure(t, as, func(int) {}, func(args string) string { return as("$CB " + args) })
}

func endure(t *testing.T, sh func(string) string, kill func(int), undo func(string) string) {
	all, only := os.Getenv("CACHEBRO_GITSAFE") == "all", os.Getenv("CACHEBRO_DISASTER")
	i := 0
	for _, d := range disasters {
		if only != "" && only != d.name || only == "" && !all && !quickDisasters[d.name] {
			continue
		}
		if strings.HasSuffix(d.undo, "2m") {
			d.undo = "undo --git --yes --since " + time.Now().Format("15:04:05.000")
		}
		before := sh(gitState)
		sh("export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=n GIT_CONFIG_KEY_1=user.email GIT_CONFIG_VALUE_1=e; " + d.do)
		kill(i)
		i++
		if d.undo == "" {
			d.undo = "undo --git --yes"
		}
		said := undo(d.undo)
		if diff := lineDiff(before, sh(gitState)); diff != "" {
			t.Fatalf("%s:\n%s\nthe undo said:\n%s\nlog:\n%s", d.name, diff, said, undo("log -n 3"))
		}
	}
}

// An undo of git's own files does not change commits that others made since, a repository that a
// running git has locked, or anything that was not recorded here. It announces what it will do,
// gives files their owners back, and can be undone itself.
func TestGitUndoLeavesOthers(t *testing.T) {
	t.Parallel()
	p := newProject(t, nil)
	p.env = append(p.env, "P="+p.dir, "R="+filepath.Join(p.base, "remote"))
	who := "export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=n GIT_CONFIG_KEY_1=user.email GIT_CONFIG_VALUE_1=e; "
	p.sh(gitSetup)
	p.sh("chmod 2775 .git/refs/heads; chmod 640 .git/config; mkdir .git/refs/heads/deep; git branch deep/er/x")
	p.mount()
	p.scanned()
	undo := []string{"undo", "--git", "--yes", "--dir", p.dir}

	// Others have made commits since.
	p.sh("git branch -D feature; git reset -q --hard HEAD~1")
	number := p.operation("feature deleted, was")
	p.sh(who + "echo theirs >theirs.txt; git add .; git commit -qm theirs; git branch feature HEAD~1")
	after := p.sh(gitState)
	if said := p.refuse(1, "undo", "--git", number, "--yes", "--dir", p.dir); said != "" {
		t.Errorf("stderr: %s", said)
	}
	if diff := lineDiff(after, p.sh(gitState)); strings.Contains(strings.ReplaceAll(diff, ".git/config", ""), ".git/") {
		t.Errorf("feature is made again since, and was touched:\n%s", diff)
	}
	before := p.sh(gitState)
	p.sh(who + "git reset -q --hard HEAD~2")
	dry := p.cb("undo", "--git", "--dry-run", "--dir", p.dir)
	if !strings.Contains(dry, "git reset -q --hard HEAD~2 · main ") || !strings.Contains(dry, "M .git/refs/heads/main") {
		t.Errorf("the preview:\n%s", dry)
	}
	if !strings.Contains(p.cb("log", "-n", "1", p.dir), "main ") {
		t.Errorf("log does not say what became of main:\n%s", p.cb("log", "-n", "1", p.dir))
	}
	said := p.cb("undo", "--since", "1m", "--dry-run", "--dir", p.dir)
	if !strings.Contains(said, "the same undo with --git undoes that too") {
		t.Errorf("an undo of files does not say what it leaves:\n%s", said)
	}

	// A running git has locked the repository.
	p.write(".git/index.lock", "")
	if said := p.refuse(2, undo...); !strings.Contains(said, ".git/index.lock: a running git has it locked") {
		t.Errorf("with a lock: %s", said)
	}
	p.sh("rm .git/index.lock")
	reset := p.sh(gitState)
	p.cb(undo...)
	p.sh("git config --get branch.feature.description") // nobody else has changed it
	if diff := lineDiff(before, p.sh(gitState)); diff != "" {
		t.Errorf("after the undo:\n%s", diff)
	}

	// Undo the undo by undo --git, because redo is only for other files.
	p.cb("redo", "--yes", "--dir", p.dir)
	p.cb("undo", "--git", p.operation("main "), "--yes", "--dir", p.dir)
	if diff := lineDiff(reset, p.sh(gitState)); diff != "" {
		t.Errorf("the undo was not undone:\n%s", diff)
	}

	// Owners and modes come back, including those of directories.
	before = p.sh(gitState)
	p.sh("rm -rf .git")
	p.cb(undo...)
	if diff := lineDiff(before, p.sh(gitState)); diff != "" {
		t.Errorf("after rm -rf .git:\n%s", diff)
	}
	if out, _ := p.try("undo", "--since", "1h", "--dry-run", "--dir", p.dir); strings.Contains(out, "lost .git") {
		t.Errorf("the restored repository counts as lost:\n%s", out)
	}
	if got := p.sh("stat -c %a .git/refs/heads .git/config"); got != "2775\n640\n" {
		t.Errorf("modes: %q", got)
	}
	if out := p.cb("status", "-v", "--dir", p.dir); !strings.Contains(out, "git kept: ") {
		t.Errorf("status:\n%s", out)
	}

	// Input from elsewhere is treated as data.
	p.sh("printf '#!/bin/sh\\n' >.git/hooks/post-commit; rm .git/hooks/post-commit .git/hooks/pre-push")
	whole := filepath.Join(p.base, "whole")
	p.cb("store", "export", "--dir", p.dir, whole)
	other := *p
	other.dir = filepath.Join(p.base, "other")
	p.sh(`git clone -q . "$P/../other"`)
	t.Cleanup(other.unmount)
	p.cb("store", "import", "--dir", other.dir, whole)
	other.mount()
	if said := p.refuse(2, "undo", "--git", "--yes", "--dir", other.dir); !strings.Contains(said, "no git operation is known") {
		t.Errorf("with a history from elsewhere: %s", said)
	}
}

// An undo of git's own files also restores the directories of the git directory. It removes those
// that the commands made and makes those that they removed. It makes none that they made and removed
// again, because git takes an empty rebase-merge for an unfinished rebase. The undo can itself be
// undone. A directory that others have made since stays, and does not prevent the rest.
func TestGitUndoRestoresDirectories(t *testing.T) {
	t.Parallel()
	p := newProject(t, nil)
	who := "export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=n GIT_CONFIG_KEY_1=user.email GIT_CONFIG_VALUE_1=e; "
	p.sh(who + `git init -q -b main .; echo 1 >a; git add .; git commit -qm one; echo 2 >a; git commit -qam two
git checkout -qb side HEAD~1; echo 3 >a; git commit -qam three; git checkout -q main; git branch plain; git branch deep/er/x`)
	p.mount()
	p.scanned()
	state := func() string {
		return p.sh(`export GIT_OPTIONAL_LOCKS=0 LC_ALL=C; git for-each-ref; git symbolic-ref -q HEAD || git rev-parse HEAD; git status
find .git -path .git/objects -prune -o ! -name COMMIT_EDITMSG -print | sort`)
	}
	before := state()
	for _, do := range []string{
		"git rebase side || git rebase --abort",
		"git rebase --apply side || git rebase --abort",
		"git rebase side || true",
		"git rebase --apply side || true",
		"git cherry-pick side side~1 || git cherry-pick --abort",
		"git cherry-pick side side~1 || true",
		"git bisect start; git bisect bad; git bisect good HEAD~1; git bisect reset",
		"git worktree add ../wt; git worktree remove ../wt",
		"git worktree add ../wt plain",
		"git branch new/er/x",
		"git branch -m plain plain/below",
		"git branch -m deep/er/x deep",
		"git notes add -m text",
	} {
		since := time.Now().Format("15:04:05.000")
		p.sh(who + "{ " + do + "; } >/dev/null 2>&1")
		said := p.cb("undo", "--git", "--yes", "--since", since, "--dir", p.dir)
		if diff := lineDiff(before, state()); diff != "" {
			t.Fatalf("%s:\n%s\nthe undo said:\n%s", do, diff, said)
		}
	}

	p.sh(who + "git rebase side >/dev/null 2>&1 || true")
	stopped := p.sh("find .git/rebase-merge | sort")
	p.cb("undo", "--git", "--yes", "--dir", p.dir)
	p.cb("undo", "--git", p.operation("HEAD "), "--yes", "--dir", p.dir)
	if diff := lineDiff(stopped, p.sh("find .git/rebase-merge | sort")); diff != "" {
		t.Errorf("the undo was not undone:\n%s", diff)
	}
	p.sh("git rebase --abort")

	p.sh(`printf 'create refs/heads/m HEAD\ncreate refs/heads/n/a HEAD\n' | git update-ref --stdin`)
	number := p.operation("new m ")
	p.sh("git branch -qD n/a; git branch n/c")
	p.cb("undo", "--git", number, "--yes", "--dir", p.dir)
	if got := p.sh("git branch --list m 'n/*'"); strings.TrimSpace(got) != "n/c" {
		t.Errorf("after the undo of the first: %q", got)
	}
}

// The addition of a submodule can be undone, which used to fail because it was taken for a worktree. A
// submodule or worktree whose branch the undo would delete is not removed if the branch has commits of
// its own.
func TestGitUndoOfSubmodulesAndWorktrees(t *testing.T) {
	t.Parallel()
	p := newProject(t, nil)
	who := "export GIT_CONFIG_COUNT=3 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=n GIT_CONFIG_KEY_1=user.email GIT_CONFIG_VALUE_1=e GIT_CONFIG_KEY_2=protocol.file.allow GIT_CONFIG_VALUE_2=always; "
	p.sh(who + "git init -q -b main .; echo 1 >a; git add .; git commit -qm one; git clone -q . ../lib")
	p.mount()
	p.scanned()
	state := func() string {
		return p.sh("export GIT_OPTIONAL_LOCKS=0; ls -A; git log --oneline --all; git status --short; git submodule; cat .git/config; ls .git")
	}
	before := state()
	since := time.Now().Format("15:04:05.000")
	p.sh(who + "git submodule add -q ../lib sub; git commit -qm sub")
	said := p.cb("undo", "--git", "--yes", "--since", since, "--dir", p.dir)
	if diff := lineDiff(before, strings.Replace(state(), "modules\n", "", 1)); diff != "" {
		t.Errorf("%s\nthe undo said:\n%s", diff, said)
	}
	for _, do := range []string{
		"git submodule add -q ../lib sub; git -C sub commit -q --allow-empty -m mine",
		"git worktree add -q -b made ../wt; git -C ../wt commit -q --allow-empty -m mine",
	} {
		since := time.Now().Format("15:04:05.000")
		p.sh(who + do)
		if said := p.refuse(2, "undo", "--git", "--yes", "--since", since, "--dir", p.dir); !strings.Contains(said, "contains commits that are on no other branch") {
			t.Errorf("%s:\n%s", do, said)
		}
	}
}

// Commits that no ref reaches any longer are listed with the command that restores them, even after
// git itself has removed them.
func TestGitLost(t *testing.T) {
	p := newProject(t, nil)
	p.env = append(p.env, "P="+p.dir, "R="+filepath.Join(p.base, "remote"), "PATH="+p.base+":"+os.Getenv("PATH"))
	if err := os.Symlink(binary, filepath.Join(p.base, "cachebro")); err != nil {
		t.Fatal(err)
	}
	who := "export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=n GIT_CONFIG_KEY_1=user.email GIT_CONFIG_VALUE_1=e; "
	p.sh(gitSetup)
	p.mount()
	p.scanned()
	if out := p.cb("git", "lost", "--dir", p.dir); out != "no lost commits, branches or stashes are known\n" {
		t.Errorf("before anything: %s", out)
	}
	refs := p.sh("git rev-parse feature packed stash@{0} stash@{1}")
	p.sh("git branch -qD feature packed; git tag -d v1; git stash clear; git reset -q --hard HEAD~1; git reflog expire --expire=now --all; git gc -q --prune=now")
	if out := p.sh("git cat-file -t " + strings.Fields(refs)[0] + " 2>&1 || true"); !strings.Contains(out, "Not a valid object name") && !strings.Contains(out, "could not get object info") {
		t.Fatalf("gc left the branch's commit: %s", out)
	}
	list := p.cb("git", "lost", "--dir", p.dir)
	for _, id := range strings.Fields(refs) {
		after, found := list, false
		for range strings.Count(list, id[:7]+"  ") { // a commit may have several lines, for example for a branch and a tag
			_, after, found = strings.Cut(after, id[:7]+"  ")
			for l := range strings.Lines(after) {
				if l = strings.TrimSpace(l); strings.HasPrefix(l, "git ") || strings.HasPrefix(l, "cachebro git ") {
					p.sh(who + l)
					break
				}
			}
		}
		if !found {
			t.Errorf("%s is not listed:\n%s", id, list)
		}
	}
	p.sh("git fsck --full --no-dangling")
	for _, id := range strings.Fields(refs) {
		if out := p.sh("git for-each-ref --contains " + id + "; git stash list --format=%H | grep " + id + " || true"); strings.TrimSpace(out) == "" {
			t.Errorf("%s is not back:\n%s", id, list)
		}
	}
	if out := p.cb("git", "lost", "--dir", p.dir); strings.Contains(out, "  feature  ") || strings.Contains(out, "  packed  ") || strings.Contains(out, " stash ") {
		t.Errorf("still lost:\n%s", out)
	}
	p.refuse(1, "git", "back", "1234567", "--dir", p.dir)
}

// If a repository's git directory is not in the project, its files are not saved, and status,
// doctor and git lost say so. A bare repository in the project has versions like other files;
// nothing is written into it.
func TestGitElsewhere(t *testing.T) {
	p := newProject(t, nil)
	who := "export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=n GIT_CONFIG_KEY_1=user.email GIT_CONFIG_VALUE_1=e; "
	apart := filepath.Join(p.base, "apart.git")
	p.sh(who + "git init -q -b main --separate-git-dir=" + apart + "; git commit -q --allow-empty -m one; git branch b; git init -q --bare bare.git; git push -q bare.git main b")
	p.mount()
	p.scanned()
	p.sh("git branch -qD b")
	was := p.sh("cat bare.git/refs/heads/b")
	p.sh("git -C bare.git branch -qD b")
	want := apart + " is outside of the project"
	for _, args := range [][]string{{"status", "--dir", p.dir}, {"doctor", "--no-canary", "--dir", p.dir}, {"git", "lost", "--dir", p.dir}} {
		if out, _ := p.try(args...); !strings.Contains(out, want) {
			t.Errorf("%v does not say that %s:\n%s", args, want, out)
		}
	}
	if said := p.refuse(2, "undo", "--git", "--yes", "--dir", p.dir); !strings.Contains(said, "no git operation is known") {
		t.Errorf("undo --git: %s", said)
	}
	if out, err := p.try("undo", "--yes", "--dir", p.dir); err == nil || !strings.Contains(out, "bare.git/refs/heads/b: belongs to git") {
		t.Errorf("undo in a bare repository: %v\n%s", err, out)
	}
	p.wantContents("bare.git/refs/heads/b", was)

	// Add a worktree to a repository that is beside the project.
	tree := *p
	tree.dir = filepath.Join(p.base, "tree")
	p.sh("git worktree add -q ../tree")
	t.Cleanup(tree.unmount)
	tree.mount()
	want = filepath.Join(apart, "worktrees/tree") + " is outside of the project"
	if out := tree.cb("status", "--dir", tree.dir); !strings.Contains(out, want) {
		t.Errorf("status of a worktree:\n%s", out)
	}
}

// Status, doctor and git lost name a git directory in the project that is not called .git. They
// also name the git directory of a work tree that is mounted only in part. Otherwise "nothing is
// lost" would be a wrong answer.
func TestGitByAnotherName(t *testing.T) {
	for _, c := range []struct{ make, want string }{
		{"git init -q --separate-git-dir=meta.git", "project/meta.git is not called .git"},
		{"git init -q ..", "/.git is outside of the project"},
	} {
		p := newProject(t, map[string]string{"a": "a\n"})
		p.sh(c.make)
		p.cb("mount", "--exact", p.dir)
		for _, args := range [][]string{{"status", "--dir", p.dir}, {"doctor", "--no-canary", "--dir", p.dir}, {"git", "lost", "--dir", p.dir}} {
			if out, _ := p.try(args...); !strings.Contains(out, c.want) {
				t.Errorf("%s: %v does not say that %s:\n%s", c.make, args, c.want, out)
			}
		}
	}
}

// operation returns the number of the newest git operation whose line in the log contains says.
func (p *project) operation(says string) string {
	p.t.Helper()
	log := p.cb("log", "-n", "5", p.dir)
	for l := range strings.Lines(log) {
		if f := strings.Fields(l); len(f) > 1 && strings.HasPrefix(f[0], "g") && strings.Trim(f[0][1:], "0123456789") == "" && strings.Contains(l, says) {
			return f[0]
		}
	}
	p.t.Fatalf("no operation %q:\n%s", says, log)
	return ""
}

// lineDiff lists the lines that only one of two texts has.
func lineDiff(a, b string) string {
	count := map[string]int{}
	for l := range strings.Lines(a) {
		count[l]++
	}
	for l := range strings.Lines(b) {
		count[l]--
	}
	var out strings.Builder
	for _, s := range []struct {
		mark, text string
		sign       int
	}{{"-", a, 1}, {"+", b, -1}} {
		for l := range strings.Lines(s.text) {
			if n := count[l] * s.sign; n > 0 {
				count[l] -= s.sign
				fmt.Fprint(&out, s.mark, l)
			}
		}
	}
	return out.String()
}
