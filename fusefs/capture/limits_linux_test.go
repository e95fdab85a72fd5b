package capture

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cachebro/fusefs"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/spool"
)

// An operation that would destroy queued content stops waiting after 2 s, after 100 ms once the
// store has failed, or when the request is cancelled. The bytes that it then writes are not
// recorded as the earlier content, and the gap is reported.
func TestBarrierGivesUp(t *testing.T) {
	for _, c := range []struct {
		name     string
		healthy  bool
		cancel   bool
		min, max time.Duration
	}{
		{"healthy", true, false, waitHealthy, 2 * waitHealthy},
		{"failed", false, false, waitFailed, waitHealthy / 2},
		{"cancelled", true, true, 0, waitHealthy / 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, nil)
			h.slow.Store(int64(3 * time.Second)) // a source that hangs
			f := h.create("a", big)
			time.Sleep(50 * time.Millisecond) // by then a worker is copying the content
			h.c.SetHealthy(c.healthy, "test")
			cancel := make(chan struct{})
			if c.cancel {
				close(cancel)
			}
			start := time.Now()
			f.write(0, "destroyed", cancel)
			if d := time.Since(start); d < c.min || d > c.max {
				t.Errorf("waited %v", d)
			}
			h.slow.Store(0)
			f.close()
			log := h.log()
			wantVersions(t, log, "a", "destroyed"+big[9:])
			if g := gaps(log); len(g) != 1 || !strings.HasPrefix(g[0], "a: ") {
				t.Errorf("gaps: %q", g)
			}
			for _, e := range log {
				if e.Kind == spool.KindVersion && e.Op == event.OpCreate && !e.missing {
					t.Error("the version that was lost has a content")
				}
			}
			if st := h.c.Stats(); st.Gaps != 1 {
				t.Errorf("stats: %+v", st)
			}
		})
	}
}

// consumer reads and releases the spool as the daemon does.
type consumer struct {
	stop chan struct{}
	done chan struct{}
}

func consume(t testing.TB, dir string) *consumer {
	r, err := spool.OpenReader(dir, spool.Position{})
	if err != nil {
		t.Fatal(err)
	}
	c := &consumer{make(chan struct{}), make(chan struct{})}
	go func() {
		defer close(c.done)
		defer r.Close()
		for {
			for {
				rec, err := r.TryNext()
				if err != nil {
					t.Error(err)
				}
				if rec == nil || err != nil {
					break
				}
			}
			if err := r.Release(r.Position()); err != nil {
				t.Error(err)
			}
			select {
			case <-c.stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return c
}

func (c *consumer) end() { close(c.stop); <-c.done }

// The spool is at its cap because the store is behind. A close does not wait, and loses nothing. An
// operation that destroys content waits for the store.
func TestStoreIsBehind(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.MaxSpool = 1 << 20 })
	for i := 0; h.w.Size() <= 1<<20; i++ {
		h.create(fmt.Sprint("fill", i), big)
		time.Sleep(20 * time.Millisecond)
	}
	f := h.create("late", "late")
	unknown := h.file("unknown", "unknown")
	time.Sleep(50 * time.Millisecond)
	if st := h.c.Stats(); st.State != "capturing" || st.Queue == 0 {
		t.Fatalf("not at the cap: %+v", st)
	}
	start := time.Now()
	var daemon *consumer // starts again after a while
	up := make(chan struct{})
	time.AfterFunc(300*time.Millisecond, func() { daemon = consume(t, h.dir); close(up) })
	unknown.replace("x")
	f.replace("y")
	if d := time.Since(start); d < 200*time.Millisecond || d > waitHealthy {
		t.Errorf("the destroyers waited %v", d)
	}
	unknown.close()
	f.close()
	h.stop()
	if st := h.c.Stats(); st.Gaps != 0 {
		t.Errorf("%d gaps", st.Gaps)
	}
	<-up
	daemon.end()
}

// The state's file system fills up, and has room again later.
func TestDiskFull(t *testing.T) {
	mnt := smallDisk(t, 64<<20)
	h := &harness{t: t, root: t.TempDir(), dir: filepath.Join(mnt, "spool")}
	h.start(func(o *Options) { o.MinFree = 1 << 20 })
	h.create("before", "before")
	hog, err := os.Create(filepath.Join(mnt, "hog"))
	if err != nil {
		t.Fatal(err)
	}
	defer hog.Close()
	io.Copy(hog, zeros{})
	h.c.measured.Store(0) // capture may have looked at the free space just before the disk was full
	h.c.measure()
	h.create("kept", "kept 1") // this file is not touched while the disk is full
	lost := h.create("lost", "lost 1")
	start := time.Now()
	lost.replace("lost 2")
	if d := time.Since(start); d > time.Second {
		t.Errorf("on a full disk a write took %v", d)
	}
	h.create("gone", "gone 1").unlink() // our descriptor preserves its content, which is on another disk
	if st := h.c.Stats(); st.State != "stopped" || !strings.Contains(st.Reason, "no space") || st.Gaps != 1 {
		t.Errorf("full: %+v", st)
	}
	hog.Truncate(0)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if st := h.c.Stats(); st.State == "capturing" && st.Queue == 0 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("capture does not go on: %+v", st)
		}
	}
	lost.replace("lost 3")
	lost.close()
	log := h.log()
	wantVersions(t, log, "before", "before")
	wantVersions(t, log, "kept", "kept 1")
	wantVersions(t, log, "gone", "gone 1")
	wantVersions(t, log, "lost", "lost 3")
	if g := gaps(log); len(g) != 1 || !strings.HasPrefix(g[0], "lost: no space left") {
		t.Errorf("gaps: %q", g)
	}
	said := false
	for _, e := range log {
		said = said || e.Kind == spool.KindNotice && strings.Contains(e.Reason, "1 contents were not saved")
	}
	if !said {
		t.Error("the log does not say that capture was stopped")
	}
}

