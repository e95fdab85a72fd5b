package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// smallDisk mounts a small ext4 file system.
func smallDisk(t *testing.T, megabytes int, mkfs ...string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting a file system needs root")
	}
	dir := t.TempDir()
	img, mnt := filepath.Join(dir, "img"), filepath.Join(dir, "mnt")
	if err := os.Mkdir(mnt, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%v: %v: %s", args, err, out)
		}
	}
	run("truncate", "-s", fmt.Sprintf("%dM", megabytes), img)
	run(append([]string{"mkfs.ext4", "-q", "-m", "0", img}, mkfs...)...)
	run("mount", "-o", "loop", img, mnt)
	t.Cleanup(func() {
		if out, err := exec.Command("umount", mnt).CombinedOutput(); err != nil {
			t.Errorf("umount: %s", out)
		}
	})
	return mnt
}

// On a full disk Apply returns an error and the process survives (Badger alone would die of
// SIGBUS). The store can be closed and opened, and works again when there is space.
func TestFullDisk(t *testing.T) {
	mnt := smallDisk(t, 200)
	dir := filepath.Join(mnt, "store")
	o := Options{Ballast: 32 * mib}
	s := open(t, dir, o)
	rnd := rand.New(rand.NewPCG(1, 1))
	batch := func(i int) []Change {
		var cs []Change
		for f := range 8 {
			cs = append(cs, file(OpWrite, Path(fmt.Sprintf("f%d-%d", i, f)), string(noise(rnd, 2000))))
		}
		return cs
	}
	n := 0
	for ; n < 500; n++ {
		_, err := s.Apply(context.Background(), batch(n), fmt.Append(nil, n))
		if errors.Is(err, ErrNoSpace) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if n == 500 || s.Stopped() == "" {
		t.Fatalf("%d batches and no end; stopped: %q", n, s.Stopped())
	}
	free, _, _ := s.room.Free()
	t.Logf("refused after %d batches with %d MiB free: %s", n, free/mib, s.Stopped())
	// Another process takes the rest.
	hog := filepath.Join(mnt, "hog")
	fill(t, hog)
	if _, err := s.Apply(context.Background(), batch(n), nil); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("apply on the full disk: %v", err)
	}
	if err := s.Notes.NoteGap(Gap{Path: "f", Reason: "full"}); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("a gap on the full disk: %v", err)
	}
	if got := contentOf(t, s, "f0-0"); len(got) == 0 {
		t.Fatal("nothing can be read")
	}
	if err := s.Close(); err != nil {
		t.Fatalf("close on the full disk: %v", err)
	}
	s = open(t, dir, o) // the released ballast makes room
	if _, err := s.Apply(context.Background(), batch(n), nil); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("apply after opening on the full disk: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	fill(t, hog+"2")
	if s, err := Open(dir, o); !errors.Is(err, ErrNoSpace) || Hint(err) == "" {
		t.Fatalf("open without any room: %v %v", s, err)
	}
	os.Remove(hog)
	os.Remove(hog + "2")
	s = open(t, dir, o)
	if string(s.Checkpoint()) != fmt.Sprint(n-1) {
		t.Fatalf("checkpoint %q, want %d", s.Checkpoint(), n-1)
	}
	if _, err := s.Apply(context.Background(), batch(n)[:1], nil); err != nil {
		t.Fatalf("apply with space again: %v", err)
	}
	if s.Stopped() != "" {
		t.Fatal("still stopped")
	}
	checked(t, s)
}

// A file system without free inodes used to fill up: Badger wrote the values of a batch, could not make
// the next file of its value log, and wrote them again at each retry.
func TestNoFreeInodes(t *testing.T) {
	mnt := smallDisk(t, 200, "-N", "64")
	s := open(t, filepath.Join(mnt, "store"), Options{Ballast: -1})
	var files []string
	for i := 0; ; i++ {
		name := filepath.Join(mnt, fmt.Sprint("f", i))
		if os.WriteFile(name, nil, 0o600) != nil {
			break
		}
		files = append(files, name)
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	large := func(name string) []Change { return []Change{file(OpWrite, Path(name), string(noise(rnd, 20_000)))} }
	for i := range 40 {
		if _, err := s.Apply(context.Background(), large(fmt.Sprint("a", i%8)), nil); !errors.Is(err, ErrNoSpace) {
			t.Fatalf("apply %d: %v", i, err)
		}
	}
	if used, _, err := s.DiskUsage(); err != nil || used > 8*mib {
		t.Errorf("the refused versions take up %d bytes, %v", used, err)
	}
	for _, name := range files {
		os.Remove(name)
	}
	if _, err := s.Apply(context.Background(), large("b"), nil); err != nil {
		t.Fatal(err)
	}
	checked(t, s)
}

// fill writes until the disk is full.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		return
	}
	defer f.Close()
	buf := make([]byte, 64<<10)
	for size := len(buf); size > 0; {
		if _, err := f.Write(buf[:size]); err != nil {
			size /= 2
		}
	}
}
