package mcp

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cachebro/store/wire"
)

// Our writing tools used to replace a read-only file by a rename, which only needs a directory that
// can be written.
func TestReadOnlyFileIsNotWritten(t *testing.T) {
	dir := project(t, files{"a.txt": "a\n"})
	for name, mode := range map[string]os.FileMode{filepath.Dir(dir): 0o755, dir: 0o777, dir + "/a.txt": 0o444} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	s, err := newServer(Options{Root: dir, Dial: noDaemon, In: strings.NewReader(""), Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, because it is not unlocked
		if os.Getuid() == 0 {
			const nobody = 65534
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 { // of this thread alone
				opened <- errno
				return
			}
		}
		f, err := s.open("a.txt")
		if err == nil {
			f.Root.Close()
		}
		opened <- err
	}()
	if err := <-opened; !errors.Is(err, wire.ErrPermission) {
		t.Errorf("opened to be written: %v", err)
	}
}
