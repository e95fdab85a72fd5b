package e2e

import (
	le "encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A program that acts at random found these cases by comparing the result of an undo with a
// byte-exact copy. Each undo used to leave a difference, although it said "done" with status 0.
func TestUndoIsExactOrNamesIt(t *testing.T) {
	file := func(name, want string) func(d string) error {
		return func(d string) error {
			b, err := os.ReadFile(filepath.Join(d, name))
			if err == nil && string(b) != want {
				err = fmt.Errorf("%s is %q, was %q", name, b, want)
			}
			return err
		}
	}
	mode := func(name string, want uint32) func(d string) error {
		return func(d string) error {
			var st unix.Stat_t
			err := unix.Lstat(filepath.Join(d, name), &st)
			if err == nil && uint32(st.Mode) != want {
				err = fmt.Errorf("%s has mode %o, had %o", name, st.Mode, want)
			}
			return err
		}
	}
	year := func(name string, want int) func(d string) error {
		return func(d string) error {
			fi, err := os.Stat(filepath.Join(d, name))
			if err == nil && fi.ModTime().Year() != want {
				err = fmt.Errorf("%s is of %v", name, fi.ModTime())
			}
			return err
		}
	}
	oneFile := func(a, b string, want bool) func(d string) error {
		return func(d string) error {
			x, err1 := os.Stat(filepath.Join(d, a))
			y, err2 := os.Stat(filepath.Join(d, b))
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			if os.SameFile(x, y) != want {
				return fmt.Errorf("%s and %s are one file: %v", a, b, !want)
			}
			return nil
		}
	}
	oneLink := func(a, b string) func(d string) error { // a symbolic link
		return func(d string) error {
			var x, y unix.Stat_t
			err := errors.Join(unix.Lstat(filepath.Join(d, a), &x), unix.Lstat(filepath.Join(d, b), &y))
			if err == nil && x.Ino != y.Ino {
				err = fmt.Errorf("%s and %s are two", a, b)
			}
			return err
		}
	}
	absent := func(name string) func(d string) error {
		return func(d string) error {
			if _, err := os.Lstat(filepath.Join(d, name)); !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("%s is there (%v)", name, err)
			}
			return nil
		}
	}
	names := func(name string, want uint64) func(d string) error {
		return func(d string) error {
			var st unix.Stat_t
			err := unix.Lstat(filepath.Join(d, name), &st)
			if err == nil && uint64(st.Nlink) != want {
				err = fmt.Errorf("%s has %d names, had %d", name, st.Nlink, want)
			}
			return err
		}
	}
	exchange := func(d, a, b string) error {
		return exchange(filepath.Join(d, a), filepath.Join(d, b))
	}
	const rules = "*.ign\nign/\n*.log\nlib/\n*.md\n"
	inGit := func(d, name string) string { return filepath.Join(d, "../.git/twin", filepath.Base(d), name) }
	const acl = "system.posix_acl_access"
	setACLs := func(kind, name string) error {
		list := le.LittleEndian.AppendUint32(nil, 2)
		for _, e := range [][3]uint32{{1, 6, 1<<32 - 1}, {2, 7, 6001}, {4, 4, 1<<32 - 1}, {16, 4, 1<<32 - 1}, {32, 4, 1<<32 - 1}} {
			list = le.LittleEndian.AppendUint16(list, uint16(e[0]))
			list = le.LittleEndian.AppendUint16(list, uint16(e[1]))
			list = le.LittleEndian.AppendUint32(list, e[2])
		}
		return unix.Setxattr(name, kind, list, 0)
	}
	setACL := func(name string) error { return setACLs(acl, name) }
	noACL := func(name string) func(d string) error {
		return func(d string) error {
			if n, err := unix.Getxattr(filepath.Join(d, name), acl, nil); err == nil {
				return fmt.Errorf("%s has an access list of %d bytes", name, n)
			}
			return nil
		}
	}
	cases := []struct {
		name    string
		root    bool                 // needs root, because it works as another user
		setup   string               // a script to run before the mount; $G is a directory in .git
		act     string               // a script to run after the mount
		then    func(d string) error // makes further changes
		last    string               // a last script, whose changes are undone alone at the end
		paths   []string             // the undo is limited to these paths
		lost    string               // reported as lost by the first undo
		restore bool                 // test a restore of everything, too
		redo    int                  // the exit status of the redo between two undos
		want    []func(d string) error
		half    []func(d string) error // expected after only the last script was undone
		again   []func(d string) error // expected after the redo
	}{
		{name: "an ignored file changed through a name in .git",
			setup: "mkdir ign; echo old >ign/f; ln ign/f $G/f", act: "echo new >$G/f; echo new >other",
			lost: "excluded from the history; the file also has names that are not known, through which it changed"},
		{name: "the mode of a directory that a new .gitignore excludes",
			setup: "rm -f .gitignore; mkdir d", act: "mv d __pycache__; echo __pycache__ >.gitignore; chmod 700 __pycache__",
			want: []func(string) error{mode("d", unix.S_IFDIR|0o755), absent("__pycache__")}},
		{name: "a pipe's mode changed through a name in .git",
			setup: "mkfifo -m 644 p; ln p $G/p", act: "chmod 600 $G/p",
			want: []func(string) error{mode("p", unix.S_IFIFO|0o644)}},
		{name: "files with the same content changed places",
			setup: ">c; >z; ln z e", act: "mv z c; echo x >e.tmp; mv e.tmp e",
			want: []func(string) error{file("c", ""), file("e", ""), oneFile("z", "e", true), oneFile("z", "c", false)}},
		{name: "another name of the file, which becomes known only while the undo runs",
			setup: "echo old >f; ln f x.ign", act: "echo new >f; stat x.ign >/dev/null",
			want: []func(string) error{file("f", "old\n"), oneFile("f", "x.ign", true)}},
		{name: "an ignored file that was removed with its directory, undone by path",
			setup: "mkdir src; echo log >src/z.log; echo a >src/a", act: "mv src lib; rm -r lib", paths: []string{"src"},
			want: []func(string) error{file("src/z.log", "log\n"), file("src/a", "a\n")}},
		{name: "a directory moved to where nothing is kept",
			setup: "mkdir -m 750 d; echo log >d/z.log; echo a >d/a", act: "mv d $G/d",
			lost: "d: it was moved to where nothing is recorded", want: []func(string) error{file("d/a", "a\n"), mode("d", unix.S_IFDIR|0o750)}},
		{name: "a directory moved to where nothing is kept, and back under another name",
			setup: "mkdir d; echo a >d/a", act: "echo z >d/z.log; mv d $G/d; mv $G/d e",
			lost: "/d: it was moved to where nothing is recorded", want: []func(string) error{file("d/a", "a\n"), absent("e")}},
		{name: "a file moved to where nothing is kept, made again, and moved over another one",
			setup: "echo e >e; echo f >f", act: "",
			then: func(d string) error {
				return errors.Join(os.Rename(d+"/e", inGit(d, "e")), os.WriteFile(d+"/e", []byte("e\n"), 0o644), os.Rename(inGit(d, "e"), d+"/f"))
			},
			want:  []func(string) error{file("e", "e\n"), file("f", "f\n"), oneFile("e", "f", false)},
			again: []func(string) error{file("e", "e\n"), file("f", "e\n"), oneFile("e", "f", false)}},
		{name: "a directory moved into one that was then exchanged for a file from .git", restore: true, redo: 1,
			setup: "mkdir -p tmp/sub out; echo z >out/z.log; ln -s b.txt tmp/sub/y.ign; ln out/z.log $G/x.ign", act: "mv tmp/sub out/ign",
			then: func(d string) error { return exchange(d, "out", "../.git/twin/"+filepath.Base(d)+"/x.ign") },
			lost: "/tmp/sub: it was moved to where nothing is recorded", want: []func(string) error{mode("tmp/sub", unix.S_IFDIR|0o755)}},
		{name: "the same, undone by path", paths: []string{"tmp/sub"},
			setup: "mkdir -p tmp/sub out; ln -s b.txt tmp/sub/y.ign; echo b >tmp/sub/b", act: "mv tmp/sub out/ign; mv out $G/out",
			lost: "/tmp/sub: it was moved to where nothing is recorded", want: []func(string) error{file("tmp/sub/b", "b\n")}},
		{name: "a directory moved twice, the second time to where nothing is kept", restore: true,
			setup: "mkdir src; echo z >src/z.log; echo a >src/a", act: "mv src deep; mv deep $G/deep",
			lost: "/src: it was moved to where nothing is recorded", want: []func(string) error{file("src/a", "a\n"), absent("deep")}},
		{name: "a directory changed and moved to where nothing is kept", restore: true,
			setup: "mkdir src; echo z >src/z.log; echo a >src/a", act: "chmod 700 src; mv src $G/src",
			lost: "/src: it was moved to where nothing is recorded", want: []func(string) error{file("src/a", "a\n"), mode("src", unix.S_IFDIR|0o755)}},
		{name: "directories moved into each other, the last one to where nothing is kept", restore: true,
			setup: "mkdir src tmp out; echo z >src/z.log; echo a >src/a", act: "mv src tmp/src2; mv tmp out/tmp2; mv out $G/out",
			lost: "/src: it was moved to where nothing is recorded", want: []func(string) error{file("src/a", "a\n"), mode("tmp", unix.S_IFDIR|0o755), mode("out", unix.S_IFDIR|0o755)}},
		{name: "an ignored directory of a moved one, moved to where nothing is kept", restore: true,
			setup: "mkdir -p src/ign; echo x >src/ign/x; echo a >src/a", act: "mv src deep; mv deep/ign $G/ign",
			lost: "/src/ign: it was moved to where nothing is recorded", want: []func(string) error{file("src/a", "a\n"), absent("deep")}},
		{name: "a directory that changed places with one that is moved to where nothing is kept", restore: true,
			setup: "mkdir -p src tmp/sub; echo z >src/z.log; echo a >src/a; echo b >tmp/sub/b", act: "",
			then: func(d string) error {
				return errors.Join(exchange(d, "src", "tmp/sub"), os.Rename(d+"/tmp", inGit(d, "tmp")))
			},
			lost: "/src: it was moved to where nothing is recorded", want: []func(string) error{file("src/a", "a\n"), file("tmp/sub/b", "b\n")}},
		{name: "a redo that cannot make a pipe", redo: 1,
			setup: "mkdir tmp; echo y >tmp/y.ign", act: "mv tmp deep; mv deep/y.ign c; mkfifo deep/y.ign",
			want: []func(string) error{file("tmp/y.ign", "y\n")}},
		{name: "a pipe and a directory changed places",
			setup: "mkdir ign lib; mkfifo ign/p.md; echo b >lib/b; ln ign/p.md y.ign",
			then:  func(d string) error { return exchange(d, "ign/p.md", "lib") },
			want:  []func(string) error{file("lib/b", "b\n"), oneFile("ign/p.md", "y.ign", true)}},
		{name: "an access list given to a pipe",
			setup: "mkfifo p; ln p q", act: "",
			then: func(d string) error { return setACL(d + "/q") },
			want: []func(string) error{noACL("p"), noACL("q")}},
		{name: "an ignored directory and a tracked one changed places",
			setup: "mkdir -p out tmp/lib; >out/e; echo old >tmp/lib/e", act: "",
			then: func(d string) error {
				return errors.Join(exchange(d, "out", "tmp/lib"), os.Rename(d+"/out/e", d+"/tmp/b"))
			},
			want: []func(string) error{file("out/e", ""), file("tmp/lib/e", "old\n"), absent("tmp/b")}},
		{name: "a file of unknown content, removed at the place to which its directory was moved", restore: true,
			setup: "mkdir -p lib/d; >lib/d/f; mkfifo e; ln lib/d/f $G/f",
			then: func(d string) error {
				if err := exchange(d, "e", "lib"); err != nil {
					return err
				}
				f, err := os.OpenFile(inGit(d, "f"), os.O_WRONLY|os.O_APPEND, 0)
				if err != nil {
					return err
				}
				defer f.Close()
				_, err = f.WriteString("more")
				return errors.Join(err, os.Remove(d+"/e/d/f"))
			},
			lost: "/lib/d/f: what was there before is not known"},
		{name: "an ignored file linked after its directory was moved",
			setup: "mkdir -p src out/lib; echo f >out/lib/f", act: "",
			then: func(d string) error {
				return errors.Join(exchange(d, "src", "out"), os.Link(d+"/src/lib/f", d+"/src/b"))
			},
			want: []func(string) error{file("out/lib/f", "f\n"), absent("src/lib"), absent("out/b")}},
		{name: "a name from .git in place of an ignored file",
			setup: "mkdir ign; echo old >ign/f; echo other >g; ln g $G/g", act: "mv $G/g ign/f",
			want: []func(string) error{file("ign/f", "old\n"), file("g", "other\n"), oneFile("ign/f", "g", false)}},
		{name: "a directory that changed places with the path given to undo",
			setup: "mkdir -p ign/src/lib lib/tmp; echo f >ign/src/lib/f; echo e >e", act: "",
			then: func(d string) error {
				return errors.Join(exchange(d, "e", "ign/src"), os.Rename(d+"/e", d+"/tmp"), os.Rename(d+"/tmp/lib/f", d+"/ign/y"))
			},
			paths: []string{"tmp"},
			want:  []func(string) error{file("ign/src/lib/f", "f\n"), file("e", "e\n"), absent("tmp")}},
		{name: "another name of the path given to undo, in a directory that changed places",
			setup: "mkdir deep tmp; echo log >deep/z.log; ln deep/z.log deep/a", act: "",
			then: func(d string) error {
				return errors.Join(exchange(d, "tmp", "deep"), os.WriteFile(d+"/tmp/z.log", nil, 0))
			},
			paths: []string{"tmp/z.log"},
			want:  []func(string) error{file("tmp/z.log", "log\n"), file("tmp/a", "log\n"), oneFile("tmp/a", "tmp/z.log", true)}},
		{name: "only the last change undone after undo and redo, in a directory that is ignored by then",
			setup: "echo >.gitignore; mkdir -p ign/d e; echo old >ign/d/f", act: "ln ign/d/f e/f; echo ign >.gitignore; echo more >>e/f", last: "echo new >e/tmp; mv e/tmp e/f",
			want: []func(string) error{file("ign/d/f", "old\n"), absent("e/f")},
			half: []func(string) error{file("ign/d/f", "old\nmore\n"), oneFile("ign/d/f", "e/f", true)}},
		{name: "only the last change undone, after an undo that cut the file off from its name in .git",
			setup: "echo old >f; ln f $G/f", act: ": >f; ln f g", last: "ln -s x y; mv y f",
			want: []func(string) error{file("f", "old\n"), names("f", 2), absent("g")},
			half: []func(string) error{oneFile("f", "g", true)}},
		{name: "an empty file truncated in place of an ignored directory",
			setup: "mkdir -p ign/out; echo a >ign/out/a; echo f >ign/f", act: "",
			then: func(d string) error { return exchange(d, "ign/f", "ign/out") },
			last: ": >ign/tmp; mv ign/tmp ign/out; echo >.gitignore; : >ign/out",
			want: []func(string) error{file("ign/out/a", "a\n"), file("ign/f", "f\n")}},
		{name: "a directory that nobody may enter changed places with another one",
			setup: "mkdir -p tmp/deep out; echo f >out/f; chmod 664 out", act: "",
			then: func(d string) error { return exchange(d, "tmp/deep", "out") },
			want: []func(string) error{file("out/f", "f\n"), absent("tmp/deep/f"), mode("out", unix.S_IFDIR|0o664), mode("tmp/deep", unix.S_IFDIR|0o755)}},
		{name: "what went to a third directory when directories changed places, undone by path",
			setup: "mkdir src deep out; echo f >src/f; echo g >src/g", act: "",
			then: func(d string) error {
				return errors.Join(exchange(d, "src", "deep"), exchange(d, "deep", "out"))
			},
			paths: []string{"out/f"},
			want:  []func(string) error{file("src/f", "f\n"), absent("out/f"), absent("deep/f"), file("out/g", "g\n")}},
		{name: "a file whose former directory's path is a file now, undone by path", paths: []string{"e/f"},
			setup: "mkdir src e; echo a >a; echo f >src/f", act: "",
			then: func(d string) error { return errors.Join(exchange(d, "src", "a"), exchange(d, "a", "e")) },
			lost: "its directory was replaced by something else",
			want: []func(string) error{file("e/f", "f\n"), file("src", "a\n")}},
		{name: "a file written under a directory's former name, undone by path", paths: []string{"e/z.log"},
			setup: "mkdir src e; echo old >src/z.log", act: "",
			then: func(d string) error { return exchange(d, "src", ".gitignore") },
			last: "echo new >.gitignore/t; mv .gitignore/t .gitignore/z.log; mv e e2; mv .gitignore e; mv e2 .gitignore",
			lost: "its directory was replaced by something else",
			want: []func(string) error{absent(".gitignore/z.log")}},
		{name: "a file brought back once its directory has a default access list",
			setup: "mkdir src; echo y >y; ln y src/d", act: ": >src/a; echo new >y.tmp; mv y.tmp y", last: "echo d >src/d",
			then:  func(d string) error { return setACLs("system.posix_acl_default", d+"/src") },
			want:  []func(string) error{absent("src/a"), oneFile("y", "src/d", true)},
			again: []func(string) error{noACL("src/a"), file("src/d", "d\n")}},
		{name: "a directory that changed places with a file whose content nobody kept",
			setup: "mkdir -p ign/deep lib2; echo b >ign/deep/b; echo x >ign/deep/x; ln ign/deep/x lib2/x.ign", act: "",
			then: func(d string) error { return exchange(d, "ign/deep", "lib2/x.ign") },
			last: "ln ign/deep t; rm ign/deep",
			want: []func(string) error{file("ign/deep/b", "b\n"), file("lib2/x.ign", "x\n"), oneFile("ign/deep/x", "lib2/x.ign", true), absent("t")}},
		{name: "a file changed under another name that is gone, undone by path",
			setup: "mkdir d; echo old >d/f; ln d/f y.ign", act: "echo more >>d/f; rm -r d", last: "truncate -s 2 y.ign", paths: []string{"y.ign"},
			want: []func(string) error{file("y.ign", "old\n")}},
		{name: "a name that was replaced and then taken by the file's other name",
			setup: "mkdir src; echo old >src/e; ln src/e e", act: "echo new >e.tmp; mv e.tmp e",
			then: func(d string) error { return exchange(d, ".gitignore", "src") },
			last: "mv .gitignore/e e",
			want: []func(string) error{file("e", "old\n"), oneFile("src/e", "e", true)}},
		{name: "only the last change undone: a file rewritten with the content of the file that had this path before it",
			setup: "mkdir src; echo b >src/b; ln src/b a", act: "",
			then: func(d string) error { return exchange(d, ".gitignore", "src/b") },
			last: "cat src/b >../rules; rm -r src; cat ../rules >.gitignore; rm ../rules",
			want: []func(string) error{file("a", "b\n"), oneFile("a", "src/b", true)},
			half: []func(string) error{file(".gitignore", "b\n"), oneFile("a", ".gitignore", true), file("src/b", rules)}},
		{name: "an ignored file whose other name, from .git, went first",
			setup: "mkdir deep; echo old >deep/x.ign; ln deep/x.ign $G/b", act: "mv $G/b deep/f; rm -r deep",
			want: []func(string) error{file("deep/x.ign", "old\n")}},
		{name: "an ignored file replaced once its other name, from .git, was gone",
			setup: "echo old >x.ign; ln x.ign $G/b", act: "mv $G/b f; stat x.ign >/dev/null; rm f; echo new >y; mv y x.ign",
			want: []func(string) error{file("x.ign", "old\n")}},
		{name: "an ignored file changed through a name that came from .git and is gone",
			setup: "echo old >x.ign; ln x.ign $G/b", act: "mv $G/b f; echo new >f; rm f",
			lost: "f: its file had names that are not known (1), which keep the change"},
		{name: "an ignored file changed under another name and then replaced, undone by path", paths: []string{"d/f.log"},
			setup: "mkdir d; echo old >d/f.log; ln d/f.log x", act: "echo new >x; echo t >t; mv t d/f.log",
			want: []func(string) error{file("d/f.log", "old\n"), file("x", "old\n"), oneFile("d/f.log", "x", true)}},
		{name: "a file changed once the name by which it was opened is gone", act: "",
			setup: "mkdir d; echo old >a; ln a d/b",
			then: func(d string) error {
				f, err := os.OpenFile(d+"/a", os.O_WRONLY, 0)
				if err != nil {
					return err
				}
				_, err = f.WriteString("n")
				err = errors.Join(err, os.Remove(d+"/a"), f.Chmod(0o600))
				_, werr := f.WriteString("ew")
				return errors.Join(err, werr, f.Close())
			},
			want:  []func(string) error{file("a", "old\n"), mode("a", unix.S_IFREG|0o644), oneFile("a", "d/b", true)},
			again: []func(string) error{absent("a"), file("d/b", "new\n"), mode("d/b", unix.S_IFREG|0o600)}},
		{name: "a mode changed when only a name in .git is left", act: "",
			setup: "mkdir d; echo old >d/a; ln d/a $G/a",
			then: func(d string) error {
				f, err := os.Open(d + "/d/a")
				if err != nil {
					return err
				}
				return errors.Join(os.RemoveAll(d+"/d"), f.Chmod(0o600), f.Close())
			},
			lost:  "d/a: it is a separate file now",
			want:  []func(string) error{file("d/a", "old\n"), mode("d/a", unix.S_IFREG|0o644)},
			again: []func(string) error{absent("d")}},
		{name: "a directory that came from where nothing is kept, with what it held",
			setup: "mkdir $G/d; echo f >$G/d/f", act: "mv $G/d d; ln d/f $G/f",
			lost: "d: the directory holds other files"},
		{name: "a mode changed in a directory that came from where nothing is kept",
			setup: "mkdir $G/d; echo f >$G/d/f", act: "mv $G/d d; chmod 600 d/f",
			lost: "d: the directory holds other files", want: []func(string) error{mode("d/f", unix.S_IFREG|0o644)}},
		{name: "files that were changed, and made again as they were",
			setup: "echo a >a; echo b >b; touch -d 2020-01-01 a b", act: "echo x >>a; rm a; echo a >a; chmod 600 b; rm b; echo b >b",
			want: []func(string) error{file("a", "a\n"), year("a", 2020), file("b", "b\n"), mode("b", unix.S_IFREG|0o644), year("b", 2020)}},
		{name: "a program with two names, written to",
			setup: "echo c >h; ln h h2; chmod 4755 h", act: "echo w >h",
			want: []func(string) error{file("h", "c\n"), mode("h", unix.S_IFREG|0o4755), oneFile("h", "h2", true)}},
		{name: "a set-id bit taken from a program with two names",
			setup: "echo c >h; ln h h2; chmod 4755 h", act: "chmod 755 h2",
			want:  []func(string) error{mode("h", unix.S_IFREG|0o4755), oneFile("h", "h2", true)},
			again: []func(string) error{mode("h2", unix.S_IFREG|0o755), oneFile("h", "h2", true)}},
		{name: "an excluded directory and another one changed places",
			setup: "echo __pycache__ >.gitignore; mkdir src __pycache__; echo a >src/a; echo c >__pycache__/c", act: "",
			then:  func(d string) error { return exchange(d, "src", "__pycache__") },
			want:  []func(string) error{file("src/a", "a\n"), file("__pycache__/c", "c\n"), absent("src/c"), absent("__pycache__/a")},
			again: []func(string) error{file("src/c", "c\n"), file("__pycache__/a", "a\n"), absent("src/a")}},
		{name: "an excluded directory exchanged for an ignored file",
			setup: "printf '__pycache__/\\n*.txt\\n' >.gitignore; mkdir __pycache__; echo c >__pycache__/c; echo 1 >1.txt",
			then:  func(d string) error { return exchange(d, "1.txt", "__pycache__") },
			want:  []func(string) error{file("1.txt", "1\n"), file("__pycache__/c", "c\n")},
			again: []func(string) error{file("1.txt/c", "c\n"), file("__pycache__", "1\n")}},
		{name: "a file of an excluded directory, renamed after the directory was moved",
			setup: "echo __pycache__ >.gitignore; mkdir __pycache__; echo c >__pycache__/c", act: "mv __pycache__ d; mv d/c d/e",
			want:  []func(string) error{file("__pycache__/c", "c\n"), absent("__pycache__/e"), absent("d")},
			again: []func(string) error{file("d/e", "c\n"), absent("d/c"), absent("__pycache__")}},
		{name: "a new directory at the path from which an excluded one was moved away",
			setup: "echo __pycache__ >>.gitignore; mkdir __pycache__; echo c >__pycache__/c", act: "mv __pycache__ d; mkdir __pycache__",
			want:  []func(string) error{file("__pycache__/c", "c\n"), absent("d")},
			again: []func(string) error{file("d/c", "c\n"), absent("__pycache__/c"), mode("__pycache__", unix.S_IFDIR|0o755)}},
		{name: "a directory made, filled, removed and made again where an excluded one was",
			setup: "echo __pycache__ >>.gitignore; mkdir __pycache__; echo c >__pycache__/c",
			act:   "mv __pycache__ d; mkdir -p __pycache__/x; echo x >__pycache__/x/x; rm -r __pycache__; mkdir __pycache__",
			want:  []func(string) error{file("__pycache__/c", "c\n"), absent("d")},
			again: []func(string) error{file("d/c", "c\n"), absent("__pycache__/c"), mode("__pycache__", unix.S_IFDIR|0o755)}},
		{name: "a new file at the path from which one was moved out of an excluded directory",
			setup: "echo __pycache__ >>.gitignore; mkdir __pycache__; echo c >__pycache__/c", act: "mv __pycache__/c e; echo new >__pycache__/c",
			want:  []func(string) error{file("__pycache__/c", "c\n"), absent("e")},
			again: []func(string) error{file("e", "c\n"), file("__pycache__/c", "new\n")}},
		{name: "a symbolic link in .git exchanged for an ignored directory",
			setup: "mkdir ign; echo e >ign/e; ln -s t s; ln s $G/s", act: "",
			then: func(d string) error { return exchange(d, "../.git/twin/"+filepath.Base(d)+"/s", "ign") },
			lost: "ign: it was moved to where nothing is recorded", want: []func(string) error{mode("ign", unix.S_IFDIR|0o755)}},
		{name: "an ignored directory exchanged for a symbolic link in .git",
			setup: "mkdir ign; echo e >ign/e; ln -s t s; ln s $G/s", act: "",
			then: func(d string) error { return exchange(d, "ign", "../.git/twin/"+filepath.Base(d)+"/s") },
			lost: "ign: it was moved to where nothing is recorded", want: []func(string) error{mode("ign", unix.S_IFDIR|0o755)}},
		{name: "a second name of an ignored symbolic link",
			setup: "ln -s t x.ign", act: "ln x.ign y",
			want: []func(string) error{absent("y"), mode("x.ign", unix.S_IFLNK|0o777)},
			again: []func(string) error{mode("y", unix.S_IFLNK|0o777), func(d string) error { // SameFile would follow the link
				var x, y unix.Stat_t
				err := errors.Join(unix.Lstat(d+"/x.ign", &x), unix.Lstat(d+"/y", &y))
				if err == nil && x.Ino != y.Ino {
					err = errors.New("y is another link")
				}
				return err
			}}},
		{name: "an ignored file changed through a name that came from .git and was moved",
			setup: "echo old >x.ign; ln x.ign $G/b; echo e >e", act: "mv $G/b f; echo new >f; mv f e",
			lost: "e: its file had names that are not known (1)", redo: 1, want: []func(string) error{file("e", "e\n"), absent("f")}},
		{name: "a second name of a symbolic link, moved to where the first was replaced",
			setup: "ln -s t e; ln e b", act: "echo x >x; mv x e; mv b e",
			want: []func(string) error{mode("e", unix.S_IFLNK|0o777), oneLink("e", "b")}},
		{name: "ignored files whose directories changed places, one moved to the other",
			setup: "mkdir -p ign/a lib/b; echo a >ign/a/f; echo b >lib/b/f", act: "",
			then: func(d string) error { return exchange(d, "ign/a", "lib/b") },
			last: "echo more >>ign/a/f; mv lib/b/f ign/a/g",
			want: []func(string) error{file("ign/a/f", "a\n"), file("lib/b/f", "b\n"), absent("ign/a/g"), absent("lib/b/g")}},
		{name: "set-group-id taken from a file that has lost its name", root: true,
			setup: "echo old >f; chmod 2755 f", act: "",
			then: func(d string) error {
				f, err := os.OpenFile(d+"/f", os.O_WRONLY|os.O_APPEND, 0)
				if err != nil {
					return err
				}
				defer f.Close()
				cmd := exec.Command("sh", "-c", "echo more")
				cmd.Stdout, cmd.SysProcAttr = f, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 6002, Gid: 6002}}
				return errors.Join(os.Remove(d+"/f"), cmd.Run())
			},
			want: []func(string) error{file("f", "old\n"), mode("f", unix.S_IFREG|unix.S_ISGID|0o755)}},
		{name: "set-group-id taken away by a write", root: true,
			setup: "echo old >f; chown 6002:6002 f; chmod 2755 f", act: "",
			then: func(d string) error {
				cmd := exec.Command("sh", "-c", "echo more >>"+d+"/f")
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 6002, Gid: 6002}}
				out, err := cmd.CombinedOutput()
				if err != nil {
					err = fmt.Errorf("%w: %s", err, out)
				}
				return err
			},
			want: []func(string) error{file("f", "old\n"), mode("f", unix.S_IFREG|unix.S_ISGID|0o755)}},
		{name: "an ignored file whose mode was set to what it was, in a directory that changed places",
			setup: "mkdir out tmp; echo z >out/z.log",
			then:  func(d string) error { return errors.Join(exchange(d, "out", "tmp"), os.Chmod(d+"/tmp/z.log", 0o644)) },
			want:  []func(string) error{file("out/z.log", "z\n"), absent("tmp/z.log")}},
		{name: "a file written in a directory whose directory was moved too",
			setup: "mkdir ign tmp; ln -s b e; echo old >ign/d", act: "mv ign tmp/out",
			then: func(d string) error { return exchange(d, "e", "tmp") }, last: "chmod 750 e; echo new >e/out/d",
			want: []func(string) error{file("ign/d", "old\n")}, half: []func(string) error{file("e/out/d", "old\n")}},
		{name: "an ignored file that came with its directory to where another one had been",
			setup: "mkdir lib2 tmp; echo x >tmp/x.ign; ln -s b lib2/x.ign", act: "mv tmp/x.ign e",
			last: "mv lib2 t; mv tmp lib2; mv t tmp; mv e lib2/x.ign; mv lib2/x.ign tmp/x.ign",
			want: []func(string) error{file("tmp/x.ign", "x\n")}, half: []func(string) error{file("e", "x\n"), mode("lib2/x.ign", unix.S_IFLNK|0o777)}},
		{name: "a directory that was moved within one that changed places with a file",
			setup: "mkdir -p lib/lib/tmp; >lib/lib/tmp/f; >lib/lib/d; ln lib/lib/d b",
			then: func(d string) error {
				return errors.Join(exchange(d, "b", "lib"), os.Rename(d+"/b/lib/tmp", d+"/b/lib/deep"))
			},
			last: "rm -r b",
			want: []func(string) error{file("lib/lib/tmp/f", ""), oneFile("lib/lib/d", "b", true)}},
		{name: "a file that has its other name where nothing is kept",
			setup: "mkdir tmp deep; echo d >tmp/d", act: "ln tmp/d deep/x; mv tmp/d $G/x",
			want:  []func(string) error{file("tmp/d", "d\n"), absent("deep/x")},
			again: []func(string) error{names("deep/x", 2), absent("tmp/d")}},
		{name: "a file written through a name it gained and then lost, with an unknown name left",
			setup: "mkdir -p src/ign; echo old >src/ign/b; ln src/ign/b $G/e", act: "mv $G/e src/f; echo new >src/f; mv src/f src/ign/y",
			lost: "which keep the change", want: []func(string) error{absent("src/ign/y"), absent("src/f")}, redo: 1},
		{name: "a path that two plans found already as wanted",
			setup: "mkdir src; >e; ln e src/f", act: "echo a >a",
			then: func(d string) error { return exchange(d, "a", "src/f") }, last: "mv src/f t; mv e src/f; mv t e",
			want: []func(string) error{file("src/f", ""), oneFile("e", "src/f", true), absent("a")},
			half: []func(string) error{file("src/f", "a\n"), file("e", ""), oneFile("a", "e", true)}},
		{name: "two names with set-id bits, one of which is saved anew twice",
			setup: "echo old >f; chmod 4755 f; ln f g", act: "echo more >g; echo x >tmp; mv tmp f", last: "echo new >tmp; mv tmp f",
			want:  []func(string) error{oneFile("f", "g", true), file("g", "old\n"), mode("f", unix.S_IFREG|0o4755)},
			again: []func(string) error{oneFile("f", "g", false), file("g", "more\n"), file("f", "new\n")}},
		{name: "a file whose other name was renamed in a moved directory, undone by path", paths: []string{"d/f"},
			setup: "mkdir d out; echo old >d/f; ln d/f out/g; echo z >z", act: "mv z d/f; mv out o", last: "mv o/g o/h",
			want: []func(string) error{file("d/f", "old\n"), file("z", "z\n")}},
		{name: "an empty directory that was removed from one that was moved since, undone by path", paths: []string{"d/e/x"},
			setup: "mkdir -p d/e/x; echo f >d/f", act: "rm -r d/e", last: "mv d g",
			want: []func(string) error{mode("d/e/x", unix.S_IFDIR|0o755)}},
		{name: "a saved file that was removed, undone by path", paths: []string{"y.ign"},
			setup: "echo old >y.ign", act: "echo new >y.ign.tmp~; mv y.ign.tmp~ y.ign", last: "rm y.ign",
			want: []func(string) error{file("y.ign", "old\n"), absent("y.ign.tmp~")}},
		{name: "a path in a directory that was moved, where another file has its name now", paths: []string{"d/f"},
			setup: "mkdir d; echo old >d/f; echo e >d/e", act: "mv d g", last: "mv g/e g/f",
			want: []func(string) error{file("d/f", "old\n"), file("g/f", "e\n"), absent("g/e")}},
		{name: "a file whose other name has moved over a file outside the given paths, undone by path", paths: []string{"a"},
			setup: "echo old >a; ln a x.ign; echo b >b", act: "echo new >a", last: "mv x.ign b",
			want: []func(string) error{file("a", "old\n"), oneFile("a", "b", true)}},
		{name: "a file exchanged with a directory in an excluded one, and removed with the parent directory",
			setup: "echo __pycache__ >.gitignore; mkdir -p src/__pycache__/ign; echo b >b", act: "",
			then: func(d string) error { return exchange(d, "b", "src/__pycache__/ign") }, last: "rm -r src",
			want:  []func(string) error{file("b", "b\n"), mode("src/__pycache__/ign", unix.S_IFDIR|0o755)},
			again: []func(string) error{absent("src"), absent("__pycache__")}},
		{name: "a set-user-ID bit that an earlier undo could not give back",
			setup: "echo old >f; chmod 4755 f; ln f $G/f", act: "echo more >>f",
			lost: "f: the set-user-ID bit was not restored", redo: 1, want: []func(string) error{file("f", "old\n"), mode("f", unix.S_IFREG|0o755)}},
		{name: "one more name of a file that has moved, undone by path", paths: []string{"c"},
			setup: "echo old >f", act: "ln f g; rm f; mkdir f; echo x >f/x", last: "ln g c",
			want: []func(string) error{absent("c"), file("f/x", "x\n"), file("g", "old\n")}},
		{name: "a directory that was made at a path, and holds what was made since, undone by path", paths: []string{"t"},
			setup: "echo f >c", act: "mkdir t",
			then: func(d string) error { return exchange(d, "t", "c") }, last: "mkdir c/lib",
			want: []func(string) error{absent("t"), file("c", "f\n")}},
		{name: "a file changed in a directory that went into an excluded one, which was then renamed",
			setup: "echo __pycache__ >>.gitignore; mkdir __pycache__ tmp; echo d >tmp/d",
			act:   "mv tmp __pycache__/__pycache__; mv __pycache__ tmp; echo more >>tmp/__pycache__/d",
			want:  []func(string) error{file("tmp/d", "d\n"), absent("__pycache__/__pycache__")},
			again: []func(string) error{file("tmp/__pycache__/d", "d\nmore\n")}},
		{name: "a file from a removed directory, now in an exchanged one, undone by path", paths: []string{"b/m"},
			setup: "mkdir -p a/in b; echo c >a/in/c; echo b >b/f", act: "mv a/in/c a/m; rm -r a/in",
			then: func(d string) error { return exchange(d, "a", "b") },
			want: []func(string) error{file("a/in/c", "c\n"), absent("b/in"), absent("b/m"), file("a/f", "b\n")}},
		{name: "a file that an undo changes in an excluded directory, where no version tells of it",
			setup: "echo __pycache__ >>.gitignore; mkdir __pycache__; echo old >__pycache__/y.ign",
			act:   "ln __pycache__/y.ign e; ln -s a.go c; echo new >__pycache__/y.ign; chmod 600 __pycache__/y.ign; mv c e; ln __pycache__/y.ign $G/a.go; mv __pycache__ tmp",
			want:  []func(string) error{file("__pycache__/y.ign", "old\n"), mode("__pycache__/y.ign", unix.S_IFREG|0o644), absent("e")},
			again: []func(string) error{file("tmp/y.ign", "new\n"), mode("tmp/y.ign", unix.S_IFREG|0o600)}},
		{name: "an excluded directory from which a file was moved before the directory was renamed and removed",
			setup: "echo __pycache__ >>.gitignore; mkdir -p lib/__pycache__/x; echo c >lib/__pycache__/x/c; chmod 700 lib/__pycache__ lib/__pycache__/x",
			act:   "mv lib/__pycache__/x/c c; mv lib out; rm -r out/__pycache__",
			want:  []func(string) error{file("lib/__pycache__/x/c", "c\n"), mode("lib/__pycache__", unix.S_IFDIR|0o700), mode("lib/__pycache__/x", unix.S_IFDIR|0o700), absent("c"), absent("out")},
			again: []func(string) error{file("c", "c\n"), mode("out", unix.S_IFDIR|0o755), absent("out/__pycache__"), absent("lib")}},
		{name: "files in tracked directories that new rules begin to exclude",
			setup: "mkdir -p __pycache__ src/__pycache__; chmod 750 src/__pycache__; echo old | tee __pycache__/c src/__pycache__/c >__pycache__/d",
			act:   "echo __pycache__ >>.gitignore; echo new >__pycache__/c; echo made >__pycache__/e; rm -r __pycache__/d src",
			want:  []func(string) error{file("__pycache__/c", "old\n"), file("__pycache__/d", "old\n"), file("src/__pycache__/c", "old\n"), mode("src/__pycache__", unix.S_IFDIR|0o750), absent("__pycache__/e"), file(".gitignore", rules)},
			again: []func(string) error{file("__pycache__/c", "new\n"), file("__pycache__/e", "made\n"), absent("__pycache__/d"), absent("src")}},
	}
	p := newProject(t, map[string]string{"a": "a\n", ".git/HEAD": "ref: refs/heads/main\n"})
	if err := os.Chmod(p.base, 0o755); err != nil { // so that the other user can enter it
		t.Fatal(err)
	}
	script := func(d, script string) (pid int) {
		t.Helper()
		git := filepath.Join(p.dir, ".git/twin", filepath.Base(d))
		if err := os.MkdirAll(git, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir, cmd.Env = d, append(p.env, "G="+git)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
		return cmd.Process.Pid
	}
	dir := func(i int) string { return p.path(fmt.Sprintf("c%d", i)) }
	for i, c := range cases {
		d := dir(i)
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(d+"/.gitignore", []byte(rules), 0o644); err != nil {
			t.Fatal(err)
		}
		if !c.root || os.Geteuid() == 0 {
			script(d, c.setup)
		}
	}
	p.mount()
	p.scanned()
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.root && os.Geteuid() != 0 {
				t.Skip("needs root: it works as another user")
			}
			d, since := dir(i), time.Now().Format(time.RFC3339Nano)
			script(d, c.act)
			if c.then != nil {
				if err := c.then(d); err != nil {
					t.Fatal(err)
				}
			}
			// The last script's changes are later undone by its pid, not by time, because a close
			// may be reported late.
			last := script(d, c.last)
			undo := []string{"undo", "--yes", "--dir", p.dir, "--since", since}
			if c.paths != nil {
				undo = append(undo, "--")
				for _, name := range c.paths {
					undo = append(undo, filepath.Join(d, name))
				}
			}
			run := func(status int, args ...string) string {
				t.Helper()
				cmd := p.command(args...)
				out, _ := cmd.CombinedOutput()
				if got := cmd.ProcessState.ExitCode(); got != status {
					t.Errorf("%s: status %d, want %d\n%s", args[0], got, status, out)
				}
				return string(out)
			}
			check := func(out string, want []func(d string) error) {
				t.Helper()
				for _, f := range want {
					if err := f(d); err != nil {
						t.Errorf("%v\n%s", err, out)
					}
				}
			}
			status := 0
			if c.lost != "" {
				status = 1
			}
			out := run(status, undo...)
			if c.lost != "" && !strings.Contains(out, c.lost) {
				t.Errorf("not named: %s\n%s", c.lost, out)
			}
			check(out, c.want)
			redo := []string{"redo", "--yes", "--dir", p.dir}
			check(run(c.redo, redo...), c.again)
			check(run(status, undo...), c.want)
			if c.restore {
				out, _ := p.command(redo...).CombinedOutput()
				t.Logf("the redo before the restore: %s", out)
				said := run(status, "restore", "--yes", "--dir", p.dir, "--at", since, "--", d)
				if !strings.Contains(said, c.lost) {
					t.Errorf("not named: %s\n%s", c.lost, said)
				}
				check(said, c.want)
			}
			if c.half != nil {
				cmd := p.command(redo...)
				out, _ := cmd.CombinedOutput()
				t.Logf("the second redo: %s", out)
				check(run(status, "undo", "--yes", "--dir", p.dir, "--pid", strconv.Itoa(last)), c.half)
			}
		})
	}
}
