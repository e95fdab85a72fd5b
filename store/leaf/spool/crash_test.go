package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cachebro/store/leaf/event"
)

// crashingWriter runs in a child process, which is killed. It appends versions with content from
// four goroutines, and afterwards reports on stdout what it has appended.
func crashingWriter(dir string) {
	w, err := OpenWriter(dir, Options{SegmentSize: 64 << 10, ContentSize: 256 << 10, Boot: "b"})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	for g := range 4 {
		go func() {
			for {
				rec := &Record{Kind: KindVersion, HasContent: true, Path: fmt.Sprint(g)}
				if _, err := w.Append(rec); err != nil {
					fmt.Println("error", err)
				}
				if err := writeContent(w, rec.Seq, contentOf(rec.Seq)); err != nil {
					fmt.Println("error", err)
				}
				syscall.Write(1, []byte(fmt.Sprintf("%d\n", rec.Seq)))
			}
		}()
	}
	select {}
}

func contentOf(seq uint64) []byte {
	return bytes.Repeat([]byte(fmt.Sprintf("%d,", seq)), int(seq%200))
}

// Everything that was appended before kill -9 is there, with its content, whenever the kill
// happens.
func TestKillNine(t *testing.T) {
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	rng := rand.New(rand.NewSource(1))
	dir := t.TempDir()
	var pos Position
	total := 0
	for range rounds {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "SPOOL_TEST_WRITER="+dir)
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(20+rng.Intn(60)) * time.Millisecond)
		cmd.Process.Kill()
		cmd.Wait()
		said := map[uint64]bool{}
		for _, line := range strings.Split(out.String(), "\n") {
			var seq uint64
			if strings.HasPrefix(line, "error") {
				t.Fatal(line)
			}
			if _, err := fmt.Sscan(line, &seq); err == nil {
				said[seq] = true
			}
		}
		r := readerTest(t, dir, pos)
		j := NewJoiner(r)
		for {
			x, ok, err := j.TryNext()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			if x.Record.Kind == KindContent {
				continue
			}
			if missing(x) && said[x.Record.Seq] {
				t.Fatalf("content of %d was in the spool and is missing", x.Record.Seq)
			}
			if !missing(x) {
				if !bytes.Equal(x.Content, contentOf(x.Record.Seq)) {
					t.Fatalf("content of %d: %d bytes", x.Record.Seq, len(x.Content))
				}
			}
			delete(said, x.Record.Seq)
			total++
		}
		for seq := range said {
			t.Fatalf("record %d was appended but is missing", seq)
		}
		pos = j.Checkpoint()
		if err := r.Release(pos); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d rounds, %d versions", rounds, total)
}

// smallDisk mounts an ext4 file system of n bytes, or skips the test for users who may not.
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
	if out, err := exec.Command("mkfs.ext4", "-q", "-m", "0", img).CombinedOutput(); err != nil {
		t.Skipf("mkfs.ext4: %v %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", img, mnt).CombinedOutput(); err != nil {
		t.Skipf("mount: %v %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", mnt).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
	return mnt
}

// On a full disk, writing a content fails with ENOSPC, but records such as gaps still fit into the
// preallocated space. Everything works again when there is space.
func TestDiskFull(t *testing.T) {
	mnt := smallDisk(t, 48<<20)
	dir := filepath.Join(mnt, "spool")
	w, err := OpenWriter(dir, Options{SegmentSize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		w.mu.Lock()
		ok := w.spare
		w.mu.Unlock()
		if ok {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no spare segment")
		}
	}
	hog, err := os.Create(filepath.Join(mnt, "hog"))
	if err != nil {
		t.Fatal(err)
	}
	defer hog.Close()
	if _, err := io.Copy(hog, zeros{}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk: %v", err)
	}
	hog.Sync()
	if _, err := io.Copy(hog, zeros{}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk: %v", err)
	}
	err = writeContent(w, 1, make([]byte, 1<<20))
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("content on a full disk: %v", err)
	}
	n := 0
	for ; ; n++ {
		if _, err = w.Append(&Record{Kind: KindGap, Path: strings.Repeat("p", 200), Reason: "no space left"}); err != nil {
			break
		}
	}
	if !errors.Is(err, syscall.ENOSPC) || n < 5000 {
		t.Fatalf("%d gaps fitted, then %v", n, err)
	}
	hog.Truncate(0)
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err = w.Append(&Record{Kind: KindNotice, Reason: "space again"}); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if err := writeContent(w, 7, make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Sync(w.LastSeq()); err != nil {
		t.Fatal(err)
	}
	r := readerTest(t, dir, Position{})
	defer r.Close()
	if got := drain(t, r); len(got) != n+2 || got[n].Reason != "space again" {
		t.Errorf("%d records, want %d", len(got), n+2)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func BenchmarkAppend(b *testing.B) {
	w := openTest(b, b.TempDir(), Options{})
	rec := &Record{Kind: KindVersion, Op: event.OpWrite, Time: time.Now().UnixNano(), Path: "src/pkg/file_name.go", Node: 12345,
		Stat: event.Stat{Dev: 1, Ino: 1 << 20, Birth: time.Now().UnixNano(), Mode: 0o100644, Nlink: 1, UID: 1000, GID: 1000, Size: 4096, Mtime: time.Now().UnixNano(), Ctime: time.Now().UnixNano(), Attrs: ""},
		PID:  4242, Start: 123456, HasContent: true}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.Append(rec); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkContent(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dk", size>>10), func(b *testing.B) {
			dir := b.TempDir()
			w := openTest(b, dir, Options{})
			r := readerTest(b, dir, Position{})
			p := bytes.Repeat([]byte("x"), size)
			b.SetBytes(int64(size))
			n := 0
			for b.Loop() {
				if err := writeContent(w, 1, p); err != nil {
					b.Fatal(err)
				}
				if n += size; n > 256<<20 { // keep the disk use bounded
					b.StopTimer()
					drain(b, r)
					if err := r.Release(r.Position()); err != nil {
						b.Fatal(err)
					}
					n = 0
					b.StartTimer()
				}
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	w := openTest(b, dir, Options{})
	for range 200_000 {
		if _, err := w.Append(fullRecord()); err != nil {
			b.Fatal(err)
		}
	}
	w.Close()
	r := readerTest(b, dir, Position{})
	for b.Loop() {
		rec, err := r.TryNext()
		if err != nil {
			b.Fatal(err)
		}
		if rec == nil {
			r = readerTest(b, dir, Position{})
		}
	}
}
