//go:build linux

package main

import (
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// trial is the tree of one seed, and the outcome of the test with it.
type trial struct {
	seed   int64
	name   string // name of the trial's directory
	script script
	given  bool // script is given; if false, try makes up a script
	live   bool
	net    bool   // the tree is not mounted, and the agent runs under "cachebro run"
	blind  string // the kinds of differences that do not count, separated by commas
	// excluded means that the tree may have directories that the history excludes. Their content is
	// never saved.
	excluded bool

	dir, source, git string
	opened           map[string]os.FileInfo // by handle; without handles that only append
	namesEver        map[uint64][]string    // by inode: all names that it had after any operation
	wasNameless      map[uint64]bool        // inodes that had no name after some operation
	now              map[uint64][]string    // by inode: the names that it had after the last operation
	escaped          map[uint64][]string    // by inode: the names in excluded directories that it lost when it got a name outside of them
	everExisted      map[string]bool        // all paths that existed after some operation; true if the path was missing after a later one
	gitLed           map[string]uint64      // by name in .git: the inode that it first led to
	gitLost          map[string]bool        // names in .git that led to another inode, or to none, after some operation
	wasInside        map[[2]uint64]bool     // pairs of inodes: a directory, and a file that was in it after some operation
	wrong            []string               // descriptions of the differences that no output reports
	kind             string                 // kind of the first difference in wrong
	named            int                    // number of differences that an output reports
	outputs          []string
	start, end       *snapshot // state before the first operation, and before the first undo
}

// twins tries the given number of seeds. Several seeds share a mount.
func twins(s settings) error {
	if os.Geteuid() != 0 {
		return errors.New("twin needs root: it works as three users")
	}
	if _, err := os.Stat("/dev/fuse"); s.net && err == nil && os.Getenv(withoutFuse) == "" {
		return enterWithoutFuse()
	}
	begun := time.Now()
	var mu sync.Mutex
	var bad []*trial
	kindsOf := map[string][]int64{}
	named, tried := 0, 0
	var errs []error
	batches := make(chan []*trial)
	var wg sync.WaitGroup
	for range max(1, s.side) {
		wg.Go(func() {
			for ts := range batches {
				err := s.batch(ts)
				mu.Lock()
				if err != nil {
					errs = append(errs, err)
				}
				for _, t := range ts {
					tried++
					named += min(t.named, 1)
					if len(t.wrong) == 0 {
						continue
					}
					bad = append(bad, t)
					kindsOf[t.kind] = append(kindsOf[t.kind], t.seed)
					fmt.Printf("seed %d: %s\n", t.seed, strings.Join(t.wrong, "\n    "))
				}
				mu.Unlock()
			}
		})
	}
	for i := 0; i < s.seeds; i += batchSize {
		var ts []*trial
		for j := i; j < min(s.seeds, i+batchSize); j++ {
			ts = append(ts, &trial{seed: s.first + int64(j), live: s.live, net: s.net, blind: s.blind, excluded: s.excluded})
		}
		batches <- ts
	}
	close(batches)
	wg.Wait()
	what := ""
	if s.live {
		what = " with writers that go on"
	}
	took := time.Since(begun)
	fmt.Printf("%d seeds%s from %d: %d with a difference that nothing names, %d with one that is named; %.1f seeds a second\n",
		tried, what, s.first, len(bad), named, float64(tried)/took.Seconds())
	for _, k := range slices.Sorted(maps.Keys(kindsOf)) {
		slices.Sort(kindsOf[k])
		fmt.Printf("  %-28s %3d: %v\n", k, len(kindsOf[k]), kindsOf[k])
	}
	slices.SortFunc(bad, func(a, b *trial) int { return int(a.seed - b.seed) })
	for _, t := range bad {
		if s.verbose && (s.live || s.shrink == 0) { // failures that are not shortened below; with live writers a failure may depend on timing
			fmt.Printf("seed %d (%s):\n%s%s\n", t.seed, t.kind, t.script, strings.Join(t.outputs, "\n"))
		}
		if s.shrink > 0 && !s.live {
			short, err := s.shorten(t)
			errs = append(errs, err)
			fmt.Printf("seed %d (%s), as short as it became:\n%s    %s\n", t.seed, t.kind, short.script, strings.Join(short.wrong, "\n    "))
			if s.verbose {
				fmt.Println(strings.Join(short.outputs, "\n"))
			}
		}
	}
	if len(bad) > 0 {
		errs = append(errs, fmt.Errorf("%d of %d seeds failed", len(bad), tried))
	}
	return errors.Join(errs...)
}

const batchSize = 40

// batch makes one mount and tries all the given trials on it.
func (s settings) batch(ts []*trial) (err error) {
	p, err := newPlace(s)
	if err != nil {
		return err
	}
	under := filepath.Join(p.base, "under")
	defer func() {
		for _, point := range []string{under} {
			if uerr := unix.Unmount(point, unix.MNT_DETACH); uerr != nil && !errors.Is(uerr, unix.EINVAL) && !errors.Is(uerr, unix.ENOENT) {
				err = errors.Join(err, uerr)
			}
		}
		err = errors.Join(err, p.remove(s.keep))
	}()
	if err := errors.Join(os.Chmod(p.base, 0o711), os.Chmod(p.dir, 0o755), os.Mkdir(under, 0o700)); err != nil {
		return err
	}
	if out, err := exec.Command("git", "-C", p.dir, "init", "-q").CombinedOutput(); err != nil {
		return fmt.Errorf("git init: %w: %s", err, out)
	}
	var starts []*snapshot
	for i, t := range ts {
		t.name = fmt.Sprintf("s%d", i)
		t.dir, t.source, t.git = filepath.Join(p.dir, t.name), filepath.Join(under, t.name), filepath.Join(under, ".git/twin", t.name)
		if err := t.make(filepath.Join(p.dir, ".git/twin", t.name)); err != nil {
			return err
		}
	}
	// The tree is read in the source, not through the mount, so that reading it changes nothing.
	if err := errors.Join(unix.Mount(p.dir, under, "", unix.MS_BIND, ""), unix.Mount("", under, "", unix.MS_PRIVATE, "")); err != nil {
		return err
	}
	for _, t := range ts {
		start, err := take(t.source, t.git)
		if err != nil {
			return err
		}
		starts = append(starts, start)
	}
	if !s.net {
		if _, err := p.cachebro("mount", p.dir); err != nil {
			return err
		}
		if err := p.scanned(); err != nil {
			return err
		}
	}
	for i, t := range ts {
		if err := t.try(p, starts[i]); err != nil {
			return fmt.Errorf("seed %d: %w", t.seed, err)
		}
	}
	return nil
}

// scanned waits for the end of the first scan.
func (p *place) scanned() error {
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		out, err := p.cachebro("status", "--json", "--dir", p.dir)
		if err == nil && strings.Contains(strings.ReplaceAll(string(out), " ", ""), `"done":true`) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the first scan does not end: %w", err)
		}
	}
}

