//go:build linux

package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	packed    = 10_000   // files in the archive that is unpacked; many packages have about as many
	bigFile   = 24 << 20 // smaller than the limit above which content is not kept
	randomOps = 2000
)

// bigTasks returns tasks that take seconds each and therefore run fewer times.
func bigTasks() []task {
	ms, us := time.Millisecond, time.Microsecond
	big := func(dir string) string { return filepath.Join(dir, "bench-big") }
	scratch := func(dir string) string { return filepath.Join(dir, "bench-scratch") }
	archive := func(dir string) string { return filepath.Join(filepath.Dir(dir), "packages.tar") }
	remove := func(dir string) error {
		return errors.Join(os.RemoveAll(scratch(dir)), os.RemoveAll(filepath.Join(dir, "bench-project")), os.RemoveAll(big(dir)))
	}
	write := func(dir string) error { return writeBig(big(dir)) }
	build := func(dir string) error {
		return command(filepath.Join(dir, "bench-project"), "env", "GOCACHE="+dir+".gocache", "GOFLAGS=-mod=mod", "GOWORK=off", "go", "build", "-o", os.DevNull, ".")
	}
	cold := func(dir string) error { return errors.Join(os.RemoveAll(dir+".gocache"), project(dir)) }
	warm := func(dir string) error { return errors.Join(project(dir), build(dir)) }
	return []task{
		{name: fmt.Sprintf("tar x of %d files", packed), unit: ms, ops: 1, few: 1, run: func(dir string) error {
			if err := os.MkdirAll(scratch(dir), 0o755); err != nil {
				return err
			}
			return command(scratch(dir), "tar", "xf", archive(dir))
		}, prepare: func(dir string) error { return pack(archive(dir)) }, cleanup: remove},
		{name: "go build, cold", unit: ms, ops: 1, few: 1, prepare: cold, run: build},
		{name: "go build, warm", unit: ms, ops: 1, few: 3, prepare: warm, run: build, cleanup: remove},
		{name: "write 24 MiB and fsync", unit: ms, ops: 1, few: 3, run: write},
		{name: "read 24 MiB, uncached", unit: ms, ops: 1, few: 3, prepare: write, run: func(dir string) error { return readBig(big(dir)) }},
		{name: "read 4 KiB at random, uncached", unit: us, ops: randomOps, few: 3, prepare: write, run: func(dir string) error { return readAtRandom(big(dir)) }, cleanup: remove},
	}
}

// pack makes the archive unless it exists.
func pack(name string) error {
	if _, err := os.Stat(name); err == nil {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	w := tar.NewWriter(f)
	for i := range packed {
		text := content(i)[:300+i*37%3700]
		h := tar.Header{Name: fmt.Sprintf("pkg%03d/lib/%d/f%d.js", i/40, i%4, i), Mode: 0o644, Size: int64(len(text))}
		if err := w.WriteHeader(&h); err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), f.Sync())
}

// project makes a small module that uses a good part of the standard library.
func project(dir string) error {
	p := filepath.Join(dir, "bench-project")
	if err := os.MkdirAll(p, 0o755); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(p, "go.mod"), []byte("module bench\n\ngo 1.24\n"), 0o644),
		os.WriteFile(filepath.Join(p, "main.go"), []byte("package main\n\nimport (\n\t\"encoding/json\"\n\t\"os\"\n\t\"text/tabwriter\"\n)\n\nfunc main() {\n\t_ = json.NewEncoder(tabwriter.NewWriter(os.Stdout, 0, 8, 1, ' ', 0)).Encode(os.Args)\n}\n"), 0o644))
}

func writeBig(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	buf := make([]byte, 1<<20)
	rand.New(rand.NewSource(1)).Read(buf)
	for range bigFile / len(buf) {
		if _, err := f.Write(buf); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(f.Sync(), f.Close())
}

// uncached opens a file and drops its pages from the page cache of this mount. The kernel may still
// have cached pages of the same file in the source.
func uncached(name string) (*os.File, error) {
	f, err := os.Open(name)
	if err == nil {
		err = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	}
	return f, err
}

func readBig(name string) error {
	f, err := uncached(name)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := make([]byte, 1<<20)
	for {
		if _, err := f.Read(buf); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
	}
}

func readAtRandom(name string) error {
	f, err := uncached(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM); err != nil {
		return err
	}
	rng, buf := rand.New(rand.NewSource(2)), make([]byte, 4096)
	for range randomOps {
		if _, err := f.ReadAt(buf, rng.Int63n(bigFile/4096)*4096); err != nil {
			return err
		}
	}
	return nil
}

// fullQueue measures what a close costs while eight writers together write more than the store can
// take. A close then waits for the store, but only for a limited time. The measurement shows that
// limit.
func fullQueue(labels, dirs []string) error {
	const (
		writers = 8
		each    = 250
		size    = 128 << 10
	)
	for i, dir := range dirs {
		top := filepath.Join(dir, "bench-queue")
		if err := os.MkdirAll(top, 0o755); err != nil {
			return err
		}
		var (
			wg    sync.WaitGroup
			mu    sync.Mutex // guards took and first
			took  []time.Duration
			first error
		)
		for w := range writers {
			wg.Go(func() {
				buf := make([]byte, size)
				rng := rand.New(rand.NewSource(int64(w)))
				for n := range each {
					rng.Read(buf) // random bytes, which do not compress and are new to the store
					d, err := closeOf(filepath.Join(top, fmt.Sprintf("w%d-%d", w, n%50)), buf)
					mu.Lock()
					took = append(took, d)
					if first == nil {
						first = err
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if err := errors.Join(first, os.RemoveAll(top)); err != nil {
			return err
		}
		quantiles("close, 8 writers, "+labels[i], took)
	}
	return nil
}

func closeOf(name string, text []byte) (time.Duration, error) {
	f, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	if _, err := f.Write(text); err != nil {
		return 0, errors.Join(err, f.Close())
	}
	start := time.Now()
	err = f.Close()
	return time.Since(start), err
}
