package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"sort"
	"strings"
	"testing"
)

// facts returns everything that a user can see of the project: names, kinds, modes, owners,
// contents, links, access control lists, attributes and capabilities.
func facts(p *project) string {
	p.t.Helper()
	out := p.sh(`export LC_ALL=C; find . -name '.git' -prune -o ! -name . -printf '%p %y %m %U %G %l\n' | sort
		find . -name '.git' -prune -o -type f -print0 | sort -z | xargs -0 sha256sum
		find . -name '.git' -prune -o ! -type l ! -name . -print0 | sort -z | xargs -0 getfacl -n -p -s 2>/dev/null
		find . -name '.git' -prune -o ! -type l ! -name . -print0 | sort -z | xargs -0 getfattr -d -m '^user|^security.capability' -e hex 2>/dev/null || true`)
	return out
}

// diffLines returns the lines that only one of two texts has.
func diffLines(a, b string) string {
	count := map[string]int{}
	for _, l := range strings.Split(a, "\n") {
		count[l]++
	}
	for _, l := range strings.Split(b, "\n") {
		count[l]--
	}
	var out []string
	for l, n := range count {
		if n > 0 {
			out = append(out, "- "+l)
		} else if n < 0 {
			out = append(out, "+ "+l)
		}
	}
	sort.Strings(out)
	return strings.Join(out, "\n")
}

// TestOwnersAndAttributesComeBack: an undo used to say "done" although it lost the owners, groups,
// access control lists and attributes of the restored files. It could not undo a change of only
// these.
func TestOwnersAndAttributesComeBack(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives files away")
	}
	for _, tool := range []string{"setfattr", "getfattr", "setfacl", "getfacl", "setcap", "git"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("no " + tool)
		}
	}
	p := newProject(t, nil)
	p.sh(`git init -q; echo '*.ign' >.gitignore; echo ign/ >>.gitignore
		mk() { echo "$1" >$1; chown 1001:1002 $1; chmod 640 $1; setfattr -n user.note -v "of $1" $1; setfacl -m u:1003:rw,g:1004:r $1; }
		mkdir d d/in swap1 swap2 acl tree tree/in ign idir; for f in f g d/a d/in/b swap1/x swap2/y tree/a tree/in/b n.ign ign/i edit cp; do mk $f; done
		echo plain >plain; echo plain >d/plain; echo s >setid; chmod 4755 setid; echo c >able; chmod 755 able; setcap cap_net_raw+ep able; echo o >own; chown 1001:1002 own; chmod 2755 own
		ln -s f link; ln -s nowhere dangling; chown -h 1001:1002 dangling
		mkdir gone.ign mode.ign moved.ign moved.ign/in.ign group; mk mode.ign/f; mk moved.ign/f; ln -s gone group/link
		for x in d d/in swap1 tree ign idir gone.ign mode.ign moved.ign moved.ign/in.ign group; do chown 1001:1002 $x; chmod 750 $x; setfattr -n user.dir -v "of $x" $x; done; setfacl -m u:1003:rwx -m d:u:1003:rw acl; echo in >acl/old
		setfattr -n user.large -v "$(head -c 3000 /dev/zero | tr '\0' x)" g; setfattr -n user.empty g; setfattr -n user.bin -v 0x00ff0a g`)
	p.mount()
	x := &twoActors{p: p}
	last := facts(p)
	for i, script := range []string{
		`rm f`, `rm -r d`, `rm n.ign`,
		`mv swap1 t; mv swap2 swap1; mv t swap2`,
		`chown -R 2001:2002 tree`, `chown 2001 f`, `chgrp 2002 d/in`, `chown 2001:2002 able own setid`,
		`chown -h 2001:2002 link dangling`,
		`setfattr -n user.new -v x plain`, `setfattr -x user.note f`, `setfattr -n user.note -v other g`, `setfattr -x user.large g; setfattr -x user.bin g`,
		`setfacl -b f`, `setfacl -m u:1003:- d/a`, `setfacl -m u:1005:rwx plain`, `setfacl -k acl`, `setfattr -x user.dir d; setfacl -m d:u:1005:r d`,
		`echo new >acl/new; rm acl/old`,
		`mv f f2; chown 2001:2002 f2; setfattr -x user.note f2`, `mv d d2; chown -R 2001:2002 d2`,
		`sed -i s/edit/EDIT/ edit`, `cp plain t; mv t cp`, `rm setid able own; echo other >own`,
		`rm -r idir acl; echo file >idir`,
		`rm -r gone.ign; chmod 700 mode.ign; chown 2001:2002 mode.ign/f; mv moved.ign m.ign; rm -r m.ign/in.ign; rm group/link; chmod 2775 group`,
	} {
		actor := fmt.Sprintf("agent%d", i)
		before := facts(p)
		if before != last {
			t.Fatalf("%s: the tree is not as it began:\n%s", script, diffLines(last, before))
		}
		x.as(actor, script)
		after := facts(p)
		for _, turn := range []struct{ args, want string }{{"undo --session " + actor, before}, {"redo", after}, {"undo --session " + actor, before}} {
			out, err := p.try(append(strings.Fields(turn.args), "--yes", "--dir", p.dir)...)
			if d := diffLines(turn.want, facts(p)); d != "" || err != nil {
				t.Errorf("%s: %s: %v\n%s\n%s", script, turn.args, err, d, out)
			}
		}
		if last = facts(p); last != before {
			last = before
			break
		}
	}
}
