package tidy

import (
	"context"
	"fmt"
	"os"
	"time"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/store/portable"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// portableBuckets are the KV buckets that are part of the history. The others describe processes of
// this machine, or what readers with open contexts were shown.
var portableBuckets = []string{"notes", "docsync", attribution.ProcessBucket}

// Portable returns the options for an export of the history of root.
func Portable(root, version string) portable.Options {
	return portable.Options{Program: version, Root: root, Buckets: portableBuckets}
}

// WrittenByUsers selects the entries that people and agents made. A store with such entries is not
// empty. The bucket docsync does not count, because its package makes an entry when it starts.
func WrittenByUsers() portable.Options { return portable.Options{Buckets: []string{"notes"}} }

// readWithin is how long the reader of an export may take to empty the pipe. It is bounded because
// retention waits for the export.
const readWithin = time.Minute

// export writes the history to the pipe that the client passed.
func (td *Tidy) export(ctx context.Context, r *wire.Request) (any, []byte, error) {
	if len(r.Files) != 1 {
		return nil, nil, wire.Errorf(wire.ErrBadRequest, "", "%s needs the descriptor to write to", wire.MExport)
	}
	w, err := openPipe(ctx, r.Files[0])
	if err != nil {
		return nil, nil, err
	}
	defer w.f.Close()
	defer context.AfterFunc(ctx, func() { _ = w.f.SetWriteDeadline(time.Unix(1, 0)) })()
	if _, err := td.Ingest.CaughtUp(ctx, ingest.PlanWait, ingest.PlanStill); err != nil {
		return nil, nil, err
	}
	td.Sets.Flush()
	c, err := portable.Export(ctx, td.Store, w, Portable(td.Root, td.Version))
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, nil, err
	}
	td.Log.Info("exported", "versions", c.Versions, "contents", c.Contents, "bytes", c.Bytes)
	return c.Totals, nil, nil
}

// timedPipe is a pipe whose writes fail if the reader does not read in time, or when ctx ends.
type timedPipe struct {
	f   *os.File
	ctx context.Context
}

// openPipe takes ownership of a descriptor and gives its writes a deadline.
func openPipe(ctx context.Context, f *os.File) (*timedPipe, error) {
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("take the pipe: %w", err)
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFIFO {
		err = wire.Errorf(wire.ErrBadRequest, "", "the history is written to a pipe")
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return &timedPipe{f: os.NewFile(uintptr(fd), "export"), ctx: ctx}, nil
}

func (w *timedPipe) Write(b []byte) (int, error) {
	if err := w.f.SetWriteDeadline(time.Now().Add(readWithin)); err != nil {
		return 0, err
	}
	if err := w.ctx.Err(); err != nil { // it may have ended before the deadline was set
		return 0, err
	}
	return w.f.Write(b)
}
