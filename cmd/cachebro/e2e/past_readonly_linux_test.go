package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Every kind of write to the past fails with EROFS, as on a read-only file system, for every path
// and also for root. Only a link or a rename between the past and the project fails with EXDEV,
// because the past is a file system of its own; mv and cp then copy.
func TestPastTakesNoWrites(t *testing.T) {
	p := newProject(t, map[string]string{"a.txt": "a\n", "d/b.txt": "b\n", "d/empty": ""})
	p.sh("ln -s a.txt l; mkdir -p e")
	p.mount()
	p.scanned()
	p.write("a.txt", "two\n")
	moment := strings.TrimSpace(p.cb("at", p.newest(), "--dir", p.dir))
	top := strings.TrimSpace(p.cb("at", "--dir", p.dir))
	before := treeOf(t, moment)
	version := filepath.Join(top, "versions", "a.txt")
	all, err := os.ReadDir(version)
	if err != nil || len(all) == 0 {
		t.Fatalf("versions of a.txt: %v, %v", all, err)
	}
	live := p.path("live.txt")
	p.write("live.txt", "live\n")

	// Each row has a directory in which names could be created, and an existing file, directory and
	// link.
	for _, at := range []struct{ what, dir, file, sub, link string }{
		{"a moment", moment, moment + "/a.txt", moment + "/d", moment + "/l"},
		{"a directory of a moment", moment + "/d", moment + "/d/b.txt", moment + "/e", moment + "/l"},
		{"a moment by its age", top + "/at/0s", top + "/at/0s/a.txt", top + "/at/0s/d", top + "/at/0s/l"},
		{"versions", version, filepath.Join(version, all[0].Name()), top + "/versions/d", ""},
		{"the names of moments", top + "/at", moment + "/d/empty", moment, ""},
		{"the top", top, moment + "/a.txt", top + "/at", ""},
	} {
		fresh, file, sub := at.dir+"/fresh", at.file, at.sub
		tries := map[string]func() error{
			"mkdir":                 func() error { return unix.Mkdir(fresh, 0o755) },
			"mknod, a file":         func() error { return unix.Mknod(fresh, unix.S_IFREG|0o644, 0) },
			"mknod, a pipe":         func() error { return unix.Mknod(fresh, unix.S_IFIFO|0o644, 0) },
			"mknod, a socket":       func() error { return unix.Mknod(fresh, unix.S_IFSOCK|0o644, 0) },
			"symlink":               func() error { return unix.Symlink("to", fresh) },
			"link within":           func() error { return unix.Link(file, fresh) },
			"unlink":                func() error { return unix.Unlink(file) },
			"rmdir":                 func() error { return unix.Rmdir(sub) },
			"rename":                func() error { return unix.Rename(file, fresh) },
			"rename of a directory": func() error { return unix.Rename(sub, fresh) },
			"rename, exchange": func() error {
				return exchange(file, sub)
			},
			"truncate":               func() error { return unix.Truncate(file, 0) },
			"chmod":                  func() error { return unix.Chmod(file, 0o600) },
			"chmod of a directory":   func() error { return unix.Chmod(sub, 0o700) },
			"chown":                  func() error { return unix.Chown(file, 1, 1) },
			"lchown":                 func() error { return unix.Lchown(sub, 1, 1) },
			"utimensat":              func() error { return unix.UtimesNanoAt(unix.AT_FDCWD, file, make([]unix.Timespec, 2), 0) },
			"utimensat, a directory": func() error { return unix.UtimesNanoAt(unix.AT_FDCWD, sub, make([]unix.Timespec, 2), 0) },
			"setxattr":               func() error { return unix.Setxattr(file, "user.x", []byte("x"), 0) },
			"setxattr, why":          func() error { return unix.Setxattr(file, "user.cachebro.why", []byte("x"), 0) },
			"setxattr, a list":       func() error { return unix.Setxattr(sub, "system.posix_acl_access", []byte("x"), 0) },
			"removexattr":            func() error { return unix.Removexattr(file, "user.x") },
			"O_TMPFILE":              opened(at.dir, unix.O_TMPFILE|unix.O_RDWR),
			"O_CREAT":                opened(fresh, unix.O_CREAT|unix.O_WRONLY),
			"O_CREAT, O_EXCL":        opened(fresh, unix.O_CREAT|unix.O_EXCL|unix.O_RDONLY),
			"O_WRONLY":               opened(file, unix.O_WRONLY),
			"O_RDWR":                 opened(file, unix.O_RDWR),
			"O_APPEND":               opened(file, unix.O_WRONLY|unix.O_APPEND),
			"O_TRUNC":                opened(file, unix.O_RDONLY|unix.O_TRUNC),
			"opened by /proc":        reopened(file),
			"fchmod":                 byDescriptor(file, func(fd int) error { return unix.Fchmod(fd, 0o600) }),
			"fchown":                 byDescriptor(file, func(fd int) error { return unix.Fchown(fd, 1, 1) }),
			"fsetxattr":              byDescriptor(file, func(fd int) error { return unix.Fsetxattr(fd, "user.x", nil, 0) }),
			"fremovexattr":           byDescriptor(file, func(fd int) error { return unix.Fremovexattr(fd, "user.x") }),
		}
		if at.link != "" {
			tries["unlink of a link"] = func() error { return unix.Unlink(at.link) }
			tries["utimensat of a link"] = func() error {
				return unix.UtimesNanoAt(unix.AT_FDCWD, at.link, make([]unix.Timespec, 2), unix.AT_SYMLINK_NOFOLLOW)
			}
			tries["a write through a link"] = opened(at.link, unix.O_WRONLY)
		}
		for what, try := range tries {
			if err := try(); !errors.Is(err, syscall.EROFS) {
				t.Errorf("%s: %s: %v", at.what, what, err)
			}
		}
		for what, try := range map[string]func() error{
			"rename into":   func() error { return unix.Rename(live, fresh) },
			"rename out of": func() error { return unix.Rename(file, p.path("out")) },
			"link into":     func() error { return unix.Link(live, fresh) },
			"link out of":   func() error { return unix.Link(file, p.path("out")) },
		} {
			if err := try(); !errors.Is(err, syscall.EXDEV) && !errors.Is(err, syscall.EROFS) {
				t.Errorf("%s: %s: %v", at.what, what, err)
			}
		}
		// These calls check the descriptor first, and no descriptor can be opened for writing.
		for what, try := range map[string]func() error{
			"ftruncate": byDescriptor(file, func(fd int) error { return unix.Ftruncate(fd, 0) }),
			"fallocate": byDescriptor(file, func(fd int) error { return unix.Fallocate(fd, 0, 0, 10) }),
			"write":     byDescriptor(file, func(fd int) error { _, err := unix.Pwrite(fd, []byte("x"), 0); return err }),
			"a shared map": byDescriptor(file, func(fd int) error {
				_, err := unix.Mmap(fd, 0, 1, unix.PROT_WRITE, unix.MAP_SHARED)
				return err
			}),
		} {
			if err := try(); err == nil {
				t.Errorf("%s: %s was taken", at.what, what)
			}
		}
	}
	if d := differ(before, treeOf(t, moment)); d != "" {
		t.Errorf("the moment is another one:\n%s", d)
	}
	if _, err := os.Lstat(p.path("out")); err == nil {
		t.Error("something came out of the past")
	}
}

func opened(name string, flags int) func() error {
	return func() error {
		fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0o600)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
}

// byDescriptor calls do with a descriptor that is open for reading.
func byDescriptor(name string, do func(fd int) error) func() error {
	return func() error {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		return do(int(f.Fd()))
	}
}

// reopened opens a file for writing through a descriptor that is open for reading.
func reopened(name string) func() error {
	return byDescriptor(name, func(fd int) error {
		return opened("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDWR)()
	})
}