// make makes the tree of the trial, before the mount.
func (t *trial) make(git string) error {
	if err := errors.Join(os.MkdirAll(git, 0o777), os.Mkdir(t.dir, 0o777), os.Chmod(git, 0o777), os.Chmod(t.dir, 0o777)); err != nil {
		return err
	}
	if !t.given {
		d := &dice{Rand: rand.New(rand.NewSource(t.seed)), excluded: t.excluded}
		t.script.start = d.start()
	}
	return inThread(func() error {
		was, err := os.Open(".")
		if err != nil {
			return err
		}
		defer was.Close()
		if err := unix.Unshare(unix.CLONE_FS); err != nil { // Chdir must change the working directory of this thread only
			return err
		}
		unix.Umask(0o022)
		if err := unix.Chdir(t.dir); err != nil {
			return err
		}
		a := &agent{dir: t.dir, files: map[string]int{}}
		for _, o := range t.script.start {
			_ = a.do(o)
		}
		return was.Chdir()
	})
}

// inThread runs f on a separate thread. The thread ends when f returns.
func inThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

// try runs the script, or makes one up, and then undoes and redoes the changes.
func (t *trial) try(p *place, start *snapshot) (err error) {
	var planned time.Time
	if t.live {
		begun := time.Now()
		w, err := startWriting(t.dir, t.seed)
		if err != nil {
			return err
		}
		defer func() {
			if planned.IsZero() {
				planned = time.Now()
			}
			records, werr := w.end(planned)
			err = errors.Join(err, werr)
			if err != nil {
				return
			}
			lost, lerr := t.nowhere(p, records, begun)
			err = lerr
			if len(lost) > 0 {
				t.kind = "record"
				t.wrong = append(t.wrong, fmt.Sprintf("%d of %d records are nowhere: %.300q", len(lost), len(records), lost))
			}
		}()
	}
	r, err := p.startAgent(t.dir, t.net)
	if err != nil {
		return err
	}
	d := &dice{Rand: rand.New(rand.NewSource(t.seed + 1<<40)), number: 1000, excluded: t.excluded}
	begun := time.Now()
	err = t.half(r, d, &t.script.first)
	middle, merr := take(t.source, t.git)
	if err := errors.Join(err, merr, r.end()); err != nil {
		return err
	}
	// Another process does the second half, so that its changes can be selected by pid. The halves
	// could not be separated by a time, because a close may be reported later than it happened.
	r, err = p.startAgent(t.dir, t.net)
	if err != nil {
		return err
	}
	second := r.pid
	err = t.half(r, d, &t.script.second)
	end, eerr := take(t.source, t.git)
	if err := errors.Join(err, eerr, r.end()); err != nil {
		return err
	}
	t.start, t.end = start, end
	if t.same(start, end) {
		return nil
	}
	if t.live { // in this time each writer notices what the agent did to its file
		time.Sleep(200 * time.Millisecond)
	}
	planned = time.Now()
	paths := slices.DeleteFunc(t.somePaths(rand.New(rand.NewSource(t.seed+2<<40)), start, end), func(path string) bool {
		_, err := p.cachebro("log", "--json", "--baselines", "--limit", "1", "--", path)
		return err != nil // an undo refuses a path that the history does not know, with all others
	})
	undo := []string{"undo", "--since", stamp(begun)}
	for _, c := range []struct {
		phase string
		want  *snapshot // if nil, pathDifferences finds the differences
		args  []string
	}{
		{"undo", start, undo},
		{"undo again", start, undo},
		{"half", middle, []string{"undo", "--pid", strconv.Itoa(second)}},
		{"paths", nil, append(append(undo, "--"), paths...)},
	} {
		before := end
		if !t.live {
			before, err = take(t.source, t.git)
			if err != nil {
				return err
			}
		}
		if c.phase == "half" && (t.same(middle, before) || t.same(middle, end)) || c.phase == "paths" && len(paths) == 0 {
			continue
		}
		if ok, err := t.phase(p, c.phase, c.args, func(now *snapshot) []difference {
			// A difference that an earlier command left and reported need not be reported again.
			settled := map[string]bool{}
			for _, d := range differences(end, before) { // count excluded directories too, because a file may be moved out of them
				settled[d.path] = true
			}
			list, want := t.pathDifferences(paths, start, end, now), start
			if c.want != nil {
				list, want = t.differences(c.want, now), c.want
			}
			isSettled := func(p string) bool { // the directory may have been moved since
				return settled[p] || settled[end.inSameDir(want, p)]
			}
			// When the names of a file are compared, the settled names are left out. If an earlier command
			// made a separate file, it reported that the names in .git stay with the old one.
			without := func(d difference, names []string) []string {
				separate := !slices.ContainsFunc(before.files[want.names[d.path].ino], func(p string) bool { return !strings.HasPrefix(p, gitPrefix) })
				return slices.DeleteFunc(slices.Clone(names), func(p string) bool { return isSettled(p) || separate && strings.HasPrefix(p, gitPrefix) })
			}
			return slices.DeleteFunc(list, func(d difference) bool {
				if e, ok := want.names[d.path]; ok && e.kind != unix.S_IFDIR && end.names[d.path].ino != e.ino &&
					slices.ContainsFunc(end.files[e.ino], func(p string) bool { return settled[p] }) {
					return true // an earlier command reported it under another name of the same file
				}
				return isSettled(d.path) || d.what == "links" && slices.Equal(without(d, d.was), without(d, d.is))
			})
		}); !ok || err != nil {
			return err
		}
		done := strings.Contains(t.outputs[len(t.outputs)-1], "\ndone: ")
		if done && !t.live {
			after, err := take(t.source, t.git)
			if err != nil {
				return err
			}
			done = len(differences(before, after)) > 0 // the plan may contain only set-user-ID or set-group-ID bits that must not be restored
		}
		if !done {
			continue // nothing was done, so there is nothing to redo
		}
		if ok, err := t.phase(p, "redo of "+c.phase, []string{"redo"}, func(now *snapshot) []difference { return t.differences(before, now) }); !ok || err != nil {
			return err
		}
	}
	return nil
}

