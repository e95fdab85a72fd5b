package capture

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cachebro/fusefs"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/spool"
)

// mounted is a project under a real overlay with a real Capture.
type mounted struct {
	t   *testing.T
	dir string // the mountpoint
	src string // the source directory, which bypasses the mount
	log string // the spool
	c   *Capture
	end func() []entry
}

func mount(t *testing.T, files map[string]string, change func(*Options)) *mounted {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		if os.Getenv("CACHEBRO_NEED_FUSE") == "1" {
			t.Fatal("no /dev/fuse, and CACHEBRO_NEED_FUSE is set")
		}
		t.Skip("no /dev/fuse")
	}
	m := &mounted{t: t, dir: t.TempDir(), log: t.TempDir()}
	for name, text := range files {
		full := filepath.Join(m.dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	source, err := os.Open(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	m.src = fmt.Sprintf("/proc/self/fd/%d", source.Fd())
	matcher, err := ignore.New(source, ignore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := spool.OpenWriter(m.log, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Spool: w, Matcher: matcher, Root: source}
	if change != nil {
		change(&o)
	}
	m.c = New(o)
	srv, err := fusefs.Mount(fusefs.Options{Source: source, Mountpoint: m.dir, Observer: m.c, Classifier: matcher, AllowOther: os.Geteuid() == 0})
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	stop := func() {
		if err := srv.Unmount(); err != nil {
			t.Errorf("unmount: %v", err)
			_ = fusefs.Detach(m.dir)
		}
		srv.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := m.c.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		w.Close()
		matcher.Close()
		source.Close()
	}
	t.Cleanup(func() { once.Do(stop) })
	m.end = func() []entry { once.Do(stop); return readLog(t, m.log) }
	return m
}

func (m *mounted) sh(script string) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	// The script changes directory, instead of cmd.Dir. With cmd.Dir, the child would enter the
	// mount before its exec, and until the exec this process, which serves the mount, is blocked.
	cmd := exec.CommandContext(ctx, "sh", "-e", "-c", `cd "$0"; `+script, m.dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		m.t.Fatalf("%s\n%v\n%s", script, err, out)
	}
}

// Everyday tools change files: each earlier content is saved, with the author of the change.
func TestToolsOnTheMount(t *testing.T) {
	m := mount(t, map[string]string{
		"sed.txt": "one\ntwo\n", "save.txt": "before\n", "rm.txt": "deleted\n", "dir/a": "a\n", "trunc": big, "forced.log": "tracked by nothing\n",
		".gitignore": "*.log\nnode_modules/\n", "package.json": "{}", "node_modules/x/index.js": "x", ".env": "SECRET=1\n", "sub/we ird\n\xffname": "odd\n",
	}, nil)
	m.sh(`sed -i s/one/ONE/ sed.txt
printf 'after\n' > save.txt.tmp; mv save.txt.tmp save.txt
mv dir moved; printf 'b\n' >> moved/a
rm rm.txt
: > trunc
truncate -s 0 .env
printf 'gone' > forced.log; rm forced.log
rm -rf node_modules
printf x > "$(printf 'sub/we ird\n\377name')"
(printf '1'; sleep 0.1; printf '2') > slow
mkfifo fifo; ln -s sed.txt link; mkdir d; rmdir d; chmod 600 save.txt`)
	log := m.end()
	wantNoGaps(t, log)
	all := map[string]string{}
	comm := map[uint32]string{}
	for _, e := range log {
		switch e.Kind {
		case spool.KindProcess:
			comm[e.PID] = e.Comm
		case spool.KindVersion:
			p := e.Path
			if e.Path2 != "" {
				p += " > " + e.Path2
			}
			line := fmt.Sprintf("%d", e.Op)
			if e.HasContent {
				if e.missing {
					t.Errorf("%s: content is missing", p)
				}
				line += fmt.Sprintf(" %s", short([]string{e.content}))
			}
			all[p] += strings.TrimSpace(line) + " by " + comm[e.PID] + "; "
		case spool.KindNotice:
			all["notice"] += e.Reason + "; "
		}
	}
	for p, want := range map[string][]string{
		"save.txt":                 {`14 "before\n"`, `12 by chmod`},
		"rm.txt":                   {`"deleted\n"`, "8 by rm"},
		"sed.txt":                  {`"one\ntwo\n"`},
		"save.txt.tmp":             {`2 "after\n" by sh`},
		"save.txt.tmp > save.txt":  {"5 by mv"},
		"dir > moved":              {"5 by mv"},
		"moved/a":                  {`"a\n"`, `"a\nb\n"`},
		"trunc":                    {"0123456789ab…320000", `""`},
		".env":                     {`"SECRET=1\n"`, `3 "" by truncate`},
		"forced.log":               {`"tracked by`, "8 by rm"},
		"sub/we ird\n\xffname":     {`"odd\n"`, `"x"`},
		"slow":                     {`"12"`},
		"fifo":                     {"13 by mkfifo"},
		"link":                     {"9 by ln"},
		"d":                        {"10 by mkdir", "11 by rmdir"},
		"notice":                   {"node_modules (excluded) was deleted; its content is not in the history; "},
		"node_modules/x/index.js":  {},
		"node_modules":             {"11 by rm"},
		"node_modules/x":           {},
		"save.txt > save.txt.tmp":  {},
		"moved/a > something else": {},
	} {
		got, ok := all[p]
		if ok && len(want) == 0 {
			t.Errorf("%q should not be recorded: %s", p, got)
		}
		at := 0
		for _, s := range want {
			i := strings.Index(got[at:], s)
			if i < 0 {
				t.Errorf("%q: %s\nlacks, in order: %s", p, got, s)
				break
			}
			at += i
		}
	}
	if all["notice"] != "node_modules (excluded) was deleted; its content is not in the history; " {
		t.Errorf("notices: %s", all["notice"])
	}
}

// Appending to a growing file adds only the appended bytes to the spool, even while the file is
// small.
func TestGrowingFileCostsWhatIsAppended(t *testing.T) {
	m := mount(t, nil, nil)
	line := strings.Repeat("x", 199) + "\n"
	for i := range 500 {
		f, err := os.OpenFile(filepath.Join(m.dir, "log"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteString(fmt.Sprintf("%04d%s", i, line[4:]))
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	log := m.end()
	wantNoGaps(t, log)
	all := versions(log, "log")
	if len(all) != 500 {
		t.Errorf("%d versions of 500", len(all))
	}
	for i, v := range all {
		if len(v) != (i+1)*len(line) || !strings.HasPrefix(v[i*len(line):], fmt.Sprintf("%04dxx", i)) {
			t.Fatalf("version %d is %s", i, short([]string{v}))
		}
	}
	spooled := int64(0)
	err := filepath.WalkDir(m.log, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var fi fs.FileInfo
			if fi, err = d.Info(); err == nil {
				spooled += fi.Size()
			}
		}
		return err
	})
	if err != nil || spooled > 3<<20 { // storing whole contents of up to 64 KiB took 13 MB
		t.Errorf("%d bytes in the spool for %d that were appended (%v)", spooled, 500*len(line), err)
	}
}

// Bytes written directly to the source while a handle was open are in the next version. That
// version is stored in full, not as a tail, because the beginning of the file has changed.
func TestTailStandsOnWhatIsThere(t *testing.T) {
	m := mount(t, nil, nil)
	for _, size := range []int{3 << 10, 10 << 10, 100 << 10} {
		name := fmt.Sprint("log", size)
		if err := os.WriteFile(filepath.Join(m.dir, name), []byte(strings.Repeat("a", size)), 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(filepath.Join(m.dir, name), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		for k := range 3 {
			// Content that still waits to be copied would be lost by the next write, so wait.
			for deadline := time.Now().Add(time.Minute); m.c.Stats().Queue > 0; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Error("the content is not copied")
					break
				}
			}
			under, err := os.OpenFile(filepath.Join(m.src, name), os.O_WRONLY, 0)
			if err == nil {
				_, err = under.WriteAt([]byte(fmt.Sprint("OUT", k)), int64(100+10*k))
				err = errors.Join(err, under.Close())
			}
			_, werr := f.WriteString("more\n")
			if err := errors.Join(err, werr, closeOnce(f)); err != nil {
				t.Error(err)
			}
		}
		if err := f.Close(); err != nil { // also because the mount cannot end while the file is open
			t.Error(err)
		}
	}
	log := m.end()
	for _, size := range []int{3 << 10, 10 << 10, 100 << 10} {
		all := versions(log, fmt.Sprint("log", size))
		for k := range 3 {
			want := strings.Repeat("a", size) + strings.Repeat("more\n", k+1)
			for i := range k + 1 {
				at := 100 + 10*i
				want = want[:at] + fmt.Sprint("OUT", i) + want[at+4:]
			}
			if !slices.Contains(all, want) {
				t.Errorf("size %d: what was there at close %d is in no version: %s", size, k, short(all))
			}
		}
	}
}

// closeOnce closes another descriptor of f, so that the present content becomes a version.
func closeOnce(f *os.File) error {
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		return err
	}
	return syscall.Close(fd)
}

// Several processes write on a real mount, and the queue is short. Everything that each process
// wrote and closed is in the log, in order, and the mount equals the source.
func TestRandomWritersOnTheMount(t *testing.T) {
	m := mount(t, nil, func(o *Options) { o.MaxQueue = 8 })
	var wg sync.WaitGroup
	want := make([][]string, 6)
	for g := range want {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rng := rand.New(rand.NewSource(int64(g)))
			p := filepath.Join(m.dir, fmt.Sprint("f", g))
			check := func(err error) {
				if err != nil {
					t.Error(err)
				}
			}
			text := ""
			for i := range 120 {
				fresh := strings.Repeat(fmt.Sprintf("%d.%d ", g, i), 1+rng.Intn(100)*rng.Intn(400)*rng.Intn(2))
				switch rng.Intn(5) {
				case 0, 1:
					text = fresh
					check(os.WriteFile(p, []byte(text), 0o644))
				case 2:
					f, err := os.OpenFile(p, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
					check(err)
					_, err = f.WriteString("+")
					check(err)
					check(f.Close())
					text += "+"
				case 3:
					check(os.WriteFile(p+".new", []byte(fresh), 0o644))
					check(os.Rename(p+".new", p))
					text = fresh
					continue
				default:
					if err := os.Remove(p); err != nil && !os.IsNotExist(err) {
						t.Error(err)
					}
					text = ""
					continue
				}
				want[g] = append(want[g], text)
			}
		}()
	}
	wg.Wait()
	log := m.end()
	wantNoGaps(t, log)
	for g := range want {
		p := fmt.Sprint("f", g)
		// If a signal interrupts an open with O_TRUNC, the truncation is done, the file is closed
		// and the call is repeated. So there may be empty versions in between.
		filled := log[:0:0]
		for _, e := range log {
			if e.content != "" {
				filled = append(filled, e)
			}
		}
		wantVersions(t, filled, p, want[g]...)
	}
}

// Content that is still queued when the overlay ends is saved, although the overlay has closed its
// directories by then.
func TestQueuedAtTheEndOfTheMount(t *testing.T) {
	m := mount(t, map[string]string{"sub/x": ""}, nil)
	for i := range 200 {
		if err := os.WriteFile(filepath.Join(m.dir, "sub", fmt.Sprint(i)), []byte(big), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	log := m.end()
	wantNoGaps(t, log)
	for i := range 200 {
		wantVersions(t, log, fmt.Sprint("sub/", i), big)
	}
}

// A writer is killed with SIGKILL, and descriptors outlive the names of their files.
func TestDeletedWhileOpenOnTheMount(t *testing.T) {
	m := mount(t, map[string]string{"a": "first"}, nil)
	f, err := os.OpenFile(filepath.Join(m.dir, "a"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("SECOND"), 0); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Unlink(filepath.Join(m.dir, "a")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("nameless"), 0); err != nil {
		t.Fatal(err)
	}
	f.Close()
	log := m.end()
	wantNoGaps(t, log)
	wantVersions(t, log, "a", "first", "SECOND")
}

// Content that is written to a file after a plan removed its last name is saved under a special
// name. A notice in the log reports this once. Temporary files of other programs are not saved.
func TestWrittenAfterItsNameWasTaken(t *testing.T) {
	m := mount(t, map[string]string{"unlinked": "1", "replaced": "1", "x": "other", "temporary": "1"}, nil)
	at := func(p string) string { return filepath.Join(m.dir, p) }
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, take := range map[string]func() error{
		"unlinked":  func() error { return os.Remove(at("unlinked")) }, // by this program, as a plan would
		"replaced":  func() error { return os.Rename(at("x"), at("replaced")) },
		"temporary": func() error { m.sh("rm temporary"); return nil },
	} {
		f, err := os.OpenFile(at(name), os.O_RDWR, 0)
		check(err)
		check(take())
		for _, text := range []string{"late", big} {
			_, err = f.WriteAt([]byte(text), 1)
			check(err)
			fd, err := syscall.Dup(int(f.Fd())) // closing this copy counts as a close of the file
			check(err)
			check(syscall.Close(fd))
		}
		check(f.Close())
	}
	log := m.end()
	wantNoGaps(t, log)
	const late = " (written after its name was taken)"
	wantVersions(t, log, "unlinked"+late, "1late", "1"+big)
	wantVersions(t, log, "replaced"+late, "1late", "1"+big)
	wantVersions(t, log, "temporary"+late)
	wantVersions(t, log, "replaced", "1")
	notices, gone := 0, 0
	for _, e := range log {
		if e.Kind == spool.KindNotice && strings.Contains(e.Reason, "was taken") {
			notices++
		}
		if e.Kind == spool.KindVersion && e.Op == event.OpUnlink && strings.HasSuffix(e.Path, late) {
			gone++
		}
	}
	if notices != 2 || gone != 4 {
		t.Errorf("%d notices of 2 files, %d of 4 contents are gone again", notices, gone)
	}
}
