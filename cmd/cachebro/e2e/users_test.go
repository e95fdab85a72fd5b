package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

const (
	rootUser  = 0
	someUser  = 65534 // nobody: fusermount3 needs a user with a name
	someGroup = 54321 // a group of someUser
)

// users is a project in a mount namespace of its own with a /dev/fuse that everybody may open, so
// that ordinary users can mount it. The machine is not changed.
type users struct {
	*project
	holder int // the process that holds the namespace open
}

func newUsers(t *testing.T, owner int) *users {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	p := newProject(t, nil)
	node := filepath.Join(p.base, "fuse")
	if err := syscall.Mknod(node, syscall.S_IFCHR|0o666, 10<<8|229); err != nil {
		t.Fatal(err)
	}
	for dir, who := range map[string]int{p.base: rootUser, p.dir: owner, filepath.Join(p.base, "state"): owner, filepath.Join(p.base, "home"): owner, filepath.Join(p.base, "run"): owner} {
		if err := os.Chown(dir, who, who); err != nil {
			t.Fatal(err)
		}
	}
	for path, mode := range map[string]os.FileMode{node: 0o666, p.base: 0o755} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	holder := exec.Command("unshare", "-m", "--propagation", "private", "sh", "-ec", `mount --bind "$0" /dev/fuse; echo ready; exec sleep infinity`, node)
	out, err := holder.StdoutPipe()
	if err == nil {
		err = holder.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // runs before the project's own cleanup
		_ = holder.Process.Kill()
		_ = holder.Wait()
	})
	if line := make([]byte, 6); true {
		if _, err := out.Read(line); err != nil || string(line) != "ready\n" {
			t.Fatalf("the namespace is not ready: %q %v", line, err)
		}
	}
	u := &users{p, holder.Process.Pid}
	t.Cleanup(func() {
		_, _ = u.try(owner, fmt.Sprintf("cd /; %s umount %s", binary, p.dir))
	})
	return u
}

