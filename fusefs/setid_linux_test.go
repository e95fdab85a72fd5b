//go:build !portable

package fusefs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"cachebro/fusefs/sys"

	"golang.org/x/sys/unix"
)

const (
	setidOwner = 54001
	setidGroup = 54002
)

// setidUsers are the users that change files of setidOwner and setidGroup.
var setidUsers = []struct {
	name     string
	uid, gid int
	groups   []uint32
	fsetid   bool
}{
	{"root", 0, 0, nil, true},
	{"root without the capability", 0, 0, nil, false},
	{"owner", setidOwner, setidGroup, nil, false},
	{"owner outside the group", setidOwner, setidOwner, nil, false},
	{"member", 54003, 54003, []uint32{54009, setidGroup}, false},
	{"stranger", 54004, 54004, []uint32{54009}, false},
	{"stranger with the capability", 54004, 54004, nil, true},
}

var setidModes = []uint32{0o666, 0o2666, 0o2676, 0o4666, 0o4777, 0o6767, 0o6777, 0o2777}

// setidChanges are the changes that a user may make to a file with set-id bits.
var setidChanges = []struct {
	name string
	do   func(name string, fd int) error
}{
	{"nothing", func(string, int) error { return nil }},
	{"write", func(_ string, fd int) error { return wrote(unix.Write(fd, []byte("x"))) }},
	{"write nothing", func(_ string, fd int) error { return wrote(unix.Write(fd, nil)) }},
	{"pwrite", func(_ string, fd int) error { return wrote(unix.Pwrite(fd, []byte("x"), 5000)) }},
	{"writev", func(_ string, fd int) error { return wrote(unix.Writev(fd, [][]byte{[]byte("x"), []byte("y")})) }},
	{"pwritev2", func(_ string, fd int) error {
		return wrote(unix.Pwritev2(fd, [][]byte{[]byte("x")}, 3, unix.RWF_DSYNC))
	}},
	{"append", func(name string, _ int) error { return setidOpen(name, unix.O_WRONLY|unix.O_APPEND, "x") }},
	{"write synchronously", func(name string, _ int) error { return setidOpen(name, unix.O_WRONLY|unix.O_SYNC, "x") }},
	{"write directly", func(name string, _ int) error {
		fd, err := unix.Open(name, unix.O_WRONLY|unix.O_DIRECT, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		block, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return err
		}
		defer unix.Munmap(block)
		return wrote(unix.Pwrite(fd, block, 0))
	}},
	{"store in a mapping", func(_ string, fd int) error {
		m, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		m[0] = 'z'
		return errors.Join(unix.Msync(m, unix.MS_SYNC), unix.Munmap(m))
	}},
	{"open and cut", func(name string, _ int) error { return setidOpen(name, unix.O_WRONLY|unix.O_TRUNC, "") }},
	{"open to read and cut", func(name string, _ int) error { return setidOpen(name, unix.O_RDONLY|unix.O_TRUNC, "") }},
	{"truncate", func(name string, _ int) error { return unix.Truncate(name, 7) }},
	{"truncate to the same", func(name string, _ int) error { return unix.Truncate(name, 8192) }},
	{"ftruncate longer", func(_ string, fd int) error { return unix.Ftruncate(fd, 10000) }},
	{"fallocate", func(_ string, fd int) error { return unix.Fallocate(fd, 0, 0, 20000) }},
	{"fallocate inside", func(_ string, fd int) error { return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, 4096) }},
	{"punch a hole", func(_ string, fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE|unix.FALLOC_FL_PUNCH_HOLE, 0, 4096)
	}},
	{"zero a range", func(_ string, fd int) error { return unix.Fallocate(fd, unix.FALLOC_FL_ZERO_RANGE, 0, 4096) }},
	{"copy into", func(name string, fd int) error {
		from, err := unix.Open(filepath.Join(filepath.Dir(name), "from"), unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(from)
		return wrote(unix.CopyFileRange(from, nil, fd, nil, 5, 0))
	}},
	{"send into", func(name string, fd int) error {
		from, err := unix.Open(filepath.Join(filepath.Dir(name), "from"), unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(from)
		return wrote(unix.Sendfile(fd, from, nil, 5))
	}},
	{"chmod", func(name string, _ int) error { return unix.Chmod(name, 0o6771) }},
	{"chown to the same", func(name string, _ int) error { return unix.Chown(name, setidOwner, setidGroup) }},
	{"chown to nobody", func(name string, _ int) error {
		_ = unix.Chown(name, -1, -1) // the kernel sends this request before fallocate too, and a caller without permission gets no error
		return nil
	}},
	{"chown to root", func(name string, _ int) error { return unix.Chown(name, 0, 0) }},
	{"change the group to one's own", func(name string, _ int) error { return unix.Lchown(name, -1, setidOwner) }},
	{"set the times", func(name string, _ int) error { return unix.Utimes(name, nil) }},
	{"set an attribute", func(name string, _ int) error { return unix.Setxattr(name, "user.x", []byte("y"), 0) }},
	{"set an attribute with bytes", func(name string, _ int) error { return unix.Setxattr(name, "user.\xff\xfe", []byte("y"), 0) }},
	{"set an attribute of no kind", func(name string, _ int) error { return unix.Setxattr(name, "\xff\xfe", []byte("y"), 0) }},
	{"read an attribute with bytes", func(name string, _ int) error { _, err := unix.Getxattr(name, "user.\xff", nil); return err }},
	{"set the access list", func(name string, _ int) error { return unix.Setxattr(name, aclName, aclFor(54009), 0) }},
	{"set a small access list", func(name string, _ int) error { return unix.Setxattr(name, aclName, aclSmall(), 0) }},
	{"remove the access list", func(name string, _ int) error { return unix.Removexattr(name, aclName) }},
	{"rename", func(name string, _ int) error { return unix.Rename(name, name+"~") }},
	{"write and rename", func(name string, fd int) error {
		return errors.Join(wrote(unix.Write(fd, []byte("x"))), unix.Rename(name, name+"~"))
	}},
	{"link and write", func(name string, fd int) error {
		return errors.Join(unix.Link(name, name+"~"), wrote(unix.Write(fd, []byte("x"))))
	}},
}

const aclName = sys.AccessACL

func wrote[N int | int64](_ N, err error) error { return err }

func setidOpen(name string, flags int, text string) error {
	fd, err := unix.Open(name, flags, 0)
	if err != nil {
		return err
	}
	if text != "" {
		_, err = unix.Write(fd, []byte(text))
	}
	return errors.Join(err, unix.Close(fd))
}

// acl encodes an access control list for setxattr(2). An entry consists of tag, permissions and id.
func acl(entries ...[3]uint32) []byte {
	b := []byte{2, 0, 0, 0}
	for _, e := range entries {
		b = append(b, byte(e[0]), 0, byte(e[1]), 0, byte(e[2]), byte(e[2]>>8), byte(e[2]>>16), byte(e[2]>>24))
	}
	return b
}

func aclFor(gid uint32) []byte {
	none := ^uint32(0)
	return acl([3]uint32{1, 7, none}, [3]uint32{4, 6, none}, [3]uint32{8, 6, gid}, [3]uint32{16, 6, none}, [3]uint32{32, 6, none})
}

func aclSmall() []byte {
	none := ^uint32(0)
	return acl([3]uint32{1, 7, none}, [3]uint32{4, 6, none}, [3]uint32{32, 6, none})
}

// setidAll makes each change as one of the users in a directory, and prints the modes that result.
func setidAll(dir string, user int) error {
	u := setidUsers[user]
	type file struct {
		name, what string
		fd         int
		change     int
	}
	var files []file
	if err := os.WriteFile(filepath.Join(dir, "from"), []byte("content"), 0o644); err != nil {
		return err
	}
	for c, change := range setidChanges {
		for _, mode := range setidModes {
			for _, isDir := range []bool{false, true} {
				f := file{filepath.Join(dir, fmt.Sprintf("%d-%o-%v", c, mode, isDir)), fmt.Sprintf("%s, %s, %04o, directory %v", u.name, change.name, mode, isDir), -1, c}
				var err error
				if isDir {
					err = os.Mkdir(f.name, 0o755)
				} else {
					err = os.WriteFile(f.name, make([]byte, 8192), 0o644)
				}
				if err == nil {
					err = errors.Join(unix.Chown(f.name, setidOwner, setidGroup), unix.Chmod(f.name, mode))
				}
				if err == nil && !isDir {
					f.fd, err = unix.Open(f.name, unix.O_RDWR|unix.O_CLOEXEC, 0)
				}
				if err != nil {
					return err
				}
				files = append(files, f)
			}
		}
	}
	errs := make([]error, len(files))
	var become error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine
		if become = setidBecome(u.uid, u.gid, u.groups, u.fsetid); become != nil {
			return
		}
		for i, f := range files {
			errs[i] = setidChanges[f.change].do(f.name, f.fd)
		}
	}()
	<-done
	if become != nil {
		return become
	}
	for i, f := range files {
		var st unix.Stat_t
		if err := unix.Stat(f.name, &st); err == unix.ENOENT {
			err = unix.Stat(f.name+"~", &st)
			if err != nil {
				return err
			}
		}
		fmt.Printf("%s: %q, %05o\n", f.what, fmt.Sprint(errs[i]), st.Mode&0o7777)
	}
	return nil
}

