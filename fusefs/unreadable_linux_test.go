package fusefs

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// counted is a log handler that counts the messages.
type counted struct {
	slog.Handler
	n *int
}

func (c counted) Enabled(context.Context, slog.Level) bool  { return true }
func (c counted) Handle(context.Context, slog.Record) error { *c.n++; return nil }

// If reading requests from the device fails, the server does not retry a thousand times a second,
// and does not log each error.
func TestUnreadableDevice(t *testing.T) {
	dir, err := os.Open(t.TempDir()) // reading a directory fails with EISDIR
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	closed, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // reading this fails with EBADF, as at the end of a connection
	if err != nil {
		t.Fatal(err)
	}
	defer closed.Close()
	synctest.Test(t, func(t *testing.T) {
		said := 0
		d := &device{fd: int(dir.Fd()), log: slog.New(counted{n: &said}), ended: make(chan struct{})}
		d.loops.Add(1)
		d.threads.Add(1)
		go d.loop()
		time.Sleep(time.Minute)
		synctest.Wait()
		if said < 10 || said > 100 {
			t.Errorf("%d failures in a minute", said)
		}
		if err := unix.Dup3(int(closed.Fd()), d.fd, unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		<-d.ended
		d.loops.Wait()
	})
}