// If the files are on the spool's disk, descriptors do not preserve the contents of removed ones.
// Otherwise their removal would free nothing, and there would never be any room.
func TestRemovalFreesSpaceOnFullDisk(t *testing.T) {
	for _, when := range []string{"removed when the disk was full", "removed before"} {
		t.Run(when, func(t *testing.T) {
			h := newHarness(t, func(o *Options) { o.MaxSpool = 1 })
			h.create("first", "x") // the spool is now above its limit, so contents of files wait
			removed := h.create("removed", strings.Repeat(big, 10))
			full := func() {
				h.c.free.Store(0)
				h.c.measured.Store(1 << 62) // do not measure again
			}
			if when == "removed before" {
				removed.unlink()
				if st := h.c.Stats(); st.Held != 1 {
					t.Fatalf("before: %+v", st)
				}
				full()
			} else {
				full()
				removed.unlink()
			}
			for deadline := time.Now().Add(20 * time.Second); h.c.Stats().Held > 0; time.Sleep(20 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("a descriptor still takes up the space: %+v", h.c.Stats())
				}
			}
			if g := gaps(h.log()); len(g) == 0 || !strings.HasPrefix(g[0], "removed: no space left") {
				t.Errorf("gaps: %q", g)
			}
		})
	}
}

// A stopped capture leaves alone the space that is freed, until there is twice as much as it needs.
// It used to copy waiting contents as soon as it had enough for itself, and so took what the store
// needs to empty the spool.
func TestStoppedCaptureTakesNoSpace(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.MinFree = 8 << 20 })
	free := func(n int64) {
		h.c.free.Store(n)
		h.c.measured.Store(1 << 62) // do not measure again
	}
	free(0)
	h.file("a", "a 1").replace("a 2") // stops capture
	free(15 << 20)
	if err := h.c.roomy(); err == nil {
		t.Error("there is room for capture, but not for the store")
	}
	free(16 << 20)
	if err := h.c.roomy(); err != nil {
		t.Error(err)
	}
	h.c.tryResume()
	free(9 << 20)
	if err := h.c.roomy(); err != nil || h.c.isStopped() {
		t.Errorf("after capture continued: %v", err)
	}
}

// smallDisk mounts an ext4 of n bytes, or skips the test for users who may not.
func smallDisk(t *testing.T, n int64) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to mount a small disk")
	}
	dir := t.TempDir()
	img, mnt := filepath.Join(dir, "img"), filepath.Join(dir, "mnt")
	f, err := os.Create(img)
	if err != nil {
		t.Fatal(err)
	}
	f.Truncate(n)
	f.Close()
	os.Mkdir(mnt, 0o700)
	for _, args := range [][]string{{"mkfs.ext4", "-q", "-m", "0", img}, {"mount", "-o", "loop", img, mnt}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%v: %v %s", args, err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", mnt).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
	return mnt
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// BenchmarkSmallFile measures what capture adds to the cost of a small file that is overwritten,
// closed and renamed.
func BenchmarkSmallFile(b *testing.B) {
	h := newHarness(b, nil)
	cons := consume(b, h.dir)
	defer cons.end()
	f := h.file("a", strings.Repeat("x", 4096))
	st, _ := f.Stat()
	proc := h.by
	b.ReportAllocs()
	for b.Loop() {
		h.c.Before(fusefs.Change{File: f, Caller: proc, Op: event.OpWrite})
		h.c.Closed(fusefs.Closed{File: f, Caller: proc, Writer: proc, Op: event.OpWrite, Stat: st, Time: time.Now()})
		h.c.Done(fusefs.Event{Op: event.OpRename, File: f, Caller: proc, Path: "a", Path2: "a", Stat: st, Time: time.Now()})
	}
}
