package supervisor

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// The supervisor may be killed while it passes the descriptors that it keeps to the mountd that
// takes over. Then that mountd is the last process that can save the mount. It used to give up
// because the descriptors of open files were missing.
func TestSupervisorKilledWhileItHandsDown(t *testing.T) {
	for _, sent := range []int{0, 2} {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		supervisor, mountd := os.NewFile(uintptr(pair[0]), "supervisor"), os.NewFile(uintptr(pair[1]), "mountd")
		for fh := range sent {
			null, err := os.Open(os.DevNull)
			if err != nil {
				t.Fatal(err)
			}
			if err := say(pair[0], sayKeep, uint64(fh), int(null.Fd()), 0); err != nil {
				t.Fatal(err)
			}
			null.Close()
		}
		supervisor.Close()
		k := &fdClient{}
		k.use(mountd)
		kept := k.receive()
		if len(kept) != sent {
			t.Errorf("%d files were kept, want %d", len(kept), sent)
		}
		for _, f := range kept {
			f.Close()
		}
		mountd.Close()
	}
}