func (t *trial) same(a, b *snapshot) bool { return len(t.differences(a, b)) == 0 }

// differences returns the differences between two states, without those that do not count.
func (t *trial) differences(want, now *snapshot) []difference {
	all := differences(want, now)
	for i := range all {
		if t.end != nil { // a message about another name of the same file counts too
			all[i].also = append(all[i].also, t.end.others(all[i].path)...)
			if e, ok := t.start.names[all[i].path]; ok && e.kind != unix.S_IFDIR {
				all[i].also = append(all[i].also, t.end.files[e.ino]...)
				all[i].once = t.namesEver[e.ino]
			}
		}
	}
	return slices.DeleteFunc(all, func(d difference) bool {
		kept := func(names []string) []string {
			return slices.DeleteFunc(slices.Clone(names), func(p string) bool { return t.gitLost[p] })
		}
		if d.what == "links" && slices.Equal(kept(d.was), kept(d.is)) {
			return true // undo does not change .git, where the file lost its name in between
		}
		return strings.Contains(","+t.blind+",", ","+d.what+",") || t.inExcluded(want, now, d)
	})
}

// inExcluded reports whether a difference does not count because it concerns an excluded directory
// or something in one. A file that was outside the excluded directories at some time after the
// start must be restored nevertheless.
func (t *trial) inExcluded(want, now *snapshot, d difference) bool {
	if !t.excluded {
		return false
	}
	if d.what == "links" {
		kept := func(names []string) []string { return slices.DeleteFunc(slices.Clone(names), excluded) }
		return excluded(d.path) || slices.Equal(kept(d.was), kept(d.is))
	}
	if !excluded(d.path) {
		return false
	}
	switch d.what {
	case "absence":
		ino := want.names[d.path].ino
		return t.wasNameless[ino] || !slices.Contains(t.escaped[ino], d.path)
	case "presence": // a file that was made in an excluded directory does not count
		ino := now.names[d.path].ino
		_, existed := t.everExisted[d.path]
		names := t.now[ino] // a file that came there with its directory does not count either
		wasInside := t.wasInside[[2]uint64{now.names[filepath.Dir(d.path)].ino, ino}]
		onlyExcluded := names != nil && !slices.ContainsFunc(names, func(p string) bool { return !excluded(p) })
		movedAlong := slices.ContainsFunc(names, func(p string) bool { return excluded(p) && belowExcluded(p) == belowExcluded(d.path) })
		return existed || wasInside || onlyExcluded || movedAlong
	}
	return true
}

