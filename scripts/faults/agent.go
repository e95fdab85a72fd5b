//go:build linux

package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// op is one operation of a random agent. It has a user, a verb, and arguments.
type op struct {
	User int // 0 is root, 1 and 2 are ordinary users
	Verb string
	Args []string
}

func (o op) String() string {
	words := []string{[]string{"root", "anna", "ben"}[o.User], o.Verb}
	for _, a := range o.Args {
		if a == "" || strings.ContainsAny(a, " \"\\\n") {
			a = strconv.Quote(a)
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

// userIDs are the ids of root and two ordinary users, who are also in sharedGroup.
var userIDs = [...]int{0, 6001, 6002}

const sharedGroup = 6000

// gitPrefix marks paths that lead into the repository's .git directory.
const gitPrefix = "GIT/"

// agent carries out operations in its directory. For each operation its thread takes on the file
// system identity of the operation's user.
type agent struct {
	dir   string // the directory of the agent; .git is in its parent
	files map[string]int
}

func (a *agent) path(p string) string {
	if rest, ok := strings.CutPrefix(p, gitPrefix); ok {
		return filepath.Join("../.git/twin", filepath.Base(a.dir), rest)
	}
	return p
}

// become gives the calling thread the file system identity of a user, as far as that is permitted.
// This also changes the thread's capabilities.
func become(user int) {
	gid, groups := uint32(userIDs[user]), []uint32{uint32(userIDs[user])}
	if user != 0 {
		groups = append(groups, sharedGroup)
	}
	_, _, _ = unix.RawSyscall(unix.SYS_SETFSUID, 0, 0, 0)
	_, _, _ = unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])), 0)
	_, _, _ = unix.RawSyscall(unix.SYS_SETFSGID, uintptr(gid), 0, 0)
	_, _, _ = unix.RawSyscall(unix.SYS_SETFSUID, uintptr(userIDs[user]), 0, 0)
}

func (a *agent) do(o op) error {
	become(o.User)
	defer become(0)
	arg := func(i int) string {
		if i < len(o.Args) {
			return o.Args[i]
		}
		return ""
	}
	num := func(i int) int { n, _ := strconv.Atoi(arg(i)); return n }
	oct := func(i int) uint32 { n, _ := strconv.ParseUint(arg(i), 8, 32); return uint32(n) }
	p, q := a.path(arg(0)), a.path(arg(1))
	fd, held := a.files[arg(0)]
	switch o.Verb {
	case "mkdir":
		return unix.Mkdir(p, 0o777)
	case "rmdir":
		return unix.Rmdir(p)
	case "rmrf":
		return os.RemoveAll(p)
	case "write":
		return put(p, unix.O_CREAT|unix.O_TRUNC, words(num(1), num(2)))
	case "append":
		return put(p, unix.O_CREAT|unix.O_APPEND, words(num(1), num(2)))
	case "save":
		tmp := p + ".tmp~"
		if err := put(tmp, unix.O_CREAT|unix.O_EXCL, words(num(1), num(2))); err != nil {
			return err
		}
		return unix.Rename(tmp, p)
	case "text":
		return put(p, unix.O_CREAT|unix.O_TRUNC, []byte(arg(1)))
	case "read":
		_, err := get(p)
		return err
	case "list":
		return filepath.Walk(p, func(string, os.FileInfo, error) error { return nil })
	case "copy":
		b, err := get(p)
		if err != nil {
			return err
		}
		return put(q, unix.O_CREAT|unix.O_TRUNC, b)
	case "truncate":
		return unix.Truncate(p, int64(num(1)))
	case "rename":
		return unix.Rename(p, q)
	case "noreplace":
		return unix.Renameat2(unix.AT_FDCWD, p, unix.AT_FDCWD, q, unix.RENAME_NOREPLACE)
	case "exchange":
		return unix.Renameat2(unix.AT_FDCWD, p, unix.AT_FDCWD, q, unix.RENAME_EXCHANGE)
	case "unlink":
		return unix.Unlink(p)
	case "link":
		return unix.Link(p, q)
	case "symlink":
		return unix.Symlink(arg(1), p)
	case "mkfifo":
		return unix.Mkfifo(p, 0o644)
	case "chmod":
		return unix.Chmod(p, oct(1))
	case "chown":
		return unix.Lchown(p, num(1), num(2))
	case "setxattr":
		return unix.Lsetxattr(p, arg(1), []byte(arg(2)), 0)
	case "rmxattr":
		return unix.Lremovexattr(p, arg(1))
	case "setfacl": // gives one more user the permissions in the last argument
		return unix.Lsetxattr(p, arg(1), acl(uint32(num(2)), uint16(num(3))), 0)
	case "open":
		flags := map[string]int{"rw": unix.O_RDWR, "create": unix.O_RDWR | unix.O_CREAT, "append": unix.O_WRONLY | unix.O_APPEND | unix.O_CREAT, "trunc": unix.O_RDWR | unix.O_TRUNC | unix.O_CREAT, "tmp": unix.O_RDWR | unix.O_TMPFILE}
		if held {
			return errors.New("that handle is in use")
		}
		f, err := unix.Open(q, flags[arg(2)]|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o644)
		if err == nil {
			a.files[arg(0)] = f
		}
		return err
	}
	if !held {
		return errors.New("no such handle")
	}
	switch o.Verb {
	case "hclose":
		delete(a.files, arg(0))
		return unix.Close(fd)
	case "hwrite": // at the offset of the handle, or at the end of the file
		_, err := unix.Write(fd, words(num(1), num(2)))
		return err
	case "hpwrite":
		_, err := unix.Pwrite(fd, words(num(2), num(3)), int64(num(1)))
		return err
	case "hsync":
		return unix.Fsync(fd)
	case "htruncate":
		return unix.Ftruncate(fd, int64(num(1)))
	case "hfallocate":
		return unix.Fallocate(fd, uint32(num(1)), int64(num(2)), int64(num(3)))
	case "hmmap":
		return scribble(fd, num(1), words(num(2), num(3)))
	case "hcopy":
		other, ok := a.files[arg(1)]
		if !ok {
			return errors.New("no such handle")
		}
		from, to := int64(num(2)), int64(num(3))
		_, err := unix.CopyFileRange(fd, &from, other, &to, num(4), 0)
		return err
	case "hlink":
		return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, q, unix.AT_SYMLINK_FOLLOW)
	case "hchmod":
		return unix.Fchmod(fd, oct(1))
	case "hsetxattr":
		return unix.Fsetxattr(fd, arg(1), []byte(arg(2)), 0)
	}
	return fmt.Errorf("no such operation: %s", o.Verb)
}

