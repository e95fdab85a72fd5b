//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// change is a change of the source that bypasses the mount. The shell command in make changes the
// source, and the shell command in look reads through the mount. It must print before and then,
// from some moment on, after. Any other text means torn content.
type change struct {
	name, make, look, before, after string
	captured                        string // file whose new content must be in the log as changed outside the mount; "" means none
}

var changes = []change{
	{"longer content", `printf 'new and longer content\n' >a.txt`, `cat a.txt`, "old a\n", "new and longer content\n", "a.txt"},
	{"shorter content", `printf 'x\n' >b.txt`, `cat b.txt`, "old b, long enough\n", "x\n", "b.txt"},
	{"the same length", `printf 'NEW c\n' >c.txt`, `cat c.txt`, "old c\n", "NEW c\n", "c.txt"},
	{"an append", `printf 'more\n' >>d.txt`, `cat d.txt`, "old d\n", "old d\nmore\n", "d.txt"},
	{"an atomic save", `printf 'saved e\n' >e.tmp; mv e.tmp e.txt`, `cat e.txt`, "old e\n", "saved e\n", "e.txt"},
	{"size as stat sees it", `printf '123456789' >f.txt`, `stat -c %s f.txt`, "6\n", "9\n", "f.txt"},
	{"a mode", `chmod 751 g.sh`, `stat -c %a g.sh`, "644\n", "751\n", ""},
	{"a new file, asked for by name", `printf 'n\n' >new1.txt`, `cat new1.txt 2>/dev/null || echo none`, "none\n", "n\n", "new1.txt"},
	{"a new file, in a listing", `printf 'm\n' >list/new2.txt`, `ls list`, "l.txt\n", "l.txt\nnew2.txt\n", ""},
	{"a removed file, asked for by name", `rm h.txt`, `cat h.txt 2>/dev/null || echo none`, "old h\n", "none\n", ""},
	{"a removed file, in a listing", `rm list2/gone.txt`, `ls list2`, "gone.txt\nstays.txt\n", "stays.txt\n", ""},
	{"a renamed file", `mv i.txt i2.txt`, `cat i2.txt 2>/dev/null || echo none`, "none\n", "old i\n", ""},
	{"a renamed directory", `mv dir dir2`, `cat dir2/sub/j.txt 2>/dev/null || echo none`, "none\n", "old j\n", ""},
	{"another link target", `ln -sfn b k`, `readlink k`, "a\n", "b\n", ""},
	{"a file where a directory was", `rm -r swap; printf 'file\n' >swap`, `cat swap 2>/dev/null || echo none`, "none\n", "file\n", ""},
	{"two files swapped", `mv s1 t; mv s2 s1; mv t s2`, `cat s1 s2 2>/dev/null || echo none`, "one\ntwo\n", "two\none\n", ""},
}

const underFiles = `mkdir -p list list2 dir/sub swap; echo 'old a' >a.txt; echo 'old b, long enough' >b.txt; echo 'old c' >c.txt
echo 'old d' >d.txt; echo 'old e' >e.txt; echo 'old f' >f.txt; echo g >g.sh; chmod 644 g.sh; echo l >list/l.txt; echo g >list2/gone.txt
echo s >list2/stays.txt; echo 'old h' >h.txt; echo 'old i' >i.txt; echo 'old j' >dir/sub/j.txt; ln -s a k; echo one >s1; echo two >s2`

// underneath makes every change below three kinds of mounts: in place, while a process has its
// working directory in the source; at another path; and in a private mount namespace.
func underneath(s settings) error {
	var errs []error
	for _, how := range []string{"in place", "--at", "--private"} {
		if err := underOne(s, how); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", how, err))
		}
	}
	return errors.Join(errs...)
}

func underOne(s settings, how string) (err error) {
	p, err := newPlace(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.remove(s.keep)) }()
	outside, err := startShell(p.shellIn(p.dir, "sh"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, outside.end()) }()
	if _, err := outside.do(underFiles); err != nil {
		return err
	}
	var inside *shell
	switch how {
	case "in place":
		_, err = p.cachebro("mount", p.dir)
		if err == nil {
			inside, err = startShell(p.shellIn(p.dir, "sh"))
		}
	case "--at":
		at := filepath.Join(p.base, "at")
		err = os.Mkdir(at, 0o755)
		if err == nil {
			_, err = p.cachebro("mount", p.dir, "--at", at)
		}
		if err == nil {
			defer func() { _, uerr := p.cachebro("umount", at); err = errors.Join(err, uerr) }()
			inside, err = startShell(p.shellIn(at, "sh"))
		}
	case "--private":
		inside, err = startShell(p.shellIn(p.dir, p.binary, "run", "--private", "--", "sh"))
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, inside.end()) }()
	return p.underChanges(s, how, outside, inside)
}

func (p *place) shellIn(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, p.env
	return cmd
}

func (p *place) underChanges(s settings, how string, outside, inside *shell) error {
	// Wait for the end of the first scan, because a change made before that may not be recorded as
	// a change.
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		out, err := p.cachebro("status", "--json", "--dir", p.dir)
		if err == nil && strings.Contains(strings.ReplaceAll(string(out), " ", ""), `"done":true`) {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the first scan does not end: %w", err)
		}
	}
	bad := 0
	var times []time.Duration
	for _, c := range changes {
		d, err := c.try(s, outside, inside)
		if err != nil {
			bad++
			fmt.Printf("%s: %s: %v\n", how, c.name, err)
			continue
		}
		times = append(times, d)
		if c.captured == "" {
			continue
		}
		if err := p.capturedOutside(c, inside); err != nil {
			bad++
			fmt.Printf("%s: %s: %v\n", how, c.name, err)
		}
	}
	fmt.Printf("%s: %d changes underneath, %d wrong; seen after: %s\n", how, len(changes), bad, spread(times))
	if bad > 0 {
		return fmt.Errorf("%d of %d changes were not seen as they are", bad, len(changes))
	}
	return nil
}

// try makes the change after the shell inside the mount has filled the caches.
func (c change) try(s settings, outside, inside *shell) (time.Duration, error) {
	for range 3 {
		if got, err := inside.do(c.look); err != nil || got != c.before {
			return 0, fmt.Errorf("before: %q, %v; want %q", got, err, c.before)
		}
	}
	if _, err := outside.do(c.make); err != nil {
		return 0, err
	}
	start := time.Now()
	for {
		got, err := inside.do(c.look)
		d := time.Since(start)
		switch {
		case err == nil && got == c.after:
			return d, nil
		case d > s.wait+100*time.Millisecond:
			return d, fmt.Errorf("after %v still %q, %v; want %q", d.Round(time.Millisecond), got, err, c.after)
		case err != nil || got != c.before && !strings.Contains(c.name, "swapped"):
			return d, fmt.Errorf("neither the old nor the new: %q, %v", got, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// capturedOutside looks for the change in the log. A change to a file that no process had opened is
// noticed at the next open.
func (p *place) capturedOutside(c change, inside *shell) error {
	want, err := inside.do("cat " + c.captured)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		list, err := p.log(120)
		if err != nil {
			return err
		}
		for _, v := range list {
			if v.Path == c.captured && v.Op != "baseline" {
				got, err := p.cachebro("show", strconv.FormatUint(v.Seq, 10), "--dir", p.dir)
				if err == nil && string(got) == want {
					if v.Actor.Comm == "cat" { // it only read the file through the mount
						return fmt.Errorf("its version says %s by %s, %d", v.Op, v.Actor.Comm, v.Actor.PID)
					}
					return nil
				}
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no version of %s holds the new content", c.captured)
		}
	}
}
