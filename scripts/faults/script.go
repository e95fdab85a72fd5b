//go:build linux

package main

import (
	"fmt"
	"math/rand"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// script has the operations on one tree: those that make it before the mount, and two halves of
// random operations.
type script struct {
	start, first, second []op
}

func (s script) String() string {
	var b strings.Builder
	part := func(title string, ops []op) {
		fmt.Fprintf(&b, "  # %s\n", title)
		for _, o := range ops {
			fmt.Fprintf(&b, "  %s\n", o)
		}
	}
	part("before the mount", s.start)
	part("first half", s.first)
	part("second half", s.second)
	return b.String()
}

// dice picks operations at random. The same seed and tree give the same operations.
type dice struct {
	*rand.Rand
	number   int  // number of the last content
	excluded bool // there are directories whose content is never saved
}

// excludedName is the name of a directory whose content is never saved if git ignores the
// directory.
const excludedName = "__pycache__"

func (d *dice) dirName() string {
	if d.excluded && d.chance(30) {
		return excludedName
	}
	return oneOf(d, dirNames)
}

func (d *dice) ignores() string {
	if d.excluded {
		return excludedName + "\n" + oneOf(d, ignores)
	}
	return oneOf(d, ignores)
}

var (
	fileNames = []string{"a.go", "b.txt", "c.md", "d.sh", "e", "x.ign", "y.ign", "z.log", "sp ace.txt"}
	dirNames  = []string{"src", "lib", "ign", "out", "deep", "tmp"}
	ignores   = []string{"*.ign\nign/\n*.log\n", "*.ign\nign/\n", "*.txt\nout/\n", "*.ign\nlib/\n*.md\n", "ign\ntmp\n*.log\n", "\n", "/src/\n*.ign\n!x.ign\n", "/src/*.txt\nlib/**/e\n/out/tmp/\n*.ign\n!/lib/*.ign\n"}
	modes     = []string{"0644", "0600", "0755", "0666", "0440", "0775", "4755", "2755"}
	dirModes  = []string{"0755", "0777", "0700", "2775", "1777", "0750"}
	owners    = [][2]string{{"0", "0"}, {"6001", "6001"}, {"6002", "6002"}, {"6001", "6000"}, {"0", "6000"}}
)

func oneOf[T any](d *dice, list []T) T { return list[d.Intn(len(list))] }

func (d *dice) chance(percent int) bool { return d.Intn(100) < percent }

func (d *dice) size() string {
	switch n := d.Intn(100); {
	case n < 10:
		return "0"
	case n < 90:
		return fmt.Sprint(1 + d.Intn(3000))
	case n < 99:
		return fmt.Sprint(60<<10 + d.Intn(80<<10))
	}
	return fmt.Sprint(1<<20 + d.Intn(1<<20))
}

// text returns the arguments that stand for a new content.
func (d *dice) text() (size, number string) {
	d.number++
	return d.size(), fmt.Sprint(d.number)
}

// start returns the operations that make the tree before the mount.
func (d *dice) start() (ops []op) {
	add := func(verb string, args ...string) { ops = append(ops, op{0, verb, args}) }
	if d.chance(85) {
		add("text", ".gitignore", d.ignores())
	}
	dirs, files := []string{""}, []string{}
	for range 2 + d.Intn(4) {
		p := path.Join(oneOf(d, dirs), d.dirName())
		if strings.Count(p, "/") > 2 || slices.Contains(dirs, p) {
			continue
		}
		add("mkdir", p)
		dirs = append(dirs, p)
	}
	for range 4 + d.Intn(10) {
		p := path.Join(oneOf(d, dirs), oneOf(d, fileNames))
		if slices.Contains(files, p) {
			continue
		}
		files = append(files, p)
		switch n := d.Intn(100); {
		case n < 6:
			add("symlink", p, oneOf(d, fileNames))
			continue
		case n < 8:
			add("mkfifo", p)
			continue
		}
		size, number := d.text()
		add("write", p, size, number)
		ops = append(ops, d.attributes(p, false, 25)...)
	}
	for range d.Intn(4) {
		from, to := oneOf(d, files), path.Join(oneOf(d, dirs), oneOf(d, fileNames))
		if d.chance(30) {
			to = gitPrefix + oneOf(d, fileNames)
		}
		add("link", from, to)
	}
	for _, p := range dirs[1:] {
		ops = append(ops, d.attributes(p, true, 20)...)
	}
	return ops
}

// attributes returns operations that change the owner, extended attributes, access control list and
// mode of a path, each with a probability of percent (the list: half of that). The mode comes last,
// because a new owner clears mode bits.
func (d *dice) attributes(p string, dir bool, percent int) (ops []op) {
	add := func(verb string, args ...string) { ops = append(ops, op{0, verb, args}) }
	if d.chance(percent) {
		o := oneOf(d, owners)
		add("chown", p, o[0], o[1])
	}
	if d.chance(percent) {
		add("setxattr", p, "user."+oneOf(d, []string{"one", "two"}), fmt.Sprint("v", d.Intn(100)))
	}
	if d.chance(percent / 2) {
		kind := "system.posix_acl_access"
		if dir && d.chance(50) {
			kind = "system.posix_acl_default"
		}
		add("setfacl", p, kind, fmt.Sprint(userIDs[1+d.Intn(2)]), fmt.Sprint(4+d.Intn(4)))
	}
	if d.chance(percent) {
		add("chmod", p, d.mode(dir))
	}
	return ops
}

func (d *dice) mode(dir bool) string {
	if dir {
		return oneOf(d, dirModes)
	}
	return oneOf(d, modes)
}

// tree lists the paths that an operation can use.
type tree struct{ dirs, files, git []string }

func listTree(dir, git string) (t tree) {
	t.dirs = []string{""}
	_ = filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if rel, rerr := filepath.Rel(dir, p); rerr == nil && rel != "." && err == nil {
			if e.IsDir() {
				t.dirs = append(t.dirs, rel)
			} else {
				t.files = append(t.files, rel)
			}
		}
		return nil
	})
	list, _ := os.ReadDir(git)
	for _, e := range list {
		t.git = append(t.git, gitPrefix+e.Name())
	}
	return t
}