// belowExcluded returns the part of a path that begins with the excluded directory. That part stays
// the same when the directory is moved. After an undo, a file keeps a name that it got in an
// excluded directory, even if it also has a name outside, because renames and links within an
// excluded directory are not recorded.
func belowExcluded(p string) string {
	i := strings.Index("/"+p+"/", "/"+excludedName+"/")
	return p[i:]
}

func excluded(p string) bool { return strings.Contains("/"+p+"/", "/"+excludedName+"/") }

func stamp(t time.Time) string { return t.Format(time.RFC3339Nano) }

// overwrites reports whether an operation may overwrite bytes that a writer has just appended and
// not yet closed. Without cachebro those bytes would be lost too.
func (t *trial) overwrites(now tree, o op) bool {
	name := ""
	switch o.Verb {
	case "write", "text":
		name = o.Args[0]
	case "copy":
		name = o.Args[1]
	case "hwrite", "hpwrite", "htruncate", "hfallocate", "hmmap", "hcopy":
	default:
		return false
	}
	fi := t.opened[o.Args[0]]
	if name != "" {
		fi, _ = os.Stat(filepath.Join(t.source, name))
	}
	return fi != nil && slices.ContainsFunc(now.files, func(p string) bool {
		other, err := os.Stat(filepath.Join(t.source, p))
		return err == nil && os.SameFile(fi, other) && slices.Contains(scribeFiles, filepath.Base(p))
	})
}

// half carries out the first or the second half of the operations.
func (t *trial) half(r *remote, d *dice, ops *[]op) error {
	t.opened = map[string]os.FileInfo{}
	t.note()
	if t.given {
		for _, o := range *ops {
			if _, err := r.do(o); err != nil {
				return err
			}
			t.note()
		}
	} else {
		for range 2 + d.Intn(16) {
			tree := listTree(t.source, t.git)
			o := d.next(tree)
			if t.live && t.overwrites(tree, o) || t.excluded && endsExclusion(o) {
				continue
			}
			failed, err := r.do(o)
			if err != nil {
				return err
			}
			if failed != "" && !doneInPart(o) {
				continue
			}
			t.note()
			*ops = append(*ops, o)
			if o.Verb == "open" && o.Args[2] != "append" {
				t.opened[o.Args[0]], _ = os.Stat(filepath.Join(t.source, o.Args[1]))
			} else if o.Verb == "open" {
				delete(t.opened, o.Args[0])
			}
		}
	}
	_, err := r.do(op{Verb: "closeall"})
	return err
}

// doneInPart reports whether the operation may have changed something although it failed.
func doneInPart(o op) bool { return o.Verb == "rmrf" || o.Verb == "save" }

// endsExclusion reports whether the operation may change which directories are excluded. The
// contents that are saved depend on the rules at each moment, and no history records these rules.
func endsExclusion(o op) bool {
	const rules = ".gitignore"
	switch o.Verb {
	case "text", "append", "read", "chmod", "chown", "setxattr", "rmxattr", "setfacl":
		return false
	}
	return slices.Contains(o.Args[:min(len(o.Args), 2)], rules)
}

// note records the present names of each inode.
func (t *trial) note() {
	if t.namesEver == nil {
		t.namesEver, t.wasNameless, t.everExisted, t.escaped = map[uint64][]string{}, map[uint64]bool{}, map[string]bool{}, map[uint64][]string{}
		t.wasInside = map[[2]uint64]bool{}
		t.gitLed, t.gitLost = map[string]uint64{}, map[string]bool{}
	}
	here, named := map[string]bool{}, map[uint64][]string{}
	_ = filepath.WalkDir(t.source, func(p string, _ os.DirEntry, err error) error {
		var st unix.Stat_t
		if rel, rerr := filepath.Rel(t.source, p); errors.Join(err, rerr, unix.Lstat(p, &st)) == nil {
			here[rel], named[st.Ino] = true, append(named[st.Ino], rel)
			if !slices.Contains(t.namesEver[st.Ino], rel) {
				t.namesEver[st.Ino] = append(t.namesEver[st.Ino], rel)
			}
		}
		return nil
	})
	git := map[string]uint64{}
	list, _ := os.ReadDir(t.git)
	for _, e := range list {
		var st unix.Stat_t
		if unix.Lstat(filepath.Join(t.git, e.Name()), &st) == nil {
			git[gitPrefix+e.Name()] = st.Ino
		}
	}
	for p, ino := range t.gitLed {
		t.gitLost[p] = t.gitLost[p] || git[p] != ino
	}
	maps.DeleteFunc(git, func(p string, _ uint64) bool { return t.gitLed[p] != 0 })
	maps.Copy(t.gitLed, git)
	dirs := map[string]uint64{}
	for ino, names := range named {
		for _, p := range names {
			dirs[p] = ino
		}
	}
	for p, ino := range dirs {
		t.wasInside[[2]uint64{dirs[filepath.Dir(p)], ino}] = true
	}
	for ino := range t.namesEver {
		t.wasNameless[ino] = t.wasNameless[ino] || named[ino] == nil
	}
	for ino, names := range named {
		t.escaped[ino] = append(t.escaped[ino], escaped(t.now[ino], names)...)
	}
	t.now = named
	for p := range here {
		if _, known := t.everExisted[p]; !known {
			t.everExisted[p] = false
		}
	}
	for p, gone := range t.everExisted {
		t.everExisted[p] = gone || !here[p]
	}
}

