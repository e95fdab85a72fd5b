package gitstate

import (
	"cmp"
	"context"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/store"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/gitdir"
	"cachebro/store/leaf/limits"
	"cachebro/store/leaf/spool"
	"cachebro/store/leaf/text"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// Selection selects the changes to undo.
type Selection struct {
	Filter store.Filter // session, agent, prompt, tool call, since, match
	Key    string       // of one action
	ID     uint64       // of one operation
	Last   bool         // the last operation that is worth showing to a person and was not undone
	Before uint64       // with Last: only operations before this one; 0 means all
}

// recordSlack is the longest time, in ns, by which a file's last change may be later than its
// record. If it is later still, a process has bypassed the mount.
const recordSlack = int64(2 * time.Second)

// chosen returns the operations that a selection covers, some of them perhaps only in part. has
// contains the covered rows.
func (h *history) chosen(sel Selection) (of []*operation, has map[*row]bool) {
	has = map[*row]bool{}
	all := h.operations()
	take := func(o *operation, r *row) {
		has[r] = true
		if n := len(of); n == 0 || of[n-1] != o {
			of = append(of, o)
		}
	}
	if sel.Last {
		for _, o := range slices.Backward(all) {
			if sel.Before > 0 && o.id() >= sel.Before || strings.HasPrefix(o.rows[0].Plan, undoing) {
				continue
			}
			if h.text(o) != "" && h.inEffect(o) && !h.ofOthers(o) {
				sel.ID = o.id()
				break
			}
		}
	}
	for _, o := range all {
		one := slices.ContainsFunc(o.rows, func(r *row) bool { return r.Seq == sel.ID })
		for _, r := range o.rows {
			f, a := sel.Filter, r.Actor
			switch {
			case sel.ID != 0 || sel.Last:
				if !one {
					continue
				}
			case sel.Key != "":
				if o.key != sel.Key {
					continue
				}
			case !f.Since.IsZero() && r.Time < f.Since.UnixNano(), f.Session != "" && a.Session != f.Session, f.Prompt != "" && a.Prompt != f.Prompt,
				f.Agent != "" && a.Agent != f.Agent, f.ToolCall != "" && a.ToolCall != f.ToolCall, f.Match != nil && !f.Match(r.version()):
				continue
			}
			take(o, r)
		}
	}
	return of, has
}

// inEffect reports whether an operation has not been undone.
func (h *history) inEffect(o *operation) bool {
	paths, before, after := h.ends(o)
	return slices.ContainsFunc(paths, func(p string) bool {
		now := h.now(p)
		if before[p].kind == objects {
			return before[p].why == ""
		}
		return !onlyMadeOrRemoved(before[p], now) && !h.same(p, before[p], now) && !h.undone(o, p, before[p], after[p])
	})
}

// undone reports whether an operation left a path as it was, or an undo has restored the state before
// the operation. The path may have changed since, for example by the undo of an earlier operation.
func (h *history) undone(o *operation, p string, before, after pathState) bool {
	is := h.same(p, before, after)
	for _, r := range h.chains[p] {
		if !strings.HasPrefix(r.Plan, undoing) || r.Time < o.begin() || slices.Contains(o.rows, r) {
			continue
		}
		switch t := h.after(r); {
		case h.same(p, t, before):
			is = true
		case h.same(p, t, after):
			is = false
		}
	}
	return is
}

// ofOthers reports whether an operation was done in a worktree outside the project. The git state
// of such a worktree belongs to files outside the project.
func (h *history) ofOthers(o *operation) (others bool) {
	for _, r := range o.rows {
		base, at := h.worktreeElsewhere(r.path())
		if at != "" && r.path() == base+"/gitdir" {
			return false // the operation made the worktree
		}
		others = others || at != ""
	}
	return others
}

// worktreeElsewhere finds the worktree that a path in a git directory belongs to. base is git's own
// directory for the worktree. at is the worktree itself, or "" if it is inside the project or
// unknown.
func (h *history) worktreeElsewhere(p string) (base, at string) {
	dir, rest, _ := gitdir.Split(p)
	base, _ = checkout(dir, rest)
	if base == dir {
		return base, ""
	}
	link := base + "/gitdir"
	at = path.Dir(line(h.read(link, h.now(link))))
	if !path.IsAbs(at) || h.s.source.Inside(at) {
		at = ""
	}
	return base, at
}

// leaveWorktrees marks changes to worktrees outside the project as conflicts, unless the undo
// covers the making or removal of a whole worktree.
func (h *history) leaveWorktrees(changes []*change) {
	whole := map[string]bool{}
	for _, c := range changes {
		if base, rest := checkout(c.dir, c.rest); rest == "gitdir" {
			whole[base] = true
		}
	}
	for _, c := range changes {
		base, at := h.worktreeElsewhere(c.path)
		if at != "" && !whole[base] && c.conflict == nil {
			c.conflict = &store.Conflict{Path: store.Path(c.path), Why: "belongs to the worktree " + at + ", which is not in this project"}
		}
	}
}

// Text describes what the selected operations did, or returns "" if nothing is worth showing.
func (s *Service) Text(ctx context.Context, sel Selection) (string, error) {
	if s.none() {
		return "", nil
	}
	h, of, _, err := s.choose(ctx, sel)
	if err != nil {
		return "", err
	}
	defer h.close()
	summary, _ := h.textOfAll(of)
	return summary, nil
}

// textOfAll describes what operations did. If there are many, it describes only the newest. id is
// the newest operation with a description.
func (h *history) textOfAll(of []*operation) (summary string, id uint64) {
	var all []string
	for _, o := range of {
		if t := h.text(o); t != "" {
			all, id = append(all, t), o.id()
		}
	}
	if n := len(all); n > maxListed {
		all = append([]string{"…"}, all[n-maxListed:]...)
	}
	return strings.Join(all, "; "), id
}

// choose reads as much of the history as a selection needs.
func (s *Service) choose(ctx context.Context, sel Selection) (h *history, of []*operation, has map[*row]bool, err error) {
	from := []int64{0}
	switch now := time.Now(); {
	case !sel.Filter.Since.IsZero():
		from[0] = sel.Filter.Since.UnixNano()
	case sel.Last || sel.ID != 0: // usually the operation is among the newest
		from = []int64{now.Add(-time.Hour).UnixNano(), now.Add(-24 * time.Hour).UnixNano(), 0}
	}
	for i, t := range from {
		h, err = s.readSince(ctx, t)
		if err != nil {
			return nil, nil, nil, err
		}
		of, has = h.chosen(sel)
		if i == len(from)-1 || len(of) > 0 && of[0].begin() >= t {
			break
		}
		h.close()
	}
	return h, of, has, nil
}

// LastActor returns who changed git's own files last, among the actors for which by returns true,
// and when. If there is none, the time is zero.
func (s *Service) LastActor(ctx context.Context, by func(store.Actor) bool) (who store.Actor, at time.Time, err error) {
	h, err := s.readSince(ctx, 0)
	if err != nil {
		return who, at, err
	}
	defer h.close()
	for _, r := range slices.Backward(h.rows) {
		if by(r.Actor) {
			return r.Actor, onwire.Time(r.Time), nil
		}
	}
	return who, at, nil
}

// Restored reports whether an undo has restored the repository in a git directory.
func (s *Service) Restored(ctx context.Context, dir string) bool {
	h, err := s.readSince(ctx, 0)
	if err != nil {
		return false
	}
	defer h.close()
	head := path.Join(dir, "HEAD")
	for _, r := range slices.Backward(h.chains[head]) {
		if r.Was == spool.WasAbsent {
			return strings.HasPrefix(r.Plan, undoing) && h.now(head).kind != absent
		}
	}
	return false
}

// change is what a plan does to one path.
type change struct {
	path, unit  string
	dir, rest   string
	before, now pathState
	conflict    *store.Conflict
}

// Plan plans how to undo a selection. It changes only paths that are still as the chosen
// actors left them. Paths that belong together, such as HEAD, the index and the branch, are
// undone together or not at all.
func (s *Service) Plan(ctx context.Context, sel Selection) (wire.GitPlan, error) {
	out := wire.GitPlan{Kept: s.dir}
	if s.none() {
		return out, nil
	}
	h, of, has, err := s.choose(ctx, sel)
	if err != nil {
		return out, err
	}
	defer h.close()
	if len(has) == 0 {
		return out, nil
	}
	last := of[len(of)-1]
	out.Text, out.ID = h.textOfAll(of)
	out.ID = cmp.Or(out.ID, last.id())
	out.Title = out.Text
	if len(of) == 1 {
		out.Title = strings.TrimSuffix(last.command+" · "+out.Text, " · ")
		out.PID, out.Since = last.pid, onwire.Time(last.changesSince())
	}
	var changes []*change
	since := int64(0)
	seen := map[string]bool{}
	dirs := map[string]bool{}
	unmade := map[string]bool{}    // repositories that the operations made
	unsaved := map[string]string{} // by directory of objects: what of them is not saved
	for _, r := range h.rows {
		if has[r] && r.Was == spool.WasObjects && r.Why != "" {
			unsaved[r.path()] = r.Why
		}
		if !has[r] || seen[r.path()] {
			continue
		}
		seen[r.path()] = true
		since = cmp.Or(since, r.Time)
		c := h.changeOf(r, has)
		dirs[c.dir] = true
		if c.rest == "HEAD" && c.before.kind == absent {
			unmade[c.dir] = true
		}
		if c.before.kind != objects && !h.same(c.path, c.before, c.now) && !h.othersMade(c, has) {
			changes = append(changes, c)
		}
	}
	maps.DeleteFunc(dirs, func(dir string, _ bool) bool { return unmade[dir] }) // no objects have to return
	h.markMovedAway(changes, has)
	h.leaveWorktrees(changes)
	for _, repo := range slices.Sorted(maps.Keys(unmade)) {
		if x := h.keepsRepository(repo, changes, has); x != nil {
			out.Conflicts = append(out.Conflicts, onwire.Conflict(*x))
			changes = slices.DeleteFunc(changes, func(c *change) bool { return within(c.dir, repo) })
		}
	}
	if at := onwire.Time(since - int64(time.Second)); out.Since.IsZero() || at.Before(out.Since) {
		out.Since = at
	}
	out.Dirs = slices.Sorted(maps.Keys(dirs))
	h.units(changes)
	blocked := map[string]*change{}
	for _, c := range changes {
		if c.conflict != nil && blocked[c.unit] == nil {
			blocked[c.unit] = c
		}
	}
	for _, c := range changes {
		why := c.conflict
		if b := blocked[c.unit]; why == nil && b != nil {
			why = &store.Conflict{Path: store.Path(c.path), Why: "not undone, because it belongs to " + b.path + ", which cannot be undone"}
		}
		switch {
		case why != nil:
			out.Conflicts = append(out.Conflicts, onwire.Conflict(*why))
		case c.before.kind == lost:
			out.Lost = append(out.Lost, wire.Conflict{Path: []byte(c.path), Why: cmp.Or(c.before.why, "its content was not saved")})
		default:
			out.Steps = append(out.Steps, h.steps(c)...)
			if c.rest == "HEAD" && unmade[c.dir] {
				out.Steps = append(out.Steps, wire.GitStep{Do: wire.GitUnmake, Path: []byte(c.dir)})
			}
		}
	}
	for _, p := range slices.Sorted(maps.Keys(unsaved)) {
		out.Lost = append(out.Lost, wire.Conflict{Path: []byte(p), Why: unsaved[p]})
	}
	out.Steps = ordered(out.Steps)
	return out, nil
}

// within reports whether a git directory is repo or belongs to one of its submodules.
func within(dir, repo string) bool { return dir == repo || strings.HasPrefix(dir, repo+"/") }

// keepsRepository returns the reason why a repository that the chosen rows made stays whole, or nil:
// others have changed it since, so that without the rest it would be a broken repository, or its
// objects could not be restored later.
func (h *history) keepsRepository(repo string, changes []*change, has map[*row]bool) *store.Conflict {
	stays := func(why string, by store.Actor, at int64) *store.Conflict {
		return &store.Conflict{Path: store.Path(repo), Why: "this new repository stays as it is, because of " + why, Actor: by, Time: at}
	}
	for _, c := range changes {
		if x := c.conflict; x != nil && within(c.dir, repo) {
			return stays(c.rest+": "+x.Why, x.Actor, x.Time)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(h.chains)) {
		in, rest, _ := gitdir.Split(p)
		chain := h.chains[p]
		if !within(in, repo) || slices.ContainsFunc(chain, func(r *row) bool { return has[r] }) {
			continue
		}
		if kind := h.now(p).kind; kind != absent && kind != dir {
			last := chain[len(chain)-1]
			return stays(rest+": changed since", last.Actor, last.lastChange())
		}
	}
	if n := h.mustCopy(repo); n > limits.GitAcross {
		return stays(text.Bytes(n)+" of objects, which could not be restored later, because the state directory is on another file system: remove it yourself", store.Actor{}, 0)
	}
	return nil
}

// mustCopy returns the size of the objects of a repository and its submodules, in bytes, if saving them when they are removed
// takes a copy, because the state directory is on another file system. Otherwise it returns 0.
func (h *history) mustCopy(repo string) (n int64) {
	state, err := os.Open(filepath.Dir(h.s.dir))
	if err != nil {
		return 0
	}
	defer state.Close()
	there, err := source.StatOf(state)
	if here, _, lerr := source.LstatBeneath(h.dir.File, repo); err != nil || lerr != nil || here.Dev == there.Dev {
		return 0
	}
	todo := []string{repo + "/objects", repo + "/modules"}
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		d, err := source.OpenBeneath(h.dir.File, name, false)
		if err != nil {
			continue
		}
		names, _ := d.Readdirnames(-1) // fails for a file
		for _, below := range names {
			st, err := source.StatIn(d, below)
			switch {
			case err != nil:
			case st.IsDir():
				todo = append(todo, name+"/"+below)
			default:
				n += st.Size
			}
		}
		d.Close()
	}
	return n
}

// changeOf compares the state of a path before its first chosen row with its present state. A later
// change by somebody else is a conflict.
func (h *history) changeOf(first *row, has map[*row]bool) *change {
	p := first.path()
	dir, rest, _ := gitdir.Split(p)
	c := &change{path: p, dir: dir, rest: rest, before: h.before(first), now: h.now(p)}
	if onlyMadeOrRemoved(c.before, c.now) {
		return c
	}
	same := h.same
	if !h.sameContent(p, c.before, c.now) { // somebody else's git may have given the same content another mode
		same = h.sameContent
	}
	chain := h.chains[p]
	// If others changed the path between chosen rows, it is a conflict unless their changes have
	// been undone.
	for i := first.index; i < len(chain); i++ {
		from := i
		for i < len(chain) && !has[chain[i]] {
			i++
		}
		if i == from {
			continue
		}
		if by := chain[i-1]; !same(p, h.before(chain[from]), h.after(by)) {
			c.conflict = &store.Conflict{Path: store.Path(p), Why: "changed since", Actor: by.Actor, Time: by.lastChange()}
		}
	}
	const byBypass = "by a process that bypassed the mount"
	switch last := chain[len(chain)-1]; {
	case c.conflict != nil || last.Was == spool.WasMoved:
	case c.now.kind == file && c.now.ctime > last.lastChange()+recordSlack:
		c.conflict = &store.Conflict{Path: store.Path(p), Why: "changed since, " + byBypass, Time: c.now.ctime}
	case c.now.kind == absent && last.Op != event.OpUnlink && last.Op != event.OpRmdir:
		c.conflict = &store.Conflict{Path: store.Path(p), Why: "removed since, " + byBypass}
	}
	return c
}

// onlyMadeOrRemoved reports whether the path is a directory in one state and absent in the other. An
// undo makes such a directory, or removes it if it is empty, so changes by others are no conflict.
func onlyMadeOrRemoved(a, b pathState) bool {
	return a.kind == absent && b.kind == dir || a.kind == dir && b.kind == absent
}

// othersMade reports whether a change would remove a directory that somebody else has made since.
func (h *history) othersMade(c *change, has map[*row]bool) bool {
	chain := h.chains[c.path]
	return c.before.kind == absent && c.now.kind == dir && !has[chain[len(chain)-1]]
}

// markMovedAway finds git directories that were moved away, and makes every change in them a
// conflict. Restoring only a few files at the old path would leave a broken repository.
func (h *history) markMovedAway(changes []*change, has map[*row]bool) {
	why := map[string]string{}
	for _, c := range changes {
		if _, ok := why[c.dir]; ok || c.rest == "" && c.before.kind != moved {
			continue
		}
		why[c.dir] = ""
		top, is := h.now(c.dir), false
		for _, r := range h.chains[c.dir] {
			switch {
			case !has[r]:
			case r.Was == spool.WasMoved && top.kind == absent && h.now(string(r.Target)).ino == r.Ino:
				why[c.dir] = "in a directory that was moved; try again once the directory is back"
			case r.Was == spool.WasMoved && top.ino != r.Ino && h.now(string(r.Target)).ino == r.Ino:
				why[c.dir] = "the directory was moved to " + string(r.Target) + ", and another one has its place"
			case r.Was == spool.WasMoved && top.ino != r.Ino:
				why[c.dir] = "the directory is neither at this path nor where it was moved to"
			case r.Was == spool.WasDir && h.after(r).kind == absent:
				is = true
			}
		}
		if top.kind == absent && !is && why[c.dir] == "" && !strings.Contains(c.dir, "/modules/") {
			why[c.dir] = "in a directory that no longer exists"
		}
	}
	for _, c := range changes {
		movedAway := c.before.kind == moved && c.now.kind == absent
		if w := why[c.dir]; w != "" && c.conflict == nil && (!movedAway || strings.HasPrefix(w, "the ")) {
			c.conflict = &store.Conflict{Path: store.Path(c.path), Why: w}
		}
	}
}

// units determines which paths must be undone together: a branch and its reflog; HEAD, the index,
// the state of a merge or rebase, and the branch that HEAD is on.
func (h *history) units(changes []*change) {
	heads := map[string]string{} // dir and branch → unit
	for _, c := range changes {
		base, rest := checkout(c.dir, c.rest)
		for _, t := range []pathState{c.before, c.now} {
			if ref, ok := strings.CutPrefix(line(h.read(c.path, t)), "ref: "); rest == "HEAD" && ok {
				heads[c.dir+" "+ref] = base
			}
		}
	}
	for _, c := range changes {
		base, rest := checkout(c.dir, c.rest)
		if heads[c.dir+" "] == "" { // HEAD was not changed, so its current branch is used
			p := path.Join(base, "HEAD")
			if ref, ok := strings.CutPrefix(line(h.read(p, h.now(p))), "ref: "); ok && heads[c.dir+" "+ref] == "" {
				heads[c.dir+" "+ref] = base
			}
		}
		ref := strings.TrimPrefix(rest, "logs/")
		switch {
		case strings.HasPrefix(ref, "refs/"):
			c.unit = cmp.Or(heads[c.dir+" "+ref], c.dir+" "+ref)
		case rest == "packed-refs", rest == "config", strings.HasPrefix(rest, "hooks/"), strings.HasPrefix(rest, "info/"), rest == "description", rest == "":
			c.unit = c.path
		default:
			c.unit = base
		}
	}
}

// checkout returns the git directory and the path inside it. For a path of a linked worktree, base
// is the worktree's part of the git directory.
func checkout(dir, rest string) (base, below string) {
	if s, ok := strings.CutPrefix(rest, "worktrees/"); ok {
		if name, more, ok := strings.Cut(s, "/"); ok {
			return dir + "/worktrees/" + name, more
		}
	}
	return dir, rest
}

// steps returns the steps of a change. Where a file is in the way of a directory, it is deleted first.
func (h *history) steps(c *change) (all []wire.GitStep) {
	b := c.before
	st := wire.GitStep{Path: []byte(c.path), Now: h.sum(c.path, c.now), Mode: b.restorableMode(), UID: b.uid, GID: b.gid, Size: b.size}
	if b.kind == c.now.kind && (b.kind == file || b.kind == dir) && h.sameContent(c.path, b, c.now) {
		st.Do = "chmod"
		return []wire.GitStep{st}
	}
	switch b.kind {
	case absent:
		st.Do = "delete"
		if c.now.kind == dir {
			st.Do = "rmdir"
		}
	case dir:
		if c.now.kind == file || c.now.kind == link {
			removal := st
			removal.Do = "delete"
			all = append(all, removal)
		}
		st.Do = "mkdir"
	case link:
		st.Do, st.Target = "symlink", []byte(b.target)
	case moved:
		if is := h.now(b.target); is.kind == dir && is.restorableMode() != b.restorableMode() {
			rights := st
			rights.Do, rights.Now = "chmod", "dir"
			all = append(all, rights)
		}
		st.Do = "rename"
		st.Path, st.To = []byte(b.target), []byte(c.path)
	case file:
		st.Do, st.Here = "write", b.inPlace
		st.Kept, st.Content = b.savedAs, b.inline
	default:
		return nil
	}
	return append(all, st)
}

// ordered sorts the steps by their dependencies. Those of repositories that are removed come right
// after the renames. Of the others, steps that remove obstacles come first. HEAD comes last, so that
// git does not treat a half-restored directory as a repository.
func ordered(steps []wire.GitStep) []wire.GitStep {
	unmade := wire.UnmadeDirs(steps)
	rank := func(s wire.GitStep) int {
		base := path.Base(string(s.Path))
		switch {
		case s.Do == "rename":
			return 0
		case s.InUnmade(unmade):
			return 1 + max(0, slices.Index([]string{"delete", "rmdir", wire.GitUnmake}, s.Do))
		case s.Do == "delete":
			return 4
		case s.Do == "rmdir":
			return 5
		case s.Do == "mkdir" || s.Do == "chmod":
			return 6
		case base == "HEAD":
			return 9
		case base == "index":
			return 8
		}
		return 7
	}
	slices.SortStableFunc(steps, func(a, b wire.GitStep) int {
		if c := cmp.Compare(rank(a), rank(b)); c != 0 {
			return c
		}
		if a.Do == "rmdir" || a.Do == wire.GitUnmake {
			return cmp.Compare(string(b.Path), string(a.Path))
		}
		return cmp.Compare(string(a.Path), string(b.Path))
	})
	return steps
}