func (d *dice) file(t tree) string {
	if len(t.git) > 0 && d.chance(8) {
		return oneOf(d, t.git)
	}
	if len(t.files) == 0 || d.chance(4) {
		return path.Join(oneOf(d, t.dirs), oneOf(d, fileNames))
	}
	return oneOf(d, t.files)
}

func (d *dice) dir(t tree) string {
	if len(t.dirs) == 1 || d.chance(4) {
		return path.Join(oneOf(d, t.dirs), d.dirName())
	}
	return t.dirs[1+d.Intn(len(t.dirs)-1)]
}

func (d *dice) any(t tree) string {
	if d.chance(35) {
		return d.dir(t)
	}
	return d.file(t)
}

func (d *dice) newFile(t tree) string { return path.Join(oneOf(d, t.dirs), oneOf(d, fileNames)) }
func (d *dice) newDir(t tree) string  { return path.Join(oneOf(d, t.dirs), d.dirName()) }

// next returns one operation on the present tree.
func (d *dice) next(t tree) op {
	user := 0
	if d.chance(40) {
		user = 1 + d.Intn(2)
	}
	h := fmt.Sprintf("h%d", d.Intn(handles))
	make := func(verb string, args ...string) op { return op{user, verb, args} }
	size, number := d.text()
	off := fmt.Sprint(d.Intn(4000))
	switch n := d.Intn(200); {
	case n < 8:
		return make("write", d.newFile(t), size, number)
	case n < 16:
		return make("write", d.file(t), size, number)
	case n < 22:
		return make("append", d.file(t), size, number)
	case n < 30:
		return make("save", d.file(t), size, number)
	case n < 33:
		return make("truncate", d.file(t), fmt.Sprint(d.Intn(200)))
	case n < 36:
		return make("copy", d.file(t), d.newFile(t))
	case n < 38:
		return make("read", d.file(t))
	case n < 39:
		return make("list", d.dir(t))
	case n < 48:
		return make("rename", d.file(t), d.newFile(t))
	case n < 52:
		return make("rename", d.file(t), d.file(t))
	case n < 58:
		return make("rename", d.dir(t), d.newDir(t))
	case n < 60:
		return make("noreplace", d.any(t), d.newFile(t))
	case n < 66:
		return make("exchange", d.any(t), d.any(t))
	case n < 76:
		return make("unlink", d.file(t))
	case n < 81:
		return make("rmrf", d.dir(t))
	case n < 83:
		return make("rmdir", d.dir(t))
	case n < 89:
		return make("mkdir", d.newDir(t))
	case n < 94:
		return make("link", d.file(t), d.newFile(t))
	case n < 96:
		return make("link", d.file(t), gitPrefix+oneOf(d, fileNames))
	case n < 99:
		return make("symlink", d.newFile(t), oneOf(d, fileNames))
	case n < 100:
		return make("mkfifo", d.newFile(t))
	case n < 106:
		if p := d.file(t); d.chance(70) {
			return make("chmod", p, d.mode(false))
		}
		return make("chmod", d.dir(t), d.mode(true))
	case n < 110:
		o := oneOf(d, owners)
		return make("chown", d.any(t), o[0], o[1])
	case n < 114:
		return make("setxattr", d.any(t), "user."+oneOf(d, []string{"one", "two"}), fmt.Sprint("w", d.Intn(100)))
	case n < 116:
		return make("rmxattr", d.any(t), "user."+oneOf(d, []string{"one", "two"}))
	case n < 119:
		if d.chance(40) {
			return make("setfacl", d.dir(t), "system.posix_acl_default", fmt.Sprint(userIDs[1+d.Intn(2)]), fmt.Sprint(4+d.Intn(4)))
		}
		return make("setfacl", d.any(t), "system.posix_acl_access", fmt.Sprint(userIDs[1+d.Intn(2)]), fmt.Sprint(4+d.Intn(4)))
	case n < 124:
		dir := ""
		if d.chance(25) {
			dir = d.dir(t)
		}
		return make("text", path.Join(dir, ".gitignore"), d.ignores())
	case n < 142:
		how := oneOf(d, []string{"rw", "rw", "create", "append", "trunc"})
		if d.chance(10) {
			return make("open", h, "./"+oneOf(d, t.dirs), "tmp")
		}
		if how == "create" {
			return make("open", h, d.newFile(t), how)
		}
		return make("open", h, d.file(t), how)
	case n < 152:
		return make("hwrite", h, size, number)
	case n < 160:
		return make("hpwrite", h, off, fmt.Sprint(1+d.Intn(500)), number)
	case n < 164:
		return make("htruncate", h, off)
	case n < 168: // allocate without a change of the size, or punch a hole
		return make("hfallocate", h, oneOf(d, []string{"0", "1", fmt.Sprint(unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE)}), off, fmt.Sprint(1+d.Intn(5000)))
	case n < 174:
		return make("hmmap", h, off, fmt.Sprint(1+d.Intn(300)), number)
	case n < 178:
		return make("hcopy", h, fmt.Sprintf("h%d", d.Intn(handles)), fmt.Sprint(d.Intn(200)), fmt.Sprint(d.Intn(200)), fmt.Sprint(1+d.Intn(900)))
	case n < 183:
		return make("hlink", h, d.newFile(t))
	case n < 185:
		return make("hchmod", h, d.mode(false))
	case n < 187:
		return make("hsetxattr", h, "user.one", fmt.Sprint("h", d.Intn(100)))
	case n < 189:
		return make("hsync", h)
	}
	return make("hclose", h)
}