// escaped returns the names in excluded directories that a file lost when it got a name outside of
// them.
func escaped(before, after []string) []string {
	kept := func(p string) bool { return !excluded(p) }
	if !slices.ContainsFunc(after, func(p string) bool { return kept(p) && !slices.Contains(before, p) }) {
		return nil
	}
	lost := slices.DeleteFunc(slices.Clone(before), func(p string) bool { return kept(p) || slices.Contains(after, p) })
	if slices.ContainsFunc(after, func(p string) bool { return excluded(p) && !slices.Contains(before, p) }) {
		return nil // the file's directory was moved, so both names changed at once
	}
	return lost
}

// somePaths returns up to three of the paths that were changed.
func (t *trial) somePaths(r *rand.Rand, start, end *snapshot) (paths []string) {
	changed := map[string]bool{}
	for _, d := range t.differences(start, end) {
		if d.path != "." && d.what != "links" {
			changed[d.path] = true
		}
	}
	all := slices.Sorted(maps.Keys(changed))
	for range min(len(all), 1+r.Intn(3)) {
		if p := filepath.Join(t.dir, all[r.Intn(len(all))]); !slices.Contains(paths, p) {
			paths = append(paths, p)
		}
	}
	return paths
}

// phase runs one command, and looks for differences that the command left and did not report.
func (t *trial) phase(p *place, phase string, args []string, different func(now *snapshot) []difference) (ok bool, err error) {
	var before, after *snapshot
	if phase == "paths" {
		before, err = take(t.source, t.git)
		if err != nil {
			return false, err
		}
	}
	cmd := p.command(append([]string{args[0], "--yes", "--dir", p.dir}, args[1:]...)...)
	done := make(chan struct{})
	var out []byte
	var runErr error
	go func() { out, runErr = cmd.CombinedOutput(); close(done) }()
	select {
	case <-done:
	case <-time.After(5 * time.Minute):
		return false, errors.Join(fmt.Errorf("%s did not end within five minutes", phase), cmd.Process.Kill())
	}
	status := cmd.ProcessState.ExitCode()
	var exit *exec.ExitError
	if runErr != nil && !errors.As(runErr, &exit) {
		return false, runErr
	}
	said := string(out)
	t.outputs = append(t.outputs, fmt.Sprintf("--- %s: %v, status %d\n%s", phase, args, status, said))
	var list []difference
	if !t.live {
		after, err = take(t.source, t.git)
		if err != nil {
			return false, err
		}
		list = different(after)
	}
	if phase == "paths" {
		unheard := map[string]bool{}
		list = slices.DeleteFunc(list, func(d difference) bool {
			switch {
			case t.movedAsSaid(said, args, d, before, after), t.movedAway(said, args, d), t.movedBack(said, args, d, before),
				t.alongWith(said, args, d), t.byUnknownName(p, unheard, args, d):
				return true
			}
			return false
		})
	}
	problems := problemLines(said)
	fail := func(d difference, text string) {
		t.wrong = append(t.wrong, fmt.Sprintf("%s: %s", phase, text))
		if t.kind == "" {
			t.kind = strings.Fields(phase)[0] + " " + d.what
		}
	}
	// Here the history may know nothing about the paths or the process. Then nothing is done, and
	// status 2 is correct.
	if status == 2 && (phase == "paths" || phase == "half" && t.live || t.excluded) {
		problems, status = strings.Split(said, "\n"), 1
	}
	if status > 1 || status < 0 || status == 1 && len(problems) == 0 {
		fail(difference{what: "status"}, fmt.Sprintf("exit status %d: %.300s", status, said))
		return false, nil
	}
	unnamed := 0
	for _, d := range list {
		if t.namedIn(problems, d) {
			t.named++
			continue
		}
		unnamed++
		fail(d, d.String())
	}
	if unnamed == 0 && len(list) > 0 && status == 0 {
		fail(difference{what: "status"}, "exit status 0, but "+list[0].String())
	}
	return len(t.wrong) == 0, nil
}

// within reports whether a path is one of paths, or in the subtree of one.
func (t *trial) within(p string, paths []string) bool {
	return slices.ContainsFunc(paths, func(a string) bool {
		return t.dir+"/"+p == a || strings.HasPrefix(t.dir+"/"+p, a+"/")
	})
}

