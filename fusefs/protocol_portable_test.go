//go:build portable && linux

package fusefs

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// requester sends requests to the overlay as bytes, as a kernel does.
type requester struct {
	t      *testing.T
	proto  *fuse.ProtocolServer
	unique uint64
}

func newRequester(t *testing.T, dir string) *requester {
	source, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { source.Close() })
	opt := Options{Source: source, Mountpoint: dir, Outside: true}
	o, err := newOverlay(&opt)
	if err != nil {
		t.Fatal(err)
	}
	o.notifier = newNotifier(func(int32, []byte) error { return nil })
	t.Cleanup(func() { o.notifier.stop(); o.close() })
	s := &Server{opt: opt, fs: o}
	m := s.protocol()
	m.Logger = slog.NewLogLogger(slog.DiscardHandler, slog.LevelWarn)
	return &requester{t: t, proto: fuse.NewProtocolServer(o, m)}
}

// ask sends one request and returns the body of the reply, and its errno.
func (w *requester) ask(op uint32, node uint64, body []byte) ([]byte, unix.Errno) {
	w.t.Helper()
	w.unique++
	in := binary.NativeEndian.AppendUint32(nil, uint32(40+len(body)))
	in = binary.NativeEndian.AppendUint32(in, op)
	in = binary.NativeEndian.AppendUint64(in, w.unique)
	in = binary.NativeEndian.AppendUint64(in, node)
	for _, v := range []int{os.Getuid(), os.Getgid(), os.Getpid(), 0} {
		in = binary.NativeEndian.AppendUint32(in, uint32(v))
	}
	out := make([]byte, 64<<10)
	n, st := w.proto.HandleRequest([][]byte{append(in, body...)}, [][]byte{out})
	if !st.Ok() {
		w.t.Fatalf("request %d: %v", op, st)
	}
	if n < 16 || int(binary.NativeEndian.Uint32(out)) != n || binary.NativeEndian.Uint64(out[8:]) != w.unique {
		w.t.Fatalf("request %d: a reply of %d bytes: % x", op, n, out[:n])
	}
	return out[16:n], unix.Errno(-int32(binary.NativeEndian.Uint32(out[4:])))
}

func words(vs ...uint32) (b []byte) {
	for _, v := range vs {
		b = binary.NativeEndian.AppendUint32(b, v)
	}
	return b
}

// TestDarwinsRequests sends requests as a kernel with protocol 7.19 does (for INIT, see
// osxfuse/kext, fuse_internal.c:1902). It uses only requests whose structures are the same on
// darwin and Linux. For the structures that differ, see protocol_darwin_test.go.
func TestDarwinsRequests(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		if err := os.WriteFile(fmt.Sprintf("%s/f%d", dir, i), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := newRequester(t, dir)
	// A darwin kernel does not know the later additions of Linux. It sends 16 bytes and expects an
	// answer of 24 bytes. The flags from bit 24 on have another meaning on darwin.
	const offered = 1 << 3
	r, errno := w.ask(26, 0, words(7, 19, 1<<20, offered))
	if errno != 0 || len(r) != 24 || binary.NativeEndian.Uint32(r) != 7 || binary.NativeEndian.Uint32(r[4:]) != 19 {
		t.Fatalf("INIT: % x, %v", r, errno)
	}
	if got := binary.NativeEndian.Uint32(r[12:]); got&(1<<24-1) != offered {
		t.Errorf("INIT asks for %x, offered was %x", got, offered)
	}
	if got := binary.NativeEndian.Uint32(r[20:]); got != maxRequest {
		t.Errorf("INIT: writes of %d bytes", got)
	}
	if r, errno := w.ask(17, 1, nil); errno != 0 || len(r) != 80 || binary.NativeEndian.Uint64(r) == 0 {
		t.Errorf("STATFS, without which the mount program does not end: % x, %v", r, errno)
	}
	// For an absent name the reply has node 0, which darwin treats like ENOENT.
	if r, errno := w.ask(1, 1, []byte("absent\x00")); errno != 0 || binary.NativeEndian.Uint64(r) != 0 {
		t.Errorf("LOOKUP of an absent name: % x, %v", r, errno)
	}
	// OPENDIR must return a handle. With ENOSYS, opendir(3) would fail.
	r, errno = w.ask(27, 1, words(0, 0))
	if errno != 0 || len(r) != 16 || binary.NativeEndian.Uint64(r) == 0 {
		t.Fatalf("OPENDIR: % x, %v", r, errno)
	}
	fh, names, at := r[:8:8], map[string]bool{}, uint64(0)
	for reads := 0; ; reads++ {
		body := binary.NativeEndian.AppendUint64(append([]byte(nil), fh...), at)
		r, errno := w.ask(28, 1, append(body, words(80, 0, 0, 0, 0, 0)...)) // room for two entries
		if errno != 0 || reads > 10 {
			t.Fatalf("READDIR: %v", errno)
		}
		if len(r) == 0 {
			break
		}
		for len(r) > 0 { // ino, off, length of the name, type, name, padded to a multiple of eight bytes
			n := int(binary.NativeEndian.Uint32(r[16:]))
			at = binary.NativeEndian.Uint64(r[8:])
			names[string(r[24:24+n])] = true
			r = r[(24+n+7)&^7:]
		}
	}
	if len(names) != 5 || !names["f0"] || !names["f2"] || !names[".."] {
		t.Errorf("READDIR in pieces: %v", names)
	}
	// SETVOLNAME, GETXTIMES and EXCHANGE were not negotiated, so they are refused as unknown.
	for op, body := range map[uint32][]byte{61: []byte("volume\x00"), 62: nil, 63: append(make([]byte, 24), "a\x00b\x00"...)} {
		if r, errno := w.ask(op, 1, body); errno != unix.ENOSYS || len(r) != 0 {
			t.Errorf("request %d: % x, %v", op, r, errno)
		}
	}
}
