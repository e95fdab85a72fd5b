//go:build linux || darwin

package fusefs

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	// mountTimeout is how long a new mount may take to answer.
	mountTimeout = 10 * time.Second
	// minProcs is the value to which Mount raises GOMAXPROCS if it is lower. A thread that waits
	// for a request holds its scheduler slot (P) for a while. With one slot per core, the next
	// thread had to wait. On a busy machine with 2 cores, create+write+close took 245-298 µs
	// instead of 98-146 µs.
	minProcs = 16
)

// Server serves one mount until it is unmounted or the connection is aborted.
type Server struct {
	opt  Options
	fs   *overlay
	dev  *device
	done chan struct{} // closed when the mount has ended and everything is released

}

// Mount mounts opt.Source on opt.Mountpoint and returns when the mount answers. It raises
// GOMAXPROCS to minProcs.
func Mount(opt Options) (*Server, error) {
	if opt.Source == nil || opt.Mountpoint == "" {
		return nil, errors.New("mount: a source and a mountpoint are required")
	}
	o, err := newOverlay(&opt)
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", opt.Mountpoint, err)
	}
	fd, mounted := opt.FD, func() error { return nil }
	if fd <= 0 {
		fd, mounted, err = mountDevice(&opt)
		if err != nil {
			o.close()
			return nil, err
		}
	}
	s := &Server{opt: opt, fs: o, done: make(chan struct{})}
	s.dev = &device{fd: fd, proto: fuse.NewProtocolServer(o, s.protocol()), ledger: o.ledger, log: o.log, changes: o.changes, note: o.noteRequest}
	o.notifier = newNotifier(s.dev.notify)
	o.locking.answer = s.dev.answer
	o.locking.releasing = s.dev.releasing
	s.dev.interrupted = o.interrupted
	if opt.TakeOver {
		return s.takeOver()
	}
	if err := s.dev.handshake(); err != nil {
		_ = Detach(opt.Mountpoint)
		s.undo()
		return nil, fmt.Errorf("mount %s: no answer from the kernel: %w", opt.Mountpoint, errors.Join(err, mounted()))
	}
	s.serve()
	err = mounted()
	if err == nil {
		err = s.probe()
	}
	if err != nil {
		_ = Detach(opt.Mountpoint)
		s.Wait()
		return nil, fmt.Errorf("mount %s: %w", opt.Mountpoint, err)
	}
	return s, nil
}

// EachDirty calls f for every file that was written to and not closed yet. During f, no process can
// write to the file.
func (s *Server) EachDirty(f func(File)) { s.fs.dirty.each(f) }

// undo releases everything that Mount has set up, if the mount never served a request.
func (s *Server) undo() {
	s.fs.notifier.stop()
	s.fs.close()
	unix.Close(s.dev.fd)
}

func (s *Server) serve() {
	if runtime.GOMAXPROCS(0) < minProcs {
		runtime.GOMAXPROCS(minProcs)
	}
	s.dev.start()
	go s.finish()
}

func (s *Server) protocol() *fuse.MountOptions {
	m := &fuse.MountOptions{
		Name: fsSubtype, FsName: s.opt.Source.Name(),
		MaxWrite: maxRequest, MaxBackground: 64, CongestionThreshold: 48,
		EnableSymlinkCaching:     true,
		ExplicitDataCacheControl: true, // the kernel must not drop pages when our own writes change a file's times
		Logger:                   slog.NewLogLogger(s.fs.log.Handler(), slog.LevelWarn),
		ExtraCapabilities:        capabilities | capabilitiesOf(int(s.opt.Source.Fd())),
		// Passthrough would forbid stacking another file system on the mount.
		DisabledCapabilities: fuse.CAP_PASSTHROUGH | fuse.CAP_NO_OPEN_SUPPORT,
		EnableLocks:          forwardsLocks && s.fs.ledger.asks(fuse.CAP_FLOCK_LOCKS, s.opt.TakeOver),
	}
	if forwardsLocks && s.fs.ledger.asks(fuse.CAP_DIRECT_IO_ALLOW_MMAP, s.opt.TakeOver) {
		m.ExtraCapabilities |= fuse.CAP_DIRECT_IO_ALLOW_MMAP // see uncached
	}
	if s.fs.acl {
		m.EnableAcl = true
		m.ExtraCapabilities |= fuse.CAP_DONT_MASK
	}
	return m
}

// probe checks that the mount answers. It also calls poll(2) once. go-fuse answers with ENOSYS, so
// the kernel never sends POLL again. This is necessary because Go programs poll the files that they
// open. If this server did so on its own mount, it would wait for its own answer forever.
func (s *Server) probe() error {
	answer := make(chan error, 1)
	go func() {
		fd, err := unix.Open(s.opt.Mountpoint+"/.go-fuse-epoll-hack", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			answer <- err
			return
		}
		_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		unix.Close(fd)
		answer <- err
	}()
	select {
	case err := <-answer:
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("the mount does not answer: %w", err)
		}
		return nil
	case <-s.done:
		return errors.New("the connection ended")
	case <-time.After(mountTimeout):
		return os.ErrDeadlineExceeded
	}
}