// pathDifferences returns the differences that count after an undo of some paths. These paths must
// have their state from the start. All others must have their state from before the undo or from
// the start, because one change may have moved one of the paths together with others.
func (t *trial) pathDifferences(paths []string, start, end, now *snapshot) (list []difference) {
	asked := func(p string) bool { return t.within(p, paths) }
	// moved reports whether a directory above p was moved that is not one of the paths. The undo
	// leaves that directory where it is.
	moved := func(p string) bool {
		for dir := filepath.Dir(p); dir != "."; dir = filepath.Dir(dir) {
			was, existed := start.names[dir]
			is, exists := end.names[dir]
			if (existed != exists || was.ino != is.ino) && !asked(dir) {
				return true
			}
		}
		return false
	}
	left := map[string]bool{}
	for _, d := range t.differences(end, now) {
		left[d.path+"\x00"+d.what] = true
	}
	for _, d := range t.differences(start, now) {
		if d.what == "links" { // which names belong to one file depends on paths that the undo does not change
			continue
		}
		if asked(d.path) && moved(d.path) {
			continue
		}
		if asked(d.path) || left[d.path+"\x00"+d.what] {
			list = append(list, d)
		}
	}
	return list
}

// stepLine matches a line of the plan that says what will be done.
var stepLine = regexp.MustCompile(`^  [A-Za-z=] `)

// problemLines returns the lines of the output that say what was not done, or what was done
// differently.
func problemLines(said string) (list []string) {
	for i, l := range strings.Split(said, "\n") {
		if l == "" || i == 0 && (strings.HasPrefix(l, "since ") || strings.HasPrefix(l, "pid ") || strings.HasPrefix(l, "redo of: ")) || stepLine.MatchString(l) || strings.HasPrefix(l, "done: ") {
			continue
		}
		list = append(list, l)
	}
	return list
}

// move is a step of a plan that renames a file or directory or, if exchange is set, exchanges two
// names. withFiles means that the plan says that files move with a directory.
type move struct {
	from, to            string
	exchange, withFiles bool
}

// moveLine matches a line of the plan that states a move.
var moveLine = regexp.MustCompile(`(?m)^  ([RX]) (.*?)/? -> (.*?)/?(  with [0-9]+ files?)?$`)

// movesIn returns the moves that the plan states, in order.
func movesIn(said string) (all []move) {
	for _, m := range moveLine.FindAllStringSubmatch(said, -1) {
		all = append(all, move{from: m[2], to: m[3], exchange: m[1] == "X", withFiles: m[4] != ""})
	}
	return all
}

// moved returns the path to which the move takes a path. Of the paths in a directory that moves, it
// takes only the directories, and the files if the plan says that files move with the directory. A
// plan cannot count the files in an excluded directory, because the history does not contain them,
// so all of these are taken.
func (m move) moved(p string, dir bool) string {
	unknown := path.Base(m.from) == excludedName || path.Base(m.to) == excludedName
	below := func(rest string) bool { return rest == "" || dir || m.withFiles || unknown }
	if rest, ok := strings.CutPrefix(p+"/", m.from+"/"); ok && below(rest) {
		return filepath.Join(m.to, rest)
	}
	if rest, ok := strings.CutPrefix(p+"/", m.to+"/"); ok && m.exchange && below(rest) {
		return filepath.Join(m.from, rest)
	}
	return p
}

// follow returns a function that returns the path to which the moves take a path.
func (t *trial) follow(moves []move, before *snapshot) func(p string) string {
	return func(p string) string {
		name := filepath.Join(t.name, p)
		for _, m := range moves {
			name = m.moved(name, before.names[p].kind == unix.S_IFDIR)
		}
		return strings.TrimPrefix(name, t.name+"/")
	}
}

// movedAsSaid reports whether a path that was not requested differs only because of moves that the
// plan states. The file must have been at another path before and now be where the moves take it,
// or the plan must say that it writes a new file there. If the difference is in the content or
// attributes, the moved file must be exactly as it was before the move.
func (t *trial) movedAsSaid(said string, args []string, d difference, before, now *snapshot) bool {
	moves := movesIn(said)
	if t.within(d.path, args) || len(moves) == 0 {
		return false
	}
	moved := t.follow(moves, before)
	otherFile := d.what == "absence" || d.what == "presence" || d.what == "kind"
	came := func(from, to string) bool {
		was, is := before.names[from], now.names[to]
		if !otherFile {
			return from != to && reflect.DeepEqual(was, is)
		}
		written := regexp.MustCompile(`\n  M ` + regexp.QuoteMeta(filepath.Join(t.name, to)) + `( .*)?\n`).MatchString(said)
		return from != to && (was.ino == is.ino || written && was.kind == is.kind)
	}
	if d.what == "absence" {
		return came(d.path, moved(d.path))
	}
	for p := range before.names {
		if moved(p) == d.path && came(p, d.path) {
			return true
		}
	}
	return false
}

// movedAway reports whether a file is missing for a reason that the plan states. Either a requested
// file had this name in between, and the plan renames the file to the requested path, or removes it
// here and writes it there. Or this name is a hard link of a requested file and moves with that
// file.
func (t *trial) movedAway(said string, args []string, d difference) bool {
	if d.what != "absence" || t.within(d.path, args) {
		return false
	}
	name := filepath.Join(t.name, d.path)
	if strings.Contains(said, "\n  R "+name+" -> ") {
		return true
	}
	if !t.everExisted[d.path] && !slices.ContainsFunc(t.namesEver[t.end.names[d.path].ino], func(n string) bool { return t.within(n, args) }) {
		return false
	}
	return regexp.MustCompile(`\n  D ` + regexp.QuoteMeta(name) + `[ /\n]`).MatchString(said)
}

