package capture

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cachebro/store/leaf/spool"

	"golang.org/x/sys/unix"
)

// A version of a growing file may be stored as a tail, that is, only the bytes after the previous
// version. This is allowed only if the beginning of the file is the same as at the close of that
// version, however the file was changed in between.
func TestTailsStandOnTheirBeginnings(t *testing.T) {
	const seeds = 16
	m := mount(t, nil, nil)
	source, err := os.Open(m.src)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	// Another process works on the mount. This process serves the mount, so a page fault in a
	// mapping could wait for itself.
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "MOUNTD_TEST_TAILS="+m.dir, fmt.Sprint("MOUNTD_TEST_SEEDS=", seeds))
	cmd.ExtraFiles, cmd.Stderr = []*os.File{source}, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	log := m.end()
	states, closes := map[string]map[string]bool{}, map[string][]string{}
	for lines := bufio.NewScanner(strings.NewReader(string(out))); lines.Scan(); {
		var seed, what, sum string
		if _, err := fmt.Sscan(lines.Text(), &seed, &what, &sum); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		if states[seed] == nil {
			states[seed] = map[string]bool{}
		}
		states[seed][sum] = true
		// A file that was only emptied is reported when its last descriptor is closed, not earlier.
		if n := len(closes[seed]); what == "close" && sum != sumOf(nil) && (n == 0 || closes[seed][n-1] != sum) {
			closes[seed] = append(closes[seed], sum)
		}
	}
	tails := 0
	for n := range seeds {
		seed := fmt.Sprint(n)
		if len(closes[seed]) < 5 {
			t.Errorf("seed %s: %d closes", seed, len(closes[seed]))
		}
		var kept []string
		for _, e := range log {
			if e.Kind != spool.KindVersion || !e.HasContent || e.missing || filepath.Dir(e.Path) != seed {
				continue
			}
			sum := sumOf([]byte(e.content))
			if !states[seed][sum] {
				t.Errorf("seed %s: record %d, %s from byte %d: %d bytes that were never there", seed, e.Seq, e.Path, e.TailFrom, len(e.content))
			}
			if kept = append(kept, sum); e.TailFrom > 0 {
				tails++
			}
		}
		for at, missing := 0, closes[seed]; len(missing) > 0 && !beneath(n); missing = missing[1:] {
			i := slices.Index(kept[at:], missing[0])
			if i < 0 {
				t.Errorf("seed %s: close %d of %d is missing or in the wrong place", seed, len(closes[seed])-len(missing)+1, len(closes[seed]))
				break
			}
			at += i
		}
	}
	if tails < seeds { // otherwise there is nothing to test
		t.Errorf("%d tails", tails)
	}
}

// beneath reports whether this seed's process also writes to the source. Content that was not yet
// copied then becomes a gap.
func beneath(seed int) bool { return seed%4 == 3 }

