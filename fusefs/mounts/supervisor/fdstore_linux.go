package supervisor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"cachebro/fusefs"
	"cachebro/store/leaf/loop"
)

// fdStore holds what a new mountd needs to continue the connection of a killed mountd: /dev/fuse,
// the ledger, and descriptors of files that cannot be opened again by name. It belongs to one
// goroutine, except while hear runs.
type fdStore struct {
	logger         *slog.Logger
	ledger, device *os.File // nil if none
	files          map[uint64]*os.File
	hearDone       chan struct{} // closed when mountd has ended and all its messages were read
}

const maxStored = 4096

// A message between mountd and its supervisor consists of one of these bytes and the number of a
// handle.
const (
	sayKeep   = 'K' // with a descriptor
	sayDrop   = 'D'
	sayDevice = 'F' // with /dev/fuse
	sayAll    = 'A' // to a new mountd: all descriptors were sent
	saySize   = 9
)

// newFDStore returns an fdStore with an empty ledger. If no ledger can be made, the mount works,
// but it is detached if mountd dies.
func newFDStore(logger *slog.Logger) *fdStore {
	h := &fdStore{logger: logger, files: map[uint64]*os.File{}}
	var err error
	h.ledger, err = fusefs.NewLedger()
	if err != nil {
		logger.Warn("a mountd that dies cannot be replaced", "error", err)
	}
	return h
}

// inherit returns an fdStore with the descriptors that mountd passes to a new supervisor after the
// previous one has died.
func inherit(device, ledger, sock *os.File, logger *slog.Logger) *fdStore {
	h := &fdStore{logger: logger, files: map[uint64]*os.File{}, device: device, ledger: ledger, hearDone: make(chan struct{})}
	go h.hear(sock, h.hearDone)
	return h
}

func (h *fdStore) close() {
	for fh, f := range h.files {
		f.Close()
		delete(h.files, fh)
	}
	for _, f := range []*os.File{h.ledger, h.device} {
		if f != nil {
			f.Close()
		}
	}
	h.ledger, h.device = nil, nil
}

// canTakeOver waits until all messages of a dead mountd have been read. It reports whether there is
// a connection that another mountd can serve.
func (h *fdStore) canTakeOver() bool {
	if h.hearDone != nil {
		<-h.hearDone
		h.hearDone = nil
	}
	if h.ledger == nil || h.device == nil {
		return false
	}
	err := fusefs.CanTakeOver(h.ledger, h.device)
	if err != nil { // normal after an orderly unmount
		h.logger.Info("nothing to take over", "why", err)
	}
	return err == nil
}

// handDown makes a socket for a new mountd. If that mountd takes the connection over, it receives
// the stored descriptors through this socket. The caller then calls started, with true if the
// process could be started.
func (h *fdStore) handDown() (sock *os.File, started func(bool), err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to mountd: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "mountd"), os.NewFile(uintptr(pair[1]), "supervisor")
	return theirs, func(ok bool) {
		theirs.Close()
		if !ok {
			ours.Close()
			return
		}
		h.hearDone = make(chan struct{})
		go func(heard chan struct{}) {
			for fh, f := range h.files {
				if err := say(pair[0], sayKeep, fh, int(f.Fd()), 0); err != nil {
					h.logger.Warn("cannot hand on an open file", "error", err)
				}
			}
			_ = say(pair[0], sayAll, 0, -1, 0)
			h.hear(ours, heard)
		}(h.hearDone)
	}, nil
}

// hear reads the messages of a mountd until that mountd has ended.
func (h *fdStore) hear(sock *os.File, heard chan struct{}) {
	defer close(heard)
	defer sock.Close()
	for {
		what, fh, f, err := listen(int(sock.Fd()))
		if err != nil {
			return
		}
		switch {
		case what == sayKeep && f != nil && len(h.files) < maxStored:
			if old := h.files[fh]; old != nil {
				old.Close()
			}
			h.files[fh] = f
			continue
		case what == sayDevice && f != nil && h.device == nil:
			h.device = f
			continue
		case what == sayDrop && h.files[fh] != nil:
			h.files[fh].Close()
			delete(h.files, fh)
		}
		if f != nil {
			f.Close()
		}
	}
}

func say(sock int, what byte, fh uint64, fd, flags int) error {
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	msg := binary.NativeEndian.AppendUint64([]byte{what}, fh)
	return loop.Retry(func() error { return unix.Sendmsg(sock, msg, rights, nil, flags|unix.MSG_NOSIGNAL) })
}

func listen(sock int) (what byte, fh uint64, f *os.File, err error) {
	msg, oob := make([]byte, 16), make([]byte, unix.CmsgSpace(4))
	for {
		n, on, _, _, err := unix.Recvmsg(sock, msg, oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err == nil && n != saySize {
			err = errors.New("the other side has closed the connection")
		}
		if err != nil {
			return 0, 0, nil, err
		}
		if cs, err := unix.ParseSocketControlMessage(oob[:on]); err == nil && len(cs) == 1 {
			if fds, err := unix.ParseUnixRights(&cs[0]); err == nil && len(fds) == 1 {
				f = os.NewFile(uintptr(fds[0]), "kept")
			}
		}
		return msg[0], binary.NativeEndian.Uint64(msg[1:]), f, nil
	}
}

// fdClient is mountd's side of the connection. A request on the mount never waits for the
// supervisor, because the supervisor may be stopped. In that case the descriptor is not stored.
type fdClient struct {
	sock atomic.Pointer[os.File]
	old  []*os.File // sockets to supervisors that died
}

var _ fusefs.FDStore = (*fdClient)(nil)

func (k *fdClient) use(sock *os.File) { k.sock.Store(sock) }

func (k *fdClient) say(what byte, fh uint64, fd int) bool {
	s := k.sock.Load()
	return s != nil && say(int(s.Fd()), what, fh, fd, unix.MSG_DONTWAIT) == nil
}

// Keep implements fusefs.FDStore.
func (k *fdClient) Keep(fh uint64, fd int) bool { return k.say(sayKeep, fh, fd) }

// Drop implements fusefs.FDStore.
func (k *fdClient) Drop(fh uint64) { k.say(sayDrop, fh, -1) }

// device sends the descriptor of /dev/fuse to the supervisor.
func (k *fdClient) device(fd int) { k.say(sayDevice, 0, fd) }

// receive reads the descriptors that the supervisor stored for the previous mountd. If the
// supervisor is killed in the meantime, only this process can save the mount, so receive returns
// the descriptors that have arrived. Only descriptors of open files without a name can be missing.
func (k *fdClient) receive() map[uint64]*os.File {
	kept := map[uint64]*os.File{}
	for {
		what, fh, f, err := listen(int(k.sock.Load().Fd()))
		switch {
		case err != nil || what == sayAll:
			return kept
		case f != nil:
			kept[fh] = f
		}
	}
}

// renew makes a socket to a new supervisor, sends what the supervisor must store, and returns the
// supervisor's end of the socket.
func (k *fdClient) renew(s *fusefs.Server) (*os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	// The old socket stays open: another goroutine may be about to use its descriptor number.
	k.old = append(k.old, k.sock.Swap(os.NewFile(uintptr(pair[0]), "supervisor")))
	s.Guarded(func(fh uint64, fd int) { k.Keep(fh, fd) })
	return os.NewFile(uintptr(pair[1]), "mountd"), nil
}

// dup duplicates a descriptor for a child process to inherit.
func dup(fd int) (*os.File, error) {
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(n), "device"), nil
}
