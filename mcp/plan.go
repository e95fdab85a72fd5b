package mcp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"cachebro/store/wire"
)

// carryOut does a journalled plan step by step through the project's own path
// and reports to the daemon what was done. A step whose file is not as the plan
// expects is left alone and comes back as a conflict.
func (c *call) carryOut(ctx context.Context, p wire.Plan) (done int, failed []wire.Conflict, err error) {
	s := c.s
	root, err := os.OpenRoot(s.dir())
	if err != nil {
		return 0, nil, fileError("", err)
	}
	defer root.Close()
	var paths [][]byte
	for _, st := range p.Steps[:min(len(p.Steps), 100)] {
		paths = append(paths, st.Path)
	}
	end := c.window(ctx, paths...)
	report := wire.PlanDone{ID: p.ID, Finished: true}
	for i, st := range p.Steps {
		if ctx.Err() != nil {
			break
		}
		if serr := c.step(ctx, root, p.ID, st); serr != nil {
			report.Failed = append(report.Failed, wire.Conflict{Path: st.Path, Why: serr.Error()})
		} else {
			report.Done = append(report.Done, st.N)
		}
		c.progress(ctx, i+1, len(p.Steps), st.Do+" "+quote(string(st.Path)))
	}
	end(len(report.Failed) > 0)
	// Also when the call was cancelled half-way: what was done is done.
	if _, derr := s.back.ask(context.WithoutCancel(ctx), wire.MPlanDone, report, nil, nil); derr != nil {
		s.opt.Logger.Warn("plan not reported", "plan", p.ID, "err", derr)
	}
	for _, n := range report.Done {
		for _, st := range p.Steps {
			if st.N == n {
				s.listHistory(string(st.Path))
			}
		}
	}
	return len(report.Done), report.Failed, ctx.Err()
}

// step does one step. Paths come from the daemon, and are opened beneath the
// root all the same.
func (c *call) step(ctx context.Context, root *os.Root, plan string, st wire.PlanStep) error {
	p := string(st.Path)
	if !validBytes(p) {
		return errors.New("is not a path in the project")
	}
	defer c.s.locks.lock(p)()
	if err := asExpected(root, p, st); err != nil {
		return err
	}
	err := c.do(ctx, root, plan, p, st)
	if err != nil {
		err = fileError(p, err)
	}
	return err
}

func (c *call) do(ctx context.Context, root *os.Root, plan, p string, st wire.PlanStep) error {
	perm := goMode(st.Mode)
	switch st.Do {
	case "write":
		content, err := c.s.back.ask(ctx, wire.MPlanFetch, wire.PlanFetch{ID: plan, N: st.N}, nil, nil)
		if err != nil {
			return err
		}
		if st.Hash != "" && hash(content) != st.Hash {
			return errors.New("the store sent other content than it planned")
		}
		f := &file{root: root, path: p}
		f.info, err = root.Lstat(p)
		f.exists = err == nil && f.info.Mode().IsRegular()
		if err == nil && f.info.IsDir() {
			return &fs.PathError{Op: "write", Path: p, Err: syscall.EISDIR}
		}
		return f.put(content, perm, st.Mtime)
	case "delete":
		return root.Remove(p)
	case "rmdir":
		return root.Remove(p)
	case "mkdir":
		if err := root.MkdirAll(p, 0o777); err != nil {
			return err
		}
		if st.Mode != 0 {
			return root.Chmod(p, perm)
		}
		return nil
	case "rename":
		to := string(st.To)
		if !validBytes(to) {
			return errors.New("is not a path in the project")
		}
		if _, err := root.Lstat(to); err == nil {
			return fs.ErrExist
		}
		if err := root.MkdirAll(dirOf(to), 0o777); err != nil {
			return err
		}
		return root.Rename(p, to)
	case "symlink":
		if err := root.MkdirAll(dirOf(p), 0o777); err != nil {
			return err
		}
		tmp := p + ".cachebro-" + randomID()[:8]
		if err := root.Symlink(string(st.Target), tmp); err != nil {
			return err
		}
		if err := root.Rename(tmp, p); err != nil {
			_ = root.Remove(tmp)
			return err
		}
		return nil
	case "chmod":
		return root.Chmod(p, perm)
	}
	return fmt.Errorf("a step %q is not known to this version", st.Do)
}

// asExpected holds law 6: only what is still as the plan saw it is touched.
func asExpected(root *os.Root, p string, st wire.PlanStep) error {
	fi, err := root.Lstat(p)
	if st.Expect == "absent" {
		if err == nil {
			return errors.New("exists again")
		}
		return nil
	}
	if st.Expect == "" && st.ExpMode == 0 {
		return nil
	}
	if err != nil {
		return errors.New("is gone")
	}
	if st.ExpMode != 0 && goMode(st.ExpMode).Perm() != fi.Mode().Perm() {
		return fmt.Errorf("has mode %v now", fi.Mode().Perm())
	}
	if st.Expect == "" {
		return nil
	}
	var now []byte
	if fi.Mode()&fs.ModeSymlink != 0 {
		t, err := root.Readlink(p)
		if err != nil {
			return err
		}
		now = []byte(t)
	} else if now, err = readAll(root, p); err != nil {
		return err
	}
	if hash(now) != st.Expect {
		return errors.New("was changed since")
	}
	return nil
}

// validBytes is fs.ValidPath without its demand for UTF-8.
func validBytes(p string) bool {
	if p == "" || strings.IndexByte(p, 0) >= 0 {
		return false
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return true
}

func dirOf(p string) string {
	if i := strings.LastIndexByte(p, '/'); i > 0 {
		return p[:i]
	}
	return "."
}

// goMode turns st_mode into Go's.
func goMode(m uint32) fs.FileMode {
	mode := fs.FileMode(m & 0o777)
	if m&0o4000 != 0 {
		mode |= fs.ModeSetuid
	}
	if m&0o2000 != 0 {
		mode |= fs.ModeSetgid
	}
	if m&0o1000 != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}

// planText shows a plan, or what became of it.
func planText(verb string, p wire.Plan, failed []wire.Conflict) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", verb, clean(p.Title))
	bad := make([]string, len(failed))
	for i, f := range failed {
		bad[i] = string(f.Path)
	}
	const most = 200
	for i, st := range p.Steps {
		if i == most {
			fmt.Fprintf(&b, "\n[... %d more]", len(p.Steps)-most)
			break
		}
		if slices.Contains(bad, string(st.Path)) {
			continue
		}
		fmt.Fprintf(&b, "\n  %-7s %s", st.Do, quote(string(st.Path)))
		if len(st.To) > 0 {
			fmt.Fprintf(&b, " -> %s", quote(string(st.To)))
		}
		if st.Added+st.Removed > 0 {
			fmt.Fprintf(&b, " · +%d -%d", st.Added, st.Removed)
		}
	}
	conflicts(&b, "left alone", slices.Concat(p.Conflicts, failed))
	conflicts(&b, "not kept, cannot come back", p.Lost)
	return b.String()
}

func conflicts(b *strings.Builder, head string, cs []wire.Conflict) {
	if len(cs) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:", head)
	for i, c := range cs {
		if i == 50 {
			fmt.Fprintf(b, "\n  [... %d more]", len(cs)-50)
			return
		}
		fmt.Fprintf(b, "\n  %s: %s", quote(string(c.Path)), clean(c.Why))
		if who := actor(c.Actor); who != "" {
			fmt.Fprintf(b, " by %s", who)
		}
		if !c.Time.IsZero() {
			fmt.Fprintf(b, " at %s", c.Time.Local().Format(time.TimeOnly))
		}
	}
}