// setidBecome gives the calling thread, and no other thread, the identity of another user.
func setidBecome(uid, gid int, groups []uint32, fsetid bool) error {
	var first unsafe.Pointer
	if len(groups) > 0 {
		first = unsafe.Pointer(&groups[0])
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(first), 0); e != 0 {
		return e
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)); e != 0 {
		return e
	}
	if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); e != 0 {
		return e
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&head, &caps[0]); err != nil {
		return err
	}
	switch {
	case uid == 0 && fsetid:
		return nil
	case uid == 0:
		caps[0].Effective &^= 1 << capFSETID
	case fsetid:
		caps[0].Effective = 1 << capFSETID
		caps[1].Effective = 0
	default:
		caps = [2]unix.CapUserData{}
	}
	return unix.Capset(&head, &caps[0])
}

func init() {
	helpers["setid"] = func(args []string) error {
		user, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		unix.Umask(0)
		return setidAll(args[0], user)
	}
}

// TestSetIDAsOnTheSource: a change of a file clears the set-user-id and set-group-id bits exactly
// when it would do so in the source, and the caller sees the new mode at once. There used to be two
// faults. A write by a user outside the group did not clear the set-group-id bit of a file that the
// group may not execute. fallocate, copy_file_range and setting an access control list cleared no
// bit.
func TestSetIDAsOnTheSource(t *testing.T) {
	needRoot(t)
	f := mountTest(t, func(o *Options) { o.Observer = nil })
	open2All(t, f)
	native := filepath.Join(filepath.Dir(f.dir), "native")
	for user, u := range setidUsers {
		t.Run(strings.ReplaceAll(u.name, " ", "-"), func(t *testing.T) {
			var results [2][]string
			for i, base := range []string{native, f.dir} {
				dir := filepath.Join(base, strconv.Itoa(user))
				if err := os.MkdirAll(dir, 0o777); err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(os.Chmod(base, 0o777), os.Chmod(dir, 0o777)); err != nil {
					t.Fatal(err)
				}
				out, err := helperCmd("setid", dir, strconv.Itoa(user)).CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v\n%s", dir, err, out)
				}
				results[i] = strings.Split(strings.TrimSpace(string(out)), "\n")
			}
			if want := len(setidChanges) * len(setidModes) * 2; len(results[0]) != want {
				t.Fatalf("%d results, want %d", len(results[0]), want)
			}
			wrong := 0
			for i, want := range results[0] {
				if got := results[1][i]; got != want {
					if wrong++; wrong < 20 {
						t.Errorf("mount:  %s\nsource: %s", got, want)
					}
				}
			}
			if wrong > 0 {
				t.Errorf("%d differences", wrong)
			}
			on := slices.Collect(strings.Lines(f.sh("stat -c '%n %a' " + strconv.Itoa(user) + "/*")))
			under := slices.Collect(strings.Lines(f.under("stat -c '%n %a' " + strconv.Itoa(user) + "/*")))
			if !slices.Equal(on, under) {
				t.Error("the mount shows other modes than the source has")
			}
		})
	}
}