// movedBack reports whether a name exists because of a move that the plan states. A requested file,
// or a file in a requested directory, may move to this name or become a hard link of the file here.
// Another file may take the name because a requested file moves back from it. Or a requested path
// is restored in its directory, which has been renamed.
func (t *trial) movedBack(said string, args []string, d difference, before *snapshot) bool {
	if d.what != "presence" {
		return false
	}
	asked := func(n string) bool {
		names := append(slices.Clone(t.namesEver[t.end.names[n].ino]), t.namesEver[t.start.names[n].ino]...)
		return t.within(n, args) || slices.ContainsFunc(names, func(o string) bool { return t.within(o, args) })
	}
	name := regexp.QuoteMeta(filepath.Join(t.name, d.path))
	to := regexp.MustCompile(`\n  (?:R (.*) -> ` + name + `|= ` + name + ` -> (.*))\n`).FindStringSubmatch(said)
	if to != nil {
		if _, there := t.end.names[d.path]; there && asked(d.path) {
			return true // the file that is there now moves back, and another takes its place
		}
		from := strings.TrimPrefix(to[1]+to[2], t.name+"/")
		moved := t.follow(movesIn(said), before)
		for p := range before.names { // the file that gets the hard link may move first
			if to[2] != "" && moved(p) == from {
				from = p
				break
			}
		}
		for ; from != "."; from = filepath.Dir(from) {
			if asked(from) {
				return true
			}
		}
	}
	for p := d.path; p != "."; p = filepath.Dir(p) {
		dir, ok := t.end.names[filepath.Dir(p)]
		if !ok || dir.kind != unix.S_IFDIR || !regexp.MustCompile(`\n  (R .* -> |A )`+regexp.QuoteMeta(filepath.Join(t.name, p))+`[/ \n]`).MatchString(said) {
			continue
		}
		for _, a := range args {
			rel, err := filepath.Rel(t.dir, a)
			if was, ok := t.start.names[filepath.Dir(rel)]; err == nil && ok && filepath.Base(rel) == filepath.Base(p) && was.kind == unix.S_IFDIR && was.ino == dir.ino {
				return true
			}
		}
	}
	return false
}

// alongWith reports whether a path that was not requested changes together with a requested path,
// and the plan says so. There are two cases. In the first, both paths are names of one file. In the
// second, a requested file is now at this path and moves back, and the file that it had replaced is
// restored.
func (t *trial) alongWith(said string, args []string, d difference) bool {
	within := func(n string) bool { return n != d.path && t.within(n, args) }
	back := regexp.MustCompile(`\n  A ` + regexp.QuoteMeta(filepath.Join(t.name, d.path)) + `( .*)?\n`)
	if back.MatchString(said) && slices.ContainsFunc(t.namesEver[t.end.names[d.path].ino], within) {
		return true
	}
	if d.what == "absence" || d.what == "presence" || !regexp.MustCompile(`\n  [Mm=] `+regexp.QuoteMeta(filepath.Join(t.name, d.path))+`[ \n]`).MatchString(said) {
		return false
	}
	ino := t.end.names[d.path].ino // use the names at the start too, because the file's directory may have moved since
	return slices.ContainsFunc(append(slices.Clone(t.end.files[ino]), t.start.files[ino]...), within)
}

// byUnknownName reports whether a file was requested by a name that the history does not know (an
// ignored name), and was changed under another name that was not requested. The undo could find out
// that both names belong to one file only by looking at every ignored name.
func (t *trial) byUnknownName(p *place, unheard map[string]bool, args []string, d difference) bool {
	if d.what == "absence" || d.what == "presence" || d.what == "links" {
		return false
	}
	e, ok := t.end.names[d.path]
	if !ok { // the file's directory was moved, so take the inode from the start
		e = t.start.names[d.path]
	}
	var other bool
	names := append(slices.Clone(t.end.files[e.ino]), t.start.files[e.ino]...)
	for _, n := range names {
		if strings.HasPrefix(n, gitPrefix) || !t.within(n, args) {
			other = true
			continue
		}
		if _, ok := unheard[n]; !ok {
			out, err := p.cachebro("log", "--json", "--baselines", "--limit", "1", "--", filepath.Join(t.dir, n))
			unheard[n] = err != nil || len(out) == 0
		}
		if !unheard[n] {
			return false
		}
	}
	return other
}

