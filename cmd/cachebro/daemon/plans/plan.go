package plans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/survey"
	"cachebro/cmd/cachebro/daemon/versions"
	"cachebro/store"
	"cachebro/store/leaf/gitdir"
	"cachebro/store/leaf/text"
	"cachebro/store/onwire"
	"cachebro/store/undo"
	"cachebro/store/wire"
)

// maxSecured bounds how many bytes of ignored files and gaps one plan may store before it
// deletes or overwrites them. It equals the store's default budget for ignored files.
const maxSecured = int64(512) << 20

// plan makes a plan and, unless it is a dry run, journals it. The client carries the plan out, step
// by step, through the mount. The daemon writes nothing into the project.
func (pl *Plans) plan(ctx context.Context, r *wire.Request, q wire.PlanRequest) (any, []byte, error) {
	release := pl.Hold()
	defer release()
	whole, err := pl.Ingest.CaughtUp(ctx, ingest.PlanWait, ingest.PlanStill)
	if err != nil {
		return nil, nil, err
	}
	if q.Kind == resumeKind {
		return pl.resumePlan(ctx, q.Plan, r.Peer.PID)
	}
	if q.Prompt == "last" {
		q.Asker = string(pl.Attribution.Asker(r.Peer.PID))
	}
	planner := undo.Planner{Store: pl.Store, Whole: func(dir store.Path) string { return pl.repository(ctx, dir) }}
	for _, l := range q.Leave {
		planner.Leave = append(planner.Leave, undo.LeftLines{Path: store.Path(l.Path), Stay: l.Stay, Out: l.Out})
	}
	if !q.DryRun {
		planner.Secure = func(vs []store.Version) map[store.Path]string { return pl.Ingest.Secure(ctx, vs, maxSecured) }
	}
	p, err := pl.makePlan(ctx, q, r.Body, planner)
	if errors.Is(err, wire.ErrNotFound) || errors.Is(err, store.ErrNotFound) {
		err = pl.nothing(ctx, q, err)
	} else if errors.Is(err, undo.ErrEdits) {
		err = wire.Errorf(wire.ErrBadRequest, "cachebro undo without --hunk undoes the whole change", "%v", err)
	} else if errors.Is(err, undo.ErrOldPlan) {
		err = wire.Errorf(wire.ErrBadRequest, "cachebro restore --at restores the state before it", "%v", err)
	}
	if !whole {
		behind := pl.Ingest.Behind()
		if err != nil {
			return nil, nil, wire.Errorf(wire.ErrConflict, "cachebro status", "%v, but %s", err, behind)
		}
		p.Conflicts = append(p.Conflicts, store.Conflict{Path: ".", Why: behind})
	}
	if err != nil {
		return nil, nil, err
	}
	if pl.Survey.Outdated() {
		p.Conflicts = append(p.Conflicts, store.Conflict{Path: ".", Why: "the files are still being examined, so changes from before the mount may be missing"})
	}
	pl.dropRestored(ctx, p)
	if !q.DryRun && len(p.Steps) > 0 {
		var err error
		p.Tree, err = pl.treeHere(ctx)
		if err != nil {
			return nil, nil, err
		}
		if err := pl.Store.Journal.Begin(ctx, &p.Plan, p.Made); err != nil {
			return nil, nil, err
		}
		pl.attributeTo(p, r.Peer.PID)
	} else if !q.DryRun && p.Undoes != 0 && len(p.Lost) > 0 {
		// Journal the plan as finished, so that the next undo of the last action skips this action.
		err := pl.Store.Journal.Begin(ctx, &p.Plan, nil)
		if err == nil {
			err = pl.Store.Journal.Finish(p.ID, nil)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	pl.pauseIndex(len(p.Steps))
	out := planOut(&p.Plan)
	out.Partly, out.Of = p.Partly, p.Of
	pl.addAction(&out, q, p.Newest)
	if err := pl.recordPairing(q, p); err != nil {
		return nil, nil, err
	}
	pl.addGitChanges(ctx, &out, q, p.Newest)
	var body []byte
	if q.DryRun && q.Contents != nil {
		c, all, err := pl.contentsOf(p, store.Path(q.Contents))
		if err != nil {
			return nil, nil, err
		}
		out.Contents, body = &c, all
	}
	if q.Kind == store.PlanUndo && (q.Prompt != "" || q.Session != "") {
		if err := pl.addTarget(&out, q); err != nil {
			return nil, nil, err
		}
	}
	if q.Kind == rollbackKind {
		of, err := pl.Store.Journal.Plan(q.Plan)
		if err != nil {
			return nil, nil, err
		}
		cut := planOut(&of)
		cut.Done, out.Cut = of.Done, &cut
	}
	return out, body, nil
}

// contentsOf returns, in body, a file's present content followed by its content after the plan.
func (pl *Plans) contentsOf(p *undo.Draft, path store.Path) (out wire.PlannedContents, body []byte, err error) {
	read := func(h store.Hash) []byte {
		if out.Why != "" || h == (store.Hash{}) {
			return nil
		}
		if b, ok := p.Made[h]; ok {
			return b
		}
		b, err := pl.Store.Content(h)
		if err != nil {
			out.Why = err.Error()
		}
		return b
	}
	i := slices.IndexFunc(p.Steps, func(s store.Step) bool {
		return s.Path == path && (s.Do == store.DoWrite || s.Do == store.DoDelete)
	})
	if i < 0 {
		return out, nil, wire.Errorf(wire.ErrNotFound, "", "the plan changes no content of %s", onwire.Display(path))
	}
	step := p.Steps[i]
	out.Was = step.Expect != store.ExpectAbsent
	if out.Was {
		now, _, err := pl.Store.Current(path)
		if err != nil {
			return out, nil, err
		}
		if h, err := onwire.ParseHash(step.Expect); err == nil {
			now.Blob = h
		}
		body = slices.Clone(read(now.Blob))
		out.Old = int64(len(body))
	}
	out.Will = step.Do == store.DoWrite
	if out.Will {
		body = append(body, read(step.Blob)...)
	}
	out.Lines = p.ByLine[path] && text.EncodingOf(body[:out.Old]) == text.EncodingOf(body[out.Old:])
	return out, body, nil
}

// nothing returns the error for a plan that found nothing to do, in words for people. If the
// request was to undo a prompt or session, the error contains its id. If --git would find
// something, the hint says so.
func (pl *Plans) nothing(ctx context.Context, q wire.PlanRequest, err error) error {
	out := wire.Error{Code: wire.ErrNotFound.Code, Message: strings.TrimSuffix(err.Error(), ": "+store.ErrNotFound.Error()), Hint: wire.Hint(err)}
	if out.Hint == "" {
		out.Hint = "cachebro log shows the changes that are not undone yet"
		switch q.Kind {
		case store.PlanRevert:
			out.Hint = "cachebro log PATH shows the versions of a file"
		case store.PlanRedo:
			out.Hint = "redo reverses the last undo, revert or restore; to reverse an undo --git, find its number gN in cachebro log and run cachebro undo --git gN"
		}
	}
	if q.Kind != store.PlanUndo {
		return &out
	}
	if len(q.Paths)+len(q.Edits) == 0 && q.Elsewhere == nil && q.Project == "" {
		git, gerr := pl.gitPlan(ctx, q)
		if gerr == nil && len(git.Steps) > 0 {
			out.Hint = "the same undo with --git restores git's own files (" + git.Text + ")"
		}
	}
	session, serr := versions.Session(pl.Store, q.Session)
	if serr == nil && q.Prompt == "" {
		out.Session = string(session)
	}
	all, perr := pl.Store.Sessions.LastPrompts(session, 0)
	if serr != nil || perr != nil || q.Prompt == "" {
		return &out
	}
	for _, p := range all {
		if q.Prompt == "last" || strings.HasPrefix(p.ID, q.Prompt) {
			out.Session, out.Prompt = string(p.Session), p.ID
			break
		}
	}
	return &out
}

// addTarget adds to the answer the session or prompt that is undone. The client needs to know it,
// because a session or prompt may also have changed other projects.
func (pl *Plans) addTarget(out *wire.Plan, q wire.PlanRequest) error {
	uq, err := pl.undoQuery(q)
	if err != nil {
		return err
	}
	out.Session, out.Prompt = string(uq.Select.Session), uq.Select.Prompt
	if out.Session != "" {
		return nil
	}
	prompts, err := pl.Store.Sessions.LastPrompts("", 0)
	for _, p := range prompts {
		if p.ID == out.Prompt {
			out.Session = string(p.Session)
		}
	}
	return err
}

// attributeTo records that all writes of a process belong to the plan until the plan ends.
func (pl *Plans) attributeTo(p *undo.Draft, pid int) {
	pl.Attribution.BeginPlan(p.ID, attribution.OwnerOf(pid), time.Now().UnixNano())
	pl.recent.put(&p.Plan, p.Read)
}

func (pl *Plans) makePlan(ctx context.Context, q wire.PlanRequest, body []byte, planner undo.Planner) (*undo.Draft, error) {
	if q.Elsewhere != nil && (q.Kind == store.PlanUndo || q.Kind == store.PlanRestore) {
		return pl.planTransfer(ctx, q, body, planner)
	}
	switch q.Kind {
	case store.PlanRevert:
		return pl.planRevert(ctx, q, planner)
	case store.PlanUndo:
		if err := pl.update(ctx); err != nil {
			return nil, err
		}
		if len(q.Edits) > 0 {
			return pl.planEdits(q, planner)
		}
		if p, err := pl.planBoth(ctx, q, planner); p != nil || err != nil {
			return p, err
		}
		uq, err := pl.undoQuery(q)
		if err != nil {
			return nil, err
		}
		p, err := planner.Undo(uq)
		if p != nil {
			p.Title += pl.whenOf(q, uq)
		}
		return p, err
	case store.PlanRedo:
		if q.ProjectPlan != "" {
			q.Plan = pl.pairedPlan(q.ProjectPlan)
			if q.Plan == "" {
				return nil, wire.Errorf(wire.ErrNotFound, "", "this history has no plan that belongs to that plan")
			}
		}
		if err := pl.update(ctx); err != nil {
			return nil, err
		}
		return planner.Redo(q.Plan, q.Merge, q.Force)
	case store.PlanRestore:
		return pl.planRestore(ctx, q, planner)
	case rollbackKind:
		if _, err := pl.leftOpen(ctx, q.Plan); err != nil {
			return nil, err
		}
		if err := pl.Survey.UpdateAll(ctx); err != nil {
			return nil, err
		}
		return planner.Rollback(q.Plan)
	}
	return nil, wire.Errorf(wire.ErrBadRequest, "revert, undo, redo or restore", "%q is not a kind of plan", q.Kind)
}

// planEdits undoes single edits, as undo --hunk and the web pages request.
func (pl *Plans) planEdits(q wire.PlanRequest, planner undo.Planner) (*undo.Draft, error) {
	of := make([]undo.FileEdits, len(q.Edits))
	for i, f := range q.Edits {
		of[i] = undo.FileEdits(f)
	}
	return planner.Edits(of)
}

func (pl *Plans) planRevert(ctx context.Context, q wire.PlanRequest, planner undo.Planner) (*undo.Draft, error) {
	p, err := pl.Paths.Clean(q.Path)
	if err != nil {
		return nil, err
	}
	if p == "" {
		return nil, wire.Errorf(wire.ErrBadRequest, "cachebro restore --at TIME brings the whole tree back", "name the file to revert")
	}
	if q.Steps < 0 {
		return nil, wire.Errorf(wire.ErrBadRequest, "", "steps back cannot be negative")
	}
	if err := pl.updateAll(ctx); err != nil {
		return nil, err
	}
	back, seq := max(q.Steps, 1), uint64(0)
	if versions.Given(q.Version) {
		v, _, err := versions.Find(pl.Store, p, q.Version)
		if err != nil {
			return nil, err
		}
		back, seq = 0, v.Seq
	}
	d, err := planner.Revert(p, back, seq)
	if errors.Is(err, store.ErrNotFound) {
		err = cmp.Or(pl.unrecorded(ctx, p), err)
	}
	if err == nil && pl.Paths.Root == wire.OutsideRoot {
		d.Title = "/" + d.Title // begins with the path
	}
	return d, err
}

func (pl *Plans) undoQuery(q wire.PlanRequest) (undo.Query, error) {
	session, err := versions.Session(pl.Store, q.Session)
	if err != nil {
		return undo.Query{}, err
	}
	if q.Session == "last" {
		if ok, err := versions.Changed(pl.Store, store.Filter{Session: session}); err != nil {
			return undo.Query{}, err
		} else if !ok {
			return undo.Query{}, wire.Errorf(wire.ErrNotFound, "cachebro undo undoes the last action, cachebro log shows what changed", "no session has changed anything yet")
		}
	}
	prompt, err := versions.Prompt(pl.Store, "undo", store.SessionID(q.Asker), session, q.Prompt)
	if err != nil {
		return undo.Query{}, err
	}
	uq := undo.Query{
		Select: store.Filter{Session: session, Agent: q.Agent, Prompt: prompt, ToolCall: q.ToolCall, Since: q.Since, After: q.After, Before: q.Before},
		Last:   q.Last, Merge: q.Merge, Force: q.Force,
		Action: pl.actionOf,
	}
	if q.PID != 0 {
		family, known := pl.Attribution.Family(q.PID)
		uq.What = fmt.Sprintf("pid %d and its descendants", q.PID)
		uq.Select.Match = func(v store.Version) bool {
			return v.Actor.PID != 0 && (family[attribution.Key{PID: v.Actor.PID, Start: v.Actor.Start}] || !known && v.Actor.PID == q.PID)
		}
	}
	if q.ActionKey != "" {
		q.Action, err = pl.versionOfAction(q.ActionKey)
		if err != nil {
			return uq, err
		}
	}
	if q.Project != "" {
		uq.Select.Match = pl.ofProject(q.Project)
	}
	if q.Action != 0 {
		if err := pl.ofAction(&uq, q.Action); err != nil {
			return uq, err
		}
	}
	uq.In, err = pl.requested(q.Paths)
	if err != nil {
		return uq, err
	}
	ofSession := session != "" || prompt != "" || q.ToolCall != ""
	narrowed := q.PID != 0 || q.Action != 0 || !q.Since.IsZero()
	if !q.Last && !ofSession && !narrowed {
		return uq, wire.Errorf(wire.ErrBadRequest, "cachebro undo undoes the last action; or give --session, --prompt, --tool-call, --pid or --since",
			"name what to undo")
	}
	return uq, nil
}

// planBoth plans how to restore the changes of others that an action overwrote, merged with the
// action's own changes. It returns nil if the action overwrote none, or if the request is for
// something else.
func (pl *Plans) planBoth(ctx context.Context, q wire.PlanRequest, planner undo.Planner) (*undo.Draft, error) {
	if !q.Merge || q.Action == 0 || len(q.Paths) > 0 {
		return nil, nil
	}
	losses := pl.Lost.All(ctx, true)
	if len(losses) == 0 {
		return nil, nil
	}
	var of []undo.Parted
	err := pl.Store.View(func(v *store.View) error {
		x, err := v.Version(q.Action)
		if err != nil {
			return nil // undoQuery reports this
		}
		has, _, _, err := pl.Actions.ActionOf(v, x)
		if err != nil {
			return err
		}
		for _, l := range losses {
			if o, err := v.Version(l.Seq); err == nil && has(o) {
				of = append(of, undo.Parted{Base: l.Base, Theirs: l.Theirs, Ours: l.Seq})
			}
		}
		return nil
	})
	if err != nil || len(of) == 0 {
		return nil, err
	}
	return planner.Both(of)
}

// ofAction narrows a query to the action that contains a version, as the log groups versions into
// actions.
func (pl *Plans) ofAction(uq *undo.Query, seq uint64) error {
	return pl.Store.View(func(v *store.View) error {
		of, err := v.Version(seq)
		if err != nil || of.Excluded() || of.Op == store.OpBaseline {
			return wire.Errorf(wire.ErrNotFound, "cachebro log shows the numbers", "%d is not a change", seq)
		}
		if of.Plan != "" {
			return wire.Errorf(wire.ErrBadRequest, "cachebro redo --plan "+of.Plan, "%d belongs to an undo, revert or restore", seq)
		}
		a, err := pl.actionOf(v, of)
		if err != nil {
			return err
		}
		uq.What = a.What
		uq.Select.Before, uq.Select.After = a.Last+1, a.First-1
		uq.Select.Match = a.Has
		return nil
	})
}

// actionOf returns the action that contains a version, as the log groups versions into actions.
func (pl *Plans) actionOf(v *store.View, of store.Version) (undo.Action, error) {
	has, span, command, err := pl.Actions.ActionOf(v, of)
	return undo.Action{Has: has, First: span.First, Last: span.Last, What: fmt.Sprintf("%d, %s", span.Last, command)}, err
}

func (pl *Plans) planRestore(ctx context.Context, q wire.PlanRequest, planner undo.Planner) (*undo.Draft, error) {
	if err := pl.updateAll(ctx); err != nil {
		return nil, err
	}
	names, err := pl.requested(q.Paths)
	if err != nil {
		return nil, err
	}
	seq, err := pl.moment(q, names)
	if err != nil {
		return nil, err
	}
	paths, err := pl.expand(names, seq)
	if err != nil {
		return nil, err
	}
	p, err := planner.Restore(paths, seq)
	if err == nil && len(p.Steps)+len(p.Conflicts)+len(p.Lost) == 0 {
		for _, path := range paths {
			if err := pl.unrecorded(ctx, path); err != nil {
				return nil, err
			}
		}
	}
	return p, err
}

// unrecorded returns an error if the history has no files at a path because they are git's own or
// excluded. A plan for such a path finds nothing to do, whatever has changed there.
func (pl *Plans) unrecorded(ctx context.Context, p store.Path) error {
	if gitdir.In(string(p)) {
		return wire.Errorf(wire.ErrNotFound, "cachebro undo --git restores git's own files", "%s is git's own", onwire.Display(p))
	}
	_, found, err := pl.Store.Current(p)
	if err != nil || found || !pl.Source.Excluded(ctx, p) && !pl.Source.Excluded(ctx, p+"/x") {
		return err
	}
	if isDir, err := versions.KnownDir(pl.Store, p); err != nil || isDir {
		return err
	}
	return wire.Errorf(wire.ErrNotFound, "ignored dependency directories and what .cachebroignore lists are excluded", "%s is excluded, so what changed there is not recorded", onwire.Display(p))
}

func (pl *Plans) update(ctx context.Context) error {
	if err := pl.Survey.UpdateAll(ctx); err != nil {
		return err
	}
	return pl.Survey.UpdateKnown(ctx)
}

// updateAll brings the log up to date with the files before a revert or restore, because these make no step
// for a path that is already in the requested state.
func (pl *Plans) updateAll(ctx context.Context) error {
	for _, update := range []func(context.Context) error{pl.Survey.UpdateAll, pl.Survey.UpdateBypassed, pl.Survey.UpdateKnown} {
		if err := update(ctx); err != nil {
			return err
		}
	}
	return nil
}

// requested separates the paths of a request from its globs. A name that the history knows is a path,
// even if it contains wildcards, such as app/[id]/page.ts. The root of the project stands for
// everything.
func (pl *Plans) requested(names [][]byte) (out undo.Names, err error) {
	for _, name := range names {
		p, err := pl.Paths.Clean(name)
		if err != nil || p == "" {
			return undo.Names{}, err
		}
		isPath, err := pl.isPath(p)
		if err != nil {
			return undo.Names{}, err
		}
		if isPath {
			out.Paths = append(out.Paths, p)
		} else {
			out.Globs = append(out.Globs, string(p))
		}
	}
	return out, nil
}

func (pl *Plans) isPath(name store.Path) (bool, error) {
	if !text.IsGlob(string(name)) {
		return true, nil
	}
	_, known, err := pl.Store.Current(name)
	if known || err != nil {
		return known, err
	}
	return versions.KnownDir(pl.Store, name)
}

// expand returns the requested paths, and what the requested globs select of the paths that have
// changed since a version.
func (pl *Plans) expand(names undo.Names, seq uint64) ([]store.Path, error) {
	changed := map[store.Path]bool{}
	if len(names.Globs) > 0 {
		err := pl.Store.View(func(v *store.View) error { return v.ChangedAfter(seq, func(p store.Path) { changed[p] = true }) })
		if err != nil {
			return nil, err
		}
	}
	paths := names.Paths
	for _, g := range names.Globs {
		known := len(paths)
		for p := range changed {
			if text.GlobSelects(g, string(p)) {
				paths = append(paths, p)
			}
		}
		if len(paths) == known {
			return nil, wire.Errorf(wire.ErrNotFound, "cachebro search --files PART finds names, also those of deleted files", "nothing that has changed since then matches %s", onwire.Display(store.Path(g)))
		}
	}
	return paths, nil
}

// moment returns the newest version at the moment that a request for a restore names.
func (pl *Plans) moment(q wire.PlanRequest, names undo.Names) (seq uint64, err error) {
	switch {
	case q.Session != "":
		seq, err = versions.SessionStart(pl.Store, q.Session)
	case q.At.Seq > 0:
		seq, err = versions.Moment(pl.Store, q.At.Seq)
	case !q.At.At.IsZero():
		seq, err = pl.Store.SeqAt(q.At.At)
	case q.At.Number != 0 && len(names.Paths) == 1 && len(names.Globs) == 0:
		var v store.Version
		v, _, err = versions.Find(pl.Store, names.Paths[0], q.At)
		if err == nil {
			seq = v.Seq
		}
	default:
		err = wire.Errorf(wire.ErrBadRequest, "give --at TIME, a version, or session-start", "name the moment to restore")
	}
	return seq, err
}

func planOut(p *store.Plan) wire.Plan {
	out := wire.Plan{ID: p.ID, Kind: p.Kind, Title: p.Title, Begun: onwire.Time(p.Begun), Steps: make([]wire.PlanStep, len(p.Steps)),
		Conflicts: conflictsOut(p.Conflicts), Lost: conflictsOut(p.Lost)}
	for i, s := range p.Steps {
		out.Steps[i] = wire.PlanStep{
			N: s.N, Do: s.Do, Path: []byte(s.Path), To: onwire.Path(s.To), Target: []byte(s.Target), Mode: s.Mode, Mtime: s.Mtime,
			Size: s.Size, Hash: onwire.Hash(s.Blob), Expect: s.Expect, ExpMode: s.ExpMode, Added: s.Added, Removed: s.Removed, Apart: s.Apart, Ino: s.Ino, Below: s.Below,
			Owned: s.Owned, UID: s.UID, GID: s.GID, Attrs: []byte(s.Attrs),
		}
	}
	return out
}

func conflictsOut(cs []store.Conflict) []wire.Conflict {
	var out []wire.Conflict
	for _, c := range cs {
		out = append(out, onwire.Conflict(c))
	}
	return out
}

func (pl *Plans) planDone(ctx context.Context, r *wire.Request, q wire.PlanDone) (any, []byte, error) {
	if len(q.Done) > 0 {
		if err := pl.Store.Journal.Done(q.ID, q.Done...); err != nil {
			return nil, nil, err
		}
	}
	pl.pauseIndex(len(q.Done))
	if !q.Finished {
		return wire.Empty{}, nil, nil
	}
	switch {
	case q.Watched:
		pl.Ingest.WaitHead(ctx, ingest.QueryWait)
	case !pl.Survey.Mounted():
		pl.lookAtPlan(ctx, q.ID, r.Peer)
	}
	pl.Attribution.EndPlan(q.ID, time.Now().UnixNano())
	var failed []store.Conflict
	for _, f := range q.Failed {
		failed = append(failed, store.Conflict{Path: store.Path(f.Path), Why: f.Why})
	}
	if err := pl.Store.Journal.Finish(q.ID, failed); err != nil {
		return nil, nil, err
	}
	return wire.Empty{}, nil, pl.rolledBack(q.ID)
}

// lookAtPlan records what a client has changed for a plan, if no mount records it. It first handles
// the completed steps in their order, because a renamed directory moves its content too. Then it
// looks at all paths of the plan.
func (pl *Plans) lookAtPlan(ctx context.Context, id string, client wire.Peer) {
	p, err := pl.Store.Journal.Plan(id)
	if err != nil {
		return
	}
	done := map[int]bool{}
	for _, n := range p.Done {
		done[n] = true
	}
	writer := pl.Attribution.Meet(client.PID)
	by := func(path store.Path) store.Actor {
		return pl.Attribution.Actor(writer, client.UID, time.Now().UnixNano(), string(path))
	}
	own := map[store.Path]bool{} // the paths that the plan wrote; others changed the rest
	for _, s := range p.Steps {
		if done[s.N] {
			own[s.Path], own[s.To] = true, true
			if s.Do == store.DoWrite {
				_, _ = pl.Survey.Look(survey.WithPlan(ctx, id, by(s.Path)), s.Path)
			} else {
				pl.stepDone(ctx, id, s, by(s.Path))
			}
		}
	}
	look := func(path store.Path) {
		if path == "" {
			return
		}
		if own[path] {
			_, _ = pl.Survey.Look(survey.WithPlan(ctx, id, by(path)), path)
		} else {
			_, _ = pl.Survey.Look(ctx, path)
		}
	}
	for _, s := range p.Steps {
		look(s.Path)
		look(s.To)
	}
}

// stepDone stores a step that wrote no content. It stores the state right after the step, because
// later steps may move what this step made.
func (pl *Plans) stepDone(ctx context.Context, id string, s store.Step, by store.Actor) {
	c := store.Change{Path: s.Path, Path2: s.To, Time: time.Now().UnixNano(), Actor: by, LastName: true, Plan: id}
	v, found, err := pl.Store.Current(s.Path)
	live := err == nil && found && !v.Deleted()
	switch s.Do {
	case store.DoRename:
		c.Op = store.OpRename
	case store.DoExchange:
		c.Op = store.OpExchange
	case store.DoDelete:
		c.Op = store.OpUnlink
	case store.DoRmdir:
		c.Op = store.OpRmdir
	case store.DoChmod:
		c.Op = store.OpChmod
	case store.DoMkdir:
		c.Op = store.OpMkdir
		live = true
		v = pl.versionAfterStep(ctx, s, syscall.S_IFDIR)
	case store.DoSymlink:
		c.Op = store.OpSymlink
		live = true
		v = pl.versionAfterStep(ctx, s, syscall.S_IFLNK)
		c.Target = string(s.Target)
	case store.DoLink: // the plan's path is the new name
		c.Op = store.OpLink
		c.Path, c.Path2 = s.To, s.Path
		v, found, err = pl.Store.Current(s.To)
		live = err == nil && found && !v.Deleted()
		if st, err := pl.Source.Lstat(ctx, s.To); err == nil {
			v.Stat = st
		}
	}
	if !live {
		return
	}
	c.Stat, c.Class = v.Stat, v.Class
	if s.Do == store.DoChmod {
		c.Stat.Mode = v.Stat.Mode&syscall.S_IFMT | s.Mode&^syscall.S_IFMT
		if st, err := pl.Source.Lstat(ctx, s.Path); err == nil && st.Ino == v.Stat.Ino && st.Dev == v.Stat.Dev {
			c.Stat = st
		}
	}
	if c.Path2 != "" {
		c.Class = pl.Source.Class(ctx, c.Path2)
	}
	if _, err := pl.Ingest.Append(ctx, []store.Change{c}, nil); err != nil {
		pl.Log.Warn("a step of a plan could not be stored", "path", onwire.Display(s.Path), "err", err)
	}
}

// versionAfterStep returns the version that a step made, for anything but a regular file.
func (pl *Plans) versionAfterStep(ctx context.Context, s store.Step, kind uint32) store.Version {
	v := store.Version{Class: pl.Source.Class(ctx, s.Path), Stat: store.Stat{Mode: kind | s.Mode&^syscall.S_IFMT, Nlink: 1}}
	if st, err := pl.Source.Lstat(ctx, s.Path); err == nil && st.Mode&syscall.S_IFMT == kind {
		v.Stat = st
	}
	return v
}

// maxAsked is how many characters of a prompt the title of a plan shows.
const maxAsked = 60

// whenOf returns, for the title of a plan, when a prompt was given and its text, or when the last
// session began.
func (pl *Plans) whenOf(q wire.PlanRequest, uq undo.Query) string {
	switch {
	case q.Prompt != "":
		all, _ := pl.Store.Sessions.LastPrompts(uq.Select.Session, 0) // on an error, the title omits the prompt
		for _, p := range all {
			if p.ID != uq.Select.Prompt {
				continue
			}
			asked := []rune(strings.Join(strings.Fields(p.Text), " "))
			if len(asked) > maxAsked {
				asked = append(asked[:maxAsked-1], '…')
			}
			if len(asked) > 0 {
				return " of " + onwire.Clock(p.Time) + ", “" + string(asked) + "”"
			}
			return " of " + onwire.Clock(p.Time)
		}
	case q.Session == "last":
		if s, ok, err := pl.Store.Sessions.Get(uq.Select.Session); err == nil && ok {
			if s.Client != "" {
				return fmt.Sprintf(" (%s, from %s)", s.Client, onwire.Clock(s.Started))
			}
			return " from " + onwire.Clock(s.Started)
		}
	}
	return ""
}
