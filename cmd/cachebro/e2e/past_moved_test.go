package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Ignored files are recorded only when they are deleted. By then their directory may have been
// renamed, so that their history begins under the new name. The past, a restore and a fork still show
// them under the name that the directory had at the requested moment.
func TestPastOfIgnoredFilesInMovedDirectories(t *testing.T) {
	kinds := map[string]string{
		"moved":      `mv d d2`,
		"twice":      `mv d d2; mv d2 d3`,
		"into":       `mv d e/d`,
		"parent":     `mkdir n; mv d n/d; mv n n2`,
		"within":     `mv d/sub sub; mv d d2`,
		"swapped":    `mv d t; mv e d; mv t e`,
		"replaced":   `mv d d2; mkdir d; echo other > d/x.ign; echo more > d/new.ign`,
		"emptied":    `mv d/sub s; mkdir d/sub; echo other > d/sub/y.ign`,
		"back":       `mv d d2; rm d2/x.ign; mv d2 d`,
		"file":       `mv d/x.ign d/x2.ign; mv d d2; mv d2/x2.ign x3.ign`,
		"chmod":      `chmod 700 d; mv d d2; chmod 755 d2`,
		"exchanged":  ``,
		"only below": `mv d/ignored.ign q.ign`,
		"removed":    ``,
	}
	files := map[string]string{".gitignore": "*.ign\n"}
	for kind := range kinds {
		for _, name := range []string{"d/a.txt", "d/x.ign", "d/sub/y.ign", "d/sub/b.txt", "d/ignored.ign/deep/z", "e/x.ign", "e/c.txt"} {
			files[kind+"/"+name] = kind + " " + name + "\n"
		}
	}
	p := newProject(t, files)
	for kind := range kinds {
		p.sh(`cd '` + kind + `' && ln -s nowhere d/l.ign && chmod 600 d/x.ign && chmod 700 d/ignored.ign/deep/z`)
	}
	p.mount()
	p.scanned()
	p.write("one", "1\n")
	moment, before := p.newest(), pastTree(t, p.dir)
	for kind, script := range kinds {
		p.sh(`cd '` + kind + `'; ` + script)
	}
	d, e := p.path("exchanged/d"), p.path("exchanged/e")
	if err := exchange(d, e); err != nil {
		t.Fatal(err)
	}
	for kind := range kinds {
		if err := os.RemoveAll(p.path(kind)); err != nil {
			t.Fatal(err)
		}
	}
	dir := strings.TrimSpace(p.cb("at", moment, "--dir", p.dir))
	if d := differ(before, pastTree(t, dir)); d != "" {
		t.Errorf("the moment before:\n%s", d)
	}
	f := p.fork("fork", "--at", moment, "--ignored")
	if d := differ(before, pastTree(t, f.dir)); d != "" {
		t.Errorf("a fork of it:\n%s", d)
	}
	said, _ := p.try("restore", "--at", moment, "--yes", "--dir", p.dir)
	if d := differ(before, pastTree(t, p.dir)); d != "" {
		t.Errorf("restored:\n%s\n%s", d, said)
	}
}

// A fork of a moment copies ignored files from the place where their directory is now.
func TestForkTakesIgnoredFilesOfMovedDirectories(t *testing.T) {
	p := newProject(t, map[string]string{
		".gitignore": "*.ign\nnode_modules/\n", "web/a.txt": "a\n", "web/node_modules/m/x.js": "x\n", "web/.env.ign": "secret\n",
		"api/b.txt": "b\n", "api/node_modules/y.js": "y\n", "old/c.txt": "c\n", "old/node_modules/z.js": "z\n",
	})
	p.mount()
	p.scanned()
	p.sh("echo late > web/late.ign")
	p.write("one", "1\n")
	moment, before := p.newest(), treeOf(t, p.dir)
	p.sh("mkdir apps; mv web apps/site; mv api web; rm -r old; mkdir -p old/node_modules; echo c > old/c.txt; echo again > old/node_modules/z.js")
	f := p.fork("fork", "--at", moment, "--ignored")
	if d := differ(before, treeOf(t, f.dir)); d != "" {
		t.Error(d)
	}
	if b, err := os.ReadFile(filepath.Join(f.dir, "web/late.ign")); err != nil || string(b) != "late\n" {
		t.Errorf("web/late.ign: %q, %v", b, err)
	}
}