// namedIn reports whether one of the lines reports the difference. The line may name the path,
// another name of the same file, or a directory above the path with a number of files. A line about
// a path in the subtree also explains why a path still exists. A line may use a name that the file
// had only in between, if it mentions the file's other names.
func (t *trial) namedIn(lines []string, d difference) bool {
	for _, p := range d.once {
		for _, l := range lines {
			full := filepath.Join(t.name, p)
			if mentions(l, full+": its file had") || mentions(l, full+": excluded from the history; the file also has names") {
				return true
			}
		}
	}
	if d.what == "links" && t.namesNamed(lines, d) {
		return true
	}
	for _, p := range append([]string{d.path}, d.also...) {
		full := filepath.Join(t.name, p)
		if rest, ok := strings.CutPrefix(p, gitPrefix); ok {
			full = filepath.Join(".git/twin", t.name, rest)
		}
		for _, l := range lines {
			if mentions(l, full) || d.what == "presence" && strings.Contains(l, full+"/") {
				return true
			}
			for dir := filepath.Dir(full); dir != t.name && dir != "."; dir = filepath.Dir(dir) {
				if mentions(l, dir) && (saysOfAll(strings.ReplaceAll(l, dir, "DIR"), d.what) || hasCount.MatchString(strings.ReplaceAll(l, dir, "")) || strings.Contains(l, "may not be") || strings.Contains(l, "files may be missing")) {
					return true
				}
			}
		}
	}
	return false
}

// namesNamed reports whether lines report all names that a file should not have, and all that it
// lacks. A name that is lacking in an excluded directory need not be reported.
func (t *trial) namesNamed(lines []string, d difference) bool {
	named := func(what string, names, others []string) bool {
		return !slices.ContainsFunc(names, func(p string) bool {
			counts := !slices.Contains(others, p) && !(what == "absence" && t.excluded && excluded(p))
			return counts && !t.namedIn(lines, difference{what: what, path: p})
		})
	}
	return named("presence", d.is, d.was) && named("absence", d.was, d.is)
}

// saysOfAll reports whether a statement about a directory is also true of everything in its
// subtree. In the line, DIR stands for the directory.
func saysOfAll(line, what string) bool {
	said := map[string][]string{
		"presence": {"DIR: the directory holds other files", "DIR: is something else", "DIR: created again since", "not done: DIR -> ", `DIR: "`}, // the last one begins the message that DIR could not be moved
		"absence":  {`"DIR" exists`, `it cannot return to "DIR"`, "DIR: its present content could not be restored later", "DIR: nothing is known of it", "DIR: what was there before is not known"},
	}
	return slices.ContainsFunc(said[what], func(words string) bool { return strings.Contains(line, words) })
}

var hasCount = regexp.MustCompile(`\b[0-9]+ `)

// mentions reports whether the line contains the path as a whole.
func mentions(line, path string) bool {
	for at := 0; ; {
		i := strings.Index(line[at:], path)
		if i < 0 {
			return false
		}
		i += at
		end := i + len(path)
		if (i == 0 || !pathByte(line[i-1])) && (end == len(line) || !pathByte(line[end]) || line[end] == '/' && (end+1 == len(line) || !pathByte(line[end+1]))) {
			return true
		}
		at = i + 1
	}
}

func pathByte(c byte) bool {
	return c == '/' || c == '.' || c == '_' || c == '-' || c == '~' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// shorten drops operations from the script of a trial as long as the trial still fails in the same
// way.
func (s settings) shorten(t *trial) (*trial, error) {
	best := t
	fails := func(scripts []script) (at []int, tries []*trial, err error) {
		for _, sc := range scripts {
			tries = append(tries, &trial{seed: t.seed, given: true, script: sc, net: s.net, blind: s.blind, excluded: s.excluded})
		}
		err = s.batch(tries)
		for i, c := range tries {
			if c.kind == t.kind {
				at = append(at, i)
			}
		}
		return at, tries, err
	}
	size := (best.script.len() + 1) / 2
	for deadline := time.Now().Add(s.shrink); size >= 1 && time.Now().Before(deadline); {
		var fewer []script
		var cuts [][2]int
		for at := 0; at < best.script.len(); at += size {
			cuts = append(cuts, [2]int{at, at + size})
			fewer = append(fewer, best.script.without(cuts[len(cuts)-1:]))
		}
		at, tries, err := fails(fewer)
		if err != nil {
			return best, err
		}
		if len(at) == 0 {
			size /= 2
			continue
		}
		// Operations that can be dropped one at a time can perhaps be dropped together.
		whole := best.script
		best = tries[at[0]]
		var good [][2]int
		for _, i := range at {
			good = append(good, cuts[i])
		}
		if n := len(good); n > 1 {
			at, tries, err := fails([]script{whole.without(good), whole.without(good[:n/2]), whole.without(good[n/2:])})
			if err != nil {
				return best, err
			}
			if len(at) > 0 {
				best = tries[at[0]]
			}
		}
		size = min(size, max(1, best.script.len()/2))
	}
	return best, nil
}

func (sc script) len() int { return len(sc.start) + len(sc.first) + len(sc.second) }

// without returns the script without the operations in the given ranges.
func (sc script) without(spans [][2]int) script {
	n := -1
	cut := func(ops []op) (rest []op) {
		for _, o := range ops {
			n++
			if !slices.ContainsFunc(spans, func(s [2]int) bool { return s[0] <= n && n < s[1] }) {
				rest = append(rest, o)
			}
		}
		return rest
	}
	return script{cut(sc.start), cut(sc.first), cut(sc.second)}
}