func (u *users) try(uid int, script string) (string, error) {
	groups := []string{"--clear-groups"}
	if uid != rootUser {
		groups = []string{"--groups", strconv.Itoa(someGroup)}
	}
	args := append([]string{"-m", "-t", strconv.Itoa(u.holder), "setpriv", "--reuid", strconv.Itoa(uid), "--regid", strconv.Itoa(uid)}, groups...)
	cmd := exec.Command("nsenter", append(args, "sh", "-ec", `cd "$P"; `+script)...)
	cmd.Dir = "/"
	cmd.Env = append(u.env, "CB="+binary, "P="+u.dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func (u *users) as(uid int, script string) string {
	u.t.Helper()
	out, err := u.try(uid, script)
	if err != nil {
		u.t.Fatalf("user %d: %s: %v\n%s", uid, script, err, out)
	}
	return out
}

// unshare returns a user's command that runs a script in a mount namespace of its own.
func (u *users) unshare(uid int) *exec.Cmd {
	id := strconv.Itoa(uid)
	return exec.Command("nsenter", "-m", "-t", strconv.Itoa(u.holder), "setpriv", "--reuid", id, "--regid", id, "--clear-groups", "unshare", "-U", "-r", "-m", "sh", "-c")
}

// namespace returns a path to the source through a user's process, which gets its own mount
// namespace now.
func (u *users) namespace(uid int) (dir string) {
	u.t.Helper()
	cmd := u.unshare(uid)
	cmd.Args = append(cmd.Args, "echo ready; exec sleep infinity")
	cmd.Dir = "/"
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if _, err := fmt.Fscanln(out, new(string)); err != nil {
		u.t.Skipf("no user namespace: %v", err)
	}
	return fmt.Sprintf("/proc/%d/root%s", cmd.Process.Pid, u.dir)
}

// held returns the content of each file and the rights that a user gets by running it. It considers
// only the files that the test makes.
func (u *users) held(uid int) (lines map[string]string, rights map[string]string) {
	u.t.Helper()
	out := u.as(uid, `export LC_ALL=C; find */ -type f -name 'of-*' -exec stat -c 'stat %n %a %u %g' {} +; find */ -type f -name 'of-*' -exec sha256sum {} + | sed 's/^\(.\{12\}\)[^ ]* ./sum \1 /'; getcap -r . | sed 's,^\./,,; s/^/cap /'`)
	sums, stats, caps := map[string]string{}, map[string][]string{}, map[string]string{}
	for line := range strings.Lines(out) {
		switch f := strings.Fields(line); f[0] {
		case "stat":
			stats[f[1]] = f[2:]
		case "sum":
			sums[f[2]] = f[1]
		case "cap":
			caps[f[1]] = f[len(f)-1]
		}
	}
	lines, rights = map[string]string{}, map[string]string{}
	for name, st := range stats {
		lines[name] = strings.Join(st, " ") + " " + sums[name] + " " + caps[name]
		mode, _ := strconv.ParseUint(st[0], 8, 32)
		if mode&0o4000 != 0 {
			rights[sums[name]+" runs as user "+st[1]] = name
		}
		if mode&0o2000 != 0 {
			rights[sums[name]+" runs as group "+st[2]] = name
		}
		if caps[name] != "" {
			rights[sums[name]+" of "+st[1]+" has "+caps[name]] = name
		}
	}
	if len(lines) == 0 {
		u.t.Fatalf("no files are seen:\n%s", out)
	}
	return lines, rights
}

// TestNoFileGainsRights: an undo used to make programs set-user-id root, because the mode was
// restored without the owner. A content may run with the rights of a user or group, or with
// capabilities, only where somebody had given it exactly these rights before. That must hold for
// every writer and every user who undoes, in any directory, mounted or not.
func TestNoFileGainsRights(t *testing.T) {
	dirs := map[string]string{
		"shared": "chmod 1777 shared",
		"mine":   fmt.Sprintf("chown %d:%d mine", someUser, someUser),
		"group":  fmt.Sprintf("chgrp %d group; chmod 2775 group", someGroup),
	}
	for _, undoer := range []int{rootUser, someUser} {
		for _, mounted := range []bool{true, false} {
			t.Run(fmt.Sprintf("undone by %d, mounted %v", undoer, mounted), func(t *testing.T) {
				u := newUsers(t, undoer)
				for dir, how := range dirs {
					u.as(rootUser, fmt.Sprintf("mkdir %s; %s", dir, how))
				}
				make := func(writer int) {
					for dir := range dirs {
						at := fmt.Sprintf("%s/of-%d", dir, writer)
						if dir == "mine" && writer == rootUser || writer != rootUser || undoer == rootUser {
							u.as(writer, strings.ReplaceAll(`for f in gone stripped chowned replaced edited copied; do printf 'by %s\n1\n2\n3\n4\n5\n' "$f OF" >OF-$f; chmod 755 OF-$f; done
								chmod 4755 OF-gone OF-stripped OF-chowned OF-replaced OF-edited; echo grp OF >OF-grp; chmod 2755 OF-grp; echo plain OF >OF-plain`, "OF", at))
						} else {
							u.as(writer, strings.ReplaceAll(`for f in gone stripped replaced grp; do printf 'by %s\n' "$f OF" >OF-$f; chmod 6755 OF-$f; done`, "OF", at))
						}
						if writer == rootUser {
							u.as(writer, fmt.Sprintf("cp %s-gone %s-able; chmod 755 %s-able; setcap cap_net_raw+ep %s-able", at, at, at, at))
						}
					}
				}
				if undoer == rootUser {
					u.as(rootUser, "$CB mount")
					make(rootUser)
					make(someUser)
				} else {
					make(rootUser) // root cannot enter the mount
					make(someUser)
					u.as(someUser, "$CB mount")
					u.as(someUser, "cat */* >/dev/null")
				}
				seen := map[string]bool{}
				look := func() map[string]string {
					t.Helper()
					lines, rights := u.held(undoer)
					for r := range rights {
						seen[r] = true
					}
					return lines
				}
				before := look()
				for dir := range dirs {
					for _, writer := range []int{rootUser, someUser} {
						// The undo leaves out changes that the user may not make.
						_, _ = u.try(undoer, strings.ReplaceAll(`set +e; export CLAUDE_CODE_SESSION_ID=agent; rm -f OF-gone OF-grp OF-able; chmod u-s OF-stripped
							chown root:root OF-chowned; sed -i 's/^1$/one/' OF-edited; echo other OF >OF-new; chmod 4755 OF-new; mv -f OF-new OF-replaced
							cp OF-plain OF-tmp; mv -f OF-tmp OF-copied; chmod 4755 OF-copied`, "OF", fmt.Sprintf("%s/of-%d", dir, writer)))
					}
				}
				look()
				u.as(undoer, "printf 'by somebody else\n' >>shared/of-65534-edited; chmod 4755 shared/of-65534-edited")
				look()
				if !mounted {
					u.as(undoer, "cd /; $CB umount $P")
				}
				check := func(what string) map[string]string {
					t.Helper()
					lines, rights := u.held(undoer)
					for r, name := range rights {
						if !seen[r] {
							t.Errorf("%s: %s: nobody had given it that: %s", what, name, r)
						}
					}
					return lines
				}
				back := func(args string) string {
					out, err := u.try(undoer, "$CB "+args+" --yes")
					if err != nil && !strings.Contains(err.Error(), "exit status 1") {
						t.Fatalf("%s: %v\n%s", args, err, out)
					}
					return out
				}
				out := back("undo --session agent")
				after := check("undone")
				if undoer == rootUser {
					for name, was := range before {
						if name != "shared/of-65534-edited" && after[name] != was {
							t.Errorf("undone by root, %s is %q, was %q\n%s", name, after[name], was, out)
						}
					}
				}
				back("redo")
				check("redone")
				back("undo --session agent --merge")
				check("merged")
				back("redo")
				check("redone again")
				back("undo --session agent --force")
				check("by force")
				for _, name := range []string{"shared/of-65534-gone", "shared/of-0-gone", "mine/of-0-grp"} {
					if _, err := u.try(undoer, "rm -f "+name); err == nil {
						back("revert " + name)
						check("reverted " + name)
					}
				}
			})
		}
	}
}