// closeAll closes all open handles, in the order of their names.
func (a *agent) closeAll() {
	for i := range handles {
		name := fmt.Sprintf("h%d", i)
		if fd, ok := a.files[name]; ok {
			_ = unix.Close(fd)
			delete(a.files, name)
		}
	}
}

const handles = 4

// get reads a regular file. It refuses a pipe, because reading a pipe could wait forever.
func get(p string) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Stat(p, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, unix.EINVAL
	}
	return os.ReadFile(p)
}

func put(p string, flags int, b []byte) error {
	fd, err := unix.Open(p, unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|flags, 0o644)
	if err != nil {
		return err
	}
	if len(b) > 0 {
		_, err = unix.Write(fd, b)
	}
	return errors.Join(err, unix.Close(fd))
}

// scribble writes b to a file through a mapping.
func scribble(fd, off int, b []byte) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Size == 0 {
		return errors.Join(err, errors.New("nothing to map"))
	}
	m, err := unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	if off < len(m) {
		copy(m[off:], b)
	}
	return errors.Join(unix.Msync(m, unix.MS_SYNC), unix.Munmap(m))
}

// words returns a text of size bytes. The text is different for each number.
func words(size, number int) []byte {
	b := make([]byte, 0, size+32)
	for i := 0; len(b) < size; i++ {
		b = fmt.Appendf(b, "line %d of %d\n", i, number)
	}
	return b[:size]
}

// acl returns an access control list in the kernel's format. It has the usual three entries, an
// entry for one user, and a mask.
func acl(user uint32, perm uint16) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{0x01, 6, ^uint32(0)}, {0x02, perm, user}, {0x04, 4, ^uint32(0)}, {0x10, 6, ^uint32(0)}, {0x20, 4, ^uint32(0)}} {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}

// serveAgent runs the agent in a child process. Operations arrive as lines of JSON. Each is
// answered by a line with the operation's error, which is empty if there was none.
func serveAgent(dir string) error {
	runtime.LockOSThread()
	unix.Umask(0o022)
	if err := os.Chdir(dir); err != nil {
		return err
	}
	a := &agent{dir: dir, files: map[string]int{}}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var o op
		if err := json.Unmarshal(in.Bytes(), &o); err != nil {
			return err
		}
		said := ""
		if o.Verb == "closeall" {
			a.closeAll()
		} else if o.Verb == "pid" {
			said = strconv.Itoa(os.Getpid())
		} else if err := a.do(o); err != nil {
			said = err.Error()
		}
		b, _ := json.Marshal(said)
		if _, err := fmt.Printf("%s\n", b); err != nil {
			return err
		}
	}
	return in.Err()
}

// remote is an agent in a separate process. The process can be killed if it hangs.
type remote struct {
	cmd   *exec.Cmd
	in    *os.File
	lines chan string
	pid   int
}

// startAgent starts an agent, under "cachebro run" if net is set.
func (p *place) startAgent(dir string, net bool) (*remote, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe, "agent", dir)
	if net {
		cmd = p.command("run", "--dir", p.dir, "--", exe, "agent", dir)
	}
	r := &remote{cmd: cmd, lines: make(chan string, 1)}
	r.cmd.Dir = "/"
	if !net {
		r.cmd.Stderr = os.Stderr
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer pr.Close()
	r.cmd.Stdin, r.in = pr, pw
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, errors.Join(err, pw.Close())
	}
	go func() {
		defer close(r.lines)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			r.lines <- sc.Text()
		}
	}()
	said, err := r.do(op{Verb: "pid"})
	if err != nil {
		return nil, errors.Join(err, r.end())
	}
	r.pid, err = strconv.Atoi(said)
	return r, err
}

// do makes the agent carry out an operation. failed is the error of the operation's own system
// call.
func (r *remote) do(o op) (failed string, err error) {
	b, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	if _, err := r.in.Write(append(b, '\n')); err != nil {
		return "", err
	}
	select {
	case line, ok := <-r.lines:
		if !ok {
			return "", errors.New("the agent ended")
		}
		err := json.Unmarshal([]byte(line), &failed)
		return failed, err
	case <-time.After(2 * time.Minute):
		return "", fmt.Errorf("%s did not end within two minutes", o)
	}
}

func (r *remote) end() error {
	err := r.in.Close()
	done := make(chan error, 1)
	go func() { done <- r.cmd.Wait() }()
	select {
	case werr := <-done:
		return errors.Join(err, werr)
	case <-time.After(2 * time.Minute):
		return errors.Join(err, errors.New("the agent did not end"), r.cmd.Process.Kill())
	}
}