// finish waits for the last loop to end, then releases everything.
func (s *Server) finish() {
	s.dev.loops.Wait()
	s.fs.notifier.stop()
	s.fs.close()
	unix.Close(s.dev.fd)
	close(s.done)
}

// Wait returns when the mount is gone and every call of the Observer has returned.
func (s *Server) Wait() { <-s.done }

// Unmount unmounts and waits until everything has ended. If the mount is in use, it changes nothing
// and returns ErrBusy.
func (s *Server) Unmount() error {
	select {
	case <-s.done:
		return nil
	default:
	}
	if err := Unmount(s.opt.Mountpoint); err != nil {
		return err
	}
	s.Wait()
	return nil
}

// SetOutside sets whether processes may write directly to the source. When processes begin to do
// so, the kernel is made to drop everything that it may have cached for longer than a second.
func (s *Server) SetOutside(on bool) {
	if on {
		s.fs.bypassable.Store(true)
	} else {
		now := time.Now()
		s.fs.aloneSince.Store(&now)
	}
	defer s.fs.changes.Everything()
	if s.fs.outside.Swap(on) || !on {
		return
	}
	newEpoch := s.dev.notify(notifyIncEpoch, nil) == nil // drops all cached names at once (Linux 6.16)
	for i := range s.fs.table.byID {
		part := &s.fs.table.byID[i]
		part.RLock()
		all := slices.Collect(maps.Values(part.m))
		part.RUnlock()
		for _, n := range all {
			n.spoil() // the source may have changed unnoticed until now
			n.forgetAbsent()
			s.fs.notifier.attrs(n.id)
			if newEpoch {
				continue
			}
			for _, l := range n.links(nil) {
				s.fs.notifier.entry(l.parent.id, l.name)
			}
		}
		for _, r := range s.fs.table.restingNames(i) { // the kernel caches no pages of resting files
			s.fs.notifier.attrs(r.id)
			if !newEpoch {
				s.fs.notifier.entry(r.parent, r.name)
			}
		}
	}
}

// SetBypassable sets whether processes can reach the source without going through the mount, even
// if none does so now. While they can, the kernel does not cache the files that databases open,
// because such files stay open for a long time.
func (s *Server) SetBypassable(on bool) { s.fs.bypassable.Store(on) }

func (s *Server) Stats() Stats {
	st := Stats{
		Inodes:   int(s.fs.table.count.Load()),
		Handles:  int(s.fs.handles.count.Load()),
		Dirty:    s.fs.dirty.len(),
		Threads:  int(s.dev.threads.Load()),
		Requests: make(map[string]uint64),
	}
	for op := range s.dev.counts {
		if n := s.dev.counts[op].Load(); n > 0 {
			st.Requests[opName(op)] = n
		}
	}
	return st
}

var opNames = [maxOpcode]string{
	1: "lookup", 2: "forget", 3: "getattr", 4: "setattr", 5: "readlink", 6: "symlink", 8: "mknod",
	9: "mkdir", 10: "unlink", 11: "rmdir", 12: "rename", 13: "link", 14: "open", 15: "read",
	16: "write", 17: "statfs", 18: "release", 20: "fsync", 21: "setxattr", 22: "getxattr",
	23: "listxattr", 24: "removexattr", 25: "flush", 26: "init", 27: "opendir", 28: "readdir",
	30: "fsyncdir", 31: "getlk", 32: "setlk", 33: "setlkw", 34: "access", 35: "create", 36: "interrupt", 38: "destroy", 39: "ioctl",
	40: "poll", 42: "batch_forget", 43: "fallocate", 44: "readdirplus", 45: "rename2",
	46: "lseek", 47: "copy_file_range", 51: "tmpfile", 52: "statx", 53: "copy_file_range_64",
}

func opName(op int) string {
	if opNames[op] != "" {
		return opNames[op]
	}
	return fmt.Sprintf("op%d", op)
}

// Unmount unmounts a mountpoint. If a file on the mount is in use, it changes nothing and returns
// ErrBusy. It does not wait for the server to end, because the server may still serve copies of the
// mount in other mount namespaces.
func Unmount(mountpoint string) error {
	var err error
	for try := range 5 {
		// Files that were just closed are released in the background.
		err = unmount(mountpoint, false)
		if !errors.Is(err, ErrBusy) {
			break
		}
		time.Sleep(time.Duration(try+1) * 10 * time.Millisecond)
	}
	return err
}

// Detach removes a mount at once, without help from its server. Processes that use it keep their
// open files, and all others see the covered directory. On darwin, the open files are closed.
func Detach(mountpoint string) error { return unmount(mountpoint, true) }

func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `,`, `\,`).Replace(s)
}

func receive(sock, flags int) (int, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(sock, make([]byte, 4), oob, flags)
	if err != nil {
		return -1, err
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(msgs) == 0 {
		return -1, errors.Join(errors.New("the mount program sent no descriptor"), err)
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 1 {
		return -1, errors.Join(errors.New("the mount program sent no descriptor"), err)
	}
	unix.CloseOnExec(fds[0])
	return fds[0], nil
}
