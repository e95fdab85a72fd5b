//go:build linux || darwin

package fusefs

import (
	"maps"
	"sync"
	"time"

	"cachebro/fusefs/sys"
	"cachebro/store/leaf/event"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	// maxPrepared limits how many threads can have prepared files, and so the memory, because an
	// attribute has at most 64 KiB.
	maxPrepared = 64
	// preparedFor is how long a prepared file waits for its mknod(2).
	preparedFor = 10 * time.Second
)

// prepared holds the files that threads are about to make. A client that carries out a plan
// prepares many files in one request, then makes each with one request instead of seven. Each file
// appears complete, in one operation. If a preparation is lost, for instance at a take-over, the
// second request makes an empty file. The client checks for that.
type prepared struct {
	mu sync.Mutex
	by map[uint32]preparation // each thread's last preparation; nil while no timer runs
}

type preparation struct {
	owner fuse.Owner
	dir   uint64 // node id
	at    time.Time
	files map[string]event.PreparedFile
}

// put stores the files that a thread prepares, replacing its earlier ones.
func (p *prepared) put(in *fuse.InHeader, data []byte) fuse.Status {
	files, err := event.DecodePrepared(data)
	if err != nil {
		return fuse.EINVAL
	}
	if in.Pid == 0 { // threads in other pid namespaces all have this number
		return fuse.EAGAIN
	}
	of := preparation{owner: in.Owner, dir: in.NodeId, at: time.Now(), files: make(map[string]event.PreparedFile, len(files))}
	for _, f := range files {
		of.files[string(f.Name)] = f
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, had := p.by[in.Pid]; !had && len(p.by) >= maxPrepared {
		return fuse.EAGAIN
	}
	if p.by == nil {
		p.by = map[uint32]preparation{}
		time.AfterFunc(preparedFor, p.expire)
	}
	p.by[in.Pid] = of
	return fuse.OK
}

func (p *prepared) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.by, func(_ uint32, of preparation) bool { return time.Since(of.at) >= preparedFor })
	if len(p.by) == 0 {
		p.by = nil
		return
	}
	time.AfterFunc(preparedFor, p.expire)
}

// take removes and returns the file that the calling thread prepared for a name in the directory
// in.NodeId.
func (p *prepared) take(in *fuse.InHeader, name string) (event.PreparedFile, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.by[in.Pid]
	f, ok := of.files[name]
	if !ok || of.dir != in.NodeId || of.owner != in.Owner || time.Since(of.at) > preparedFor {
		return f, false
	}
	delete(of.files, name)
	if len(of.files) == 0 {
		delete(p.by, in.Pid)
	}
	return f, true
}

// makePrepared makes a prepared file and returns its descriptor. It sets the file's time last, so a
// file with that time is complete. It does not set the owner, because only the kernel knows whether
// the caller may.
func makePrepared(dir int, f event.PreparedFile) (fd int, err error) {
	fd, err = sys.Open(dir, string(f.Name), unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, f.Mode&0o777)
	if err != nil {
		return -1, err
	}
	for done := 0; err == nil && done < len(f.Content); {
		var n int
		n, err = unix.Pwrite(fd, f.Content[done:], int64(done))
		done += max(n, 0)
		if err == unix.EINTR {
			err = nil
		}
	}
	if err == nil {
		t := unix.NsecToTimespec(f.Mtime)
		err = sys.SetTimes(sys.FD(fd), sys.Unchanged, sys.Time{Sec: int64(t.Sec), Nsec: uint32(t.Nsec)})
	}
	if err != nil {
		_ = unix.Unlinkat(dir, string(f.Name), 0)
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