func sumOf(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

// tailAgent is the process that works on the mount. It prints a checksum of each of its files after
// each operation and at each close.
func tailAgent(dir string, seeds int) error {
	for n := range seeds {
		a := &tailWriter{
			rng: rand.New(rand.NewSource(int64(n))), seed: n,
			name: filepath.Join(dir, fmt.Sprint(n), "f"), source: fmt.Sprintf("/proc/self/fd/3/%d/f", n),
		}
		err := os.Mkdir(filepath.Dir(a.name), 0o755)
		for range 120 {
			if err == nil {
				err = a.step()
			}
		}
		if err = errors.Join(err, a.closeAll()); err != nil {
			return fmt.Errorf("seed %d: %w", n, err)
		}
	}
	return nil
}

// tailWriter works on one file. It always reads the present content from the source.
type tailWriter struct {
	rng          *rand.Rand
	seed         int
	name, source string
	opened       []*os.File // open for writing, the oldest first
	count        int
}

func (a *tailWriter) say(what string) error {
	b, err := os.ReadFile(a.source)
	if err == nil {
		_, err = fmt.Println(a.seed, what, sumOf(b))
	}
	return err
}

func (a *tailWriter) closeAll() error {
	for len(a.opened) > 0 {
		if err := a.close(); err != nil {
			return err
		}
	}
	return nil
}

func (a *tailWriter) close() error {
	f := a.opened[0]
	a.opened = a.opened[1:]
	return errors.Join(f.Close(), a.say("close"))
}

func (a *tailWriter) text(n int) []byte {
	a.count++
	return []byte(strings.Repeat(fmt.Sprintf("%d/%d ", a.seed, a.count), n/4+1)[:n])
}

// step does one operation. Each operation is one request that changes bytes.
func (a *tailWriter) step() error {
	if len(a.opened) == 0 {
		flags := os.O_RDWR | os.O_CREATE
		if a.rng.Intn(2) == 0 {
			flags |= os.O_APPEND
		}
		f, err := os.OpenFile(a.name, flags, 0o644)
		if err != nil {
			return err
		}
		a.opened = append(a.opened, f)
		if fi, err := f.Stat(); err != nil || fi.Size() > 8<<10 {
			return err
		}
		if _, err := f.Write(a.text(10<<10 + a.rng.Intn(50<<10))); err != nil {
			return err
		}
		return a.close()
	}
	f := a.opened[a.rng.Intn(len(a.opened))]
	fd := int(f.Fd())
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	size := fi.Size()
	at := int64(0)
	if size > 0 {
		at = a.rng.Int63n(size)
	}
	some := a.rng.Intn(200) + 1
	write := func(name string, flags int, b []byte, off int64) error {
		g, err := os.OpenFile(name, flags, 0)
		if err != nil {
			return err
		}
		_, err = unix.Pwrite(int(g.Fd()), b, off)
		return errors.Join(err, g.Close())
	}
	closes, op := false, a.rng.Intn(24)
	switch {
	case op < 6: // appends, as for a log
		g, gerr := os.OpenFile(a.name, os.O_RDWR|os.O_APPEND, 0)
		if gerr != nil {
			return gerr
		}
		a.opened = append(a.opened, g)
		_, err = g.Write(a.text(some))
	case op < 12:
		if err = a.say("state"); err == nil {
			return a.close()
		}
	case op == 12: // the file is cut and grows again within one open
		if err = f.Truncate(at); err == nil {
			err = a.say("state")
		}
		if err == nil {
			_, err = unix.Pwrite(fd, a.text(int(size-at)+some), at)
		}
	case op == 13:
		err = f.Truncate(size + int64(some))
	case op == 14:
		_, err = unix.Pwrite(fd, a.text(some), at) // an appending descriptor writes at the end
	case op == 15: // through another descriptor
		closes, err = true, write(a.name, os.O_WRONLY, a.text(some), at)
	case op == 16 && size > 0: // through a mapping, whose pages are written at an unknown time
		page := at &^ 4095
		b, merr := unix.Mmap(fd, page, int(min(4096, size-page)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if merr != nil {
			return merr
		}
		copy(b[at-page:], a.text(some))
		err = unix.Munmap(b)
	case op == 17:
		if err = unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, int64(some)); err == unix.EOPNOTSUPP {
			err = nil
		}
	case op == 18:
		for _, mode := range []uint32{unix.FALLOC_FL_ZERO_RANGE, unix.FALLOC_FL_COLLAPSE_RANGE, unix.FALLOC_FL_INSERT_RANGE, 0} {
			err = unix.Fallocate(fd, mode, at&^4095, 4096)
			if serr := a.say("state"); serr != nil {
				return serr
			}
			if err == unix.EOPNOTSUPP || err == unix.EINVAL { // the kernel does not pass all of these modes on to FUSE
				err = nil
			}
		}
	case op == 19:
		from, to := a.rng.Int63n(size+1), at
		g, gerr := os.OpenFile(a.name, os.O_WRONLY, 0)
		if gerr != nil {
			return gerr
		}
		if n := min(some, int(size-from)); from < to-int64(n) || from > to+int64(n) {
			_, err = unix.CopyFileRange(fd, &from, int(g.Fd()), &to, n, 0)
		}
		closes, err = true, errors.Join(err, g.Close())
	case op == 20: // under another name
		other := filepath.Join(filepath.Dir(a.name), "g")
		if err = os.Link(a.name, other); err == nil {
			err = errors.Join(write(other, os.O_WRONLY, a.text(some), at), a.say("close"), os.Remove(other))
		}
	case op == 21: // another process empties or cuts the file
		if a.rng.Intn(2) == 0 {
			at = 0
		}
		err = exec.Command("truncate", "-s", fmt.Sprint(at), a.name).Run()
		closes = true
	case op == 22: // another file takes its place, or it is absent for a moment
		other := filepath.Join(filepath.Dir(a.name), "h")
		if a.rng.Intn(2) == 0 {
			err = errors.Join(os.Rename(a.name, other), os.Rename(other, a.name))
			break
		}
		fresh := a.text(8<<10 + some)
		if err = os.WriteFile(other, fresh, 0o644); err != nil {
			return err
		}
		fmt.Println(a.seed, "state", sumOf(fresh))
		if err = errors.Join(a.say("state"), os.Rename(other, a.name)); err != nil {
			return err
		}
		for _, g := range a.opened { // the file has lost its name, so the test would not see what these write
			err = errors.Join(err, g.Close())
		}
		a.opened = nil
	default:
		err = f.Chmod(0o600 | os.FileMode(a.rng.Intn(8)))
	}
	if err == nil && beneath(a.seed) && a.rng.Intn(3) == 0 {
		if err = a.say("state"); err == nil {
			err = a.beneath(a.text(some), at)
		}
	}
	if err != nil {
		return fmt.Errorf("operation %d at %d of %d: %w", op, at, size, err)
	}
	if closes {
		return a.say("close")
	}
	return a.say("state")
}

// beneath writes to the source until the file's times have changed, because writes within one tick
// of the clock get the same times.
func (a *tailWriter) beneath(b []byte, at int64) error {
	f, err := os.OpenFile(a.source, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(writeBeneath(f, b, at), f.Close())
}

func writeBeneath(f *os.File, b []byte, at int64) error {
	var was, is unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &was); err != nil {
		return err
	}
	for is = was; is.Ctim == was.Ctim; {
		_, err := f.WriteAt(b, at)
		if err := errors.Join(err, unix.Fstat(int(f.Fd()), &is)); err != nil {
			return err
		}
	}
	return nil
}

// A process appends to a file, another process writes to the source directly, and then the first
// process closes the file. The version of that close contains the bytes written to the source.
func TestTailStandsOnWhatIsThereAtTheClose(t *testing.T) {
	m := mount(t, nil, nil)
	start := strings.Repeat("a", 10<<10)
	want := map[string][]string{}
	for _, last := range []bool{false, true} { // if last is set, the process itself writes nothing after the write to the source
		name := fmt.Sprint("log", last)
		if err := os.WriteFile(filepath.Join(m.dir, name), []byte(start), 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(filepath.Join(m.dir, name), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		under, err := os.OpenFile(filepath.Join(m.src, name), os.O_RDWR, 0)
		if err != nil {
			t.Error(err)
		}
		for k := range 3 {
			// Content that still waits to be copied would be lost by the next write, so wait.
			for deadline := time.Now().Add(time.Minute); m.c.Stats().Queue > 0; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Error("the content is not copied")
					break
				}
			}
			_, err := f.WriteString("one\n")
			uerr := writeBeneath(under, []byte(fmt.Sprint("OUT", k)), int64(100+10*k))
			if !last {
				_, werr := f.WriteString("two\n")
				err = errors.Join(err, werr)
			}
			if err := errors.Join(err, uerr, closeOnce(f)); err != nil {
				t.Error(err)
			}
			b, err := os.ReadFile(filepath.Join(m.src, name))
			if err != nil {
				t.Error(err)
			}
			want[name] = append(want[name], string(b))
		}
		if err := errors.Join(f.Close(), under.Close()); err != nil { // also because the mount cannot end while the files are open
			t.Error(err)
		}
	}
	log := m.end()
	wantNoGaps(t, log)
	for name, contents := range want {
		if all := versions(log, name); !slices.Equal(all, append([]string{start}, contents...)) {
			t.Errorf("%s: versions %s, want %s", name, short(all), short(contents))
		}
	}
}
