package tidy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"cachebro/store"
	"cachebro/store/content"
	"cachebro/store/keep"
	"cachebro/store/leaf/text"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

func (td *Tidy) maintain(ctx context.Context, q wire.StoreRequest) (wire.StoreAnswer, []byte, error) {
	p, err := td.Paths.Clean(q.Path)
	if err != nil {
		return wire.StoreAnswer{}, nil, err
	}
	var a wire.StoreAnswer
	answer := func(ok bool, message string, facts any) (wire.StoreAnswer, []byte, error) {
		b, err := json.Marshal(facts)
		return wire.StoreAnswer{OK: ok, Text: message, Facts: b}, nil, err
	}
	switch q.Do {
	case "prune":
		if q.Keep < 0 {
			return a, nil, wire.Errorf(wire.ErrBadRequest, "cachebro store prune 5", "cannot keep %s", text.Count(q.Keep, "version"))
		}
		if q.DryRun {
			d, err := td.keep.Due(ctx, q.Keep)
			if err != nil {
				return a, nil, err
			}
			return answer(true, dueText(d), d)
		}
		r, err := td.keep.Prune(ctx, q.Keep, q.Digest)
		if errors.Is(err, keep.ErrOtherPlan) {
			return a, nil, wire.Errorf(wire.ErrConflict, "look at the plan again", "%v", err)
		}
		if err != nil {
			return a, nil, err
		}
		return answer(true, reportText(r), r)
	case "gc":
		r, err := td.keep.Collect(ctx)
		if err != nil {
			return a, nil, err
		}
		if !slices.Contains(q.Args, "own") {
			td.tidyPeers(ctx)
		}
		return answer(true, reportText(r), r)
	case "du":
		u, err := td.keep.DU(ctx)
		if err != nil {
			return a, nil, err
		}
		u.Paths = shares(u.Paths, p)
		return answer(true, usageText(u, td.Store.Options(), p), u)
	case "fsck":
		c, err := td.Store.Fsck(ctx, true)
		if err != nil {
			return a, nil, err
		}
		back, err := td.restoreLost(ctx, c.Lost)
		if err != nil {
			return a, nil, err
		}
		facts := map[string]any{"versions": c.Versions, "blobs": c.Blobs, "bytes": c.Bytes, "problems": c.Problems, "repaired": c.Repaired, "lost": c.Lost, "back": back}
		return answer(c.OK(), checkText(c, back), facts)
	case "purge":
		if p == "" {
			return a, nil, wire.Errorf(wire.ErrBadRequest, "cachebro store purge PATH", "name what to purge")
		}
		r, err := td.purge(ctx, p)
		if err != nil {
			return a, nil, err
		}
		return answer(true, purgedText(p, r), r)
	}
	return a, nil, wire.Errorf(wire.ErrBadRequest, "prune, gc, du, fsck or purge", "%q is not an operation on the store", q.Do)
}

// restoreLost handles the contents that fsck found lost. It stores each content that is still in
// its file, and returns how many it stored. Without this, the mount would not save the content when
// the file is overwritten, because it assumes that the store has it.
func (td *Tidy) restoreLost(ctx context.Context, lost []uint64) (int, error) {
	var vs []store.Version
	for _, seq := range lost {
		v, err := td.Store.Version(seq)
		if err == nil {
			var cur store.Version
			cur, _, err = td.Store.Current(v.Path)
			if err == nil && cur.Seq == seq {
				vs = append(vs, v)
			}
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return 0, err
		}
	}
	return len(vs) - len(td.Ingest.Secure(ctx, vs, math.MaxInt64)), nil
}

func age(d time.Duration) string {
	if day := 24 * time.Hour; d >= day && d%day == 0 {
		return text.Count(int(d/day), "day")
	}
	return d.String()
}

// dueText describes what prune would do.
func dueText(d keep.Due) string {
	if d.Versions == 0 {
		return fmt.Sprintf("nothing to drop: no version is older than %s and followed by %s of its file", age(d.Age), text.Count(d.Keep, "newer one"))
	}
	return fmt.Sprintf("would drop the contents of %s of %s (%s of text), because they are older than %s and followed by %s of their file", text.Count(d.Versions, "version"), text.Count(len(d.Paths), "file"), text.Bytes(d.Bytes), age(d.Age), text.Count(d.Keep, "newer one"))
}

func reportText(r keep.Report) string {
	switch {
	case r.Versions+r.Blobs+r.Records > 0:
	case r.Packed > 0:
		return fmt.Sprintf("nothing to drop; packed %s; the store now takes %s, previously %s", text.Count(r.Packed, "content"), text.Bytes(r.After), text.Bytes(r.Before))
	default:
		return fmt.Sprintf("nothing to drop; the store takes %s", text.Bytes(r.After))
	}
	return fmt.Sprintf("dropped %s (%s) of %s; the store now takes %s, previously %s", text.Count(r.Blobs, "content"), text.Bytes(r.Bytes), text.Count(r.Versions, "version"), text.Bytes(r.After), text.Bytes(r.Before))
}

// shares returns the shares of p and of paths in its subtree.
func shares(all []keep.Share, p store.Path) []keep.Share {
	var out []keep.Share
	for _, s := range all {
		if _, ok := onwire.Below(s.Name, string(p)); ok || p == "" {
			out = append(out, s)
		}
	}
	return out
}

const maxShares = 20

func usageText(u keep.Usage, o store.Options, p store.Path) string {
	var b strings.Builder
	if o.MaxAge > 0 {
		fmt.Fprintf(&b, "limits for the changes that watched commands made outside of projects: %s\n", OutsideLimits(o.Cap))
	}
	if p == "" {
		fmt.Fprintf(&b, "%10s  on disk (%s free)\n%10s  contents\n%10s  log and indexes\n%10s  deleted, but not yet freed on disk\n",
			text.Bytes(u.Disk), text.Bytes(u.Free), text.Bytes(u.Contents), text.Bytes(u.Log), text.Bytes(u.Slack))
		if u.Shared > 0 {
			fmt.Fprintf(&b, "%10s  of the contents are shared with other worktrees of the repository\n", text.Bytes(u.Shared))
		}
		list(&b, "by class", u.Classes)
		list(&b, "by session", u.Sessions)
	}
	list(&b, "by path", u.Paths)
	return strings.TrimRight(b.String(), "\n")
}

func list(b *strings.Builder, title string, all []keep.Share) {
	fmt.Fprintf(b, "%s:\n", title)
	for i, s := range all {
		if i == maxShares {
			fmt.Fprintf(b, "            … and %d more\n", len(all)-maxShares)
			break
		}
		name := onwire.Display(store.Path(s.Name))
		if s.Name == "" {
			name = "(no session)"
		}
		fmt.Fprintf(b, "%10s  %s (%s)\n", text.Bytes(s.Bytes), name, text.Count(s.Versions, "version"))
	}
}

func checkText(c *store.Check, back int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s and %s (%s) checked", text.Count(c.Versions, "version"), text.Count(c.Blobs, "content"), text.Bytes(c.Bytes))
	if c.OK() {
		return b.String() + ": in order"
	}
	fmt.Fprintf(&b, ": %d problems, %d repaired", len(c.Problems), c.Repaired)
	if len(c.Lost) > 0 {
		fmt.Fprintf(&b, ", %s have lost their content", text.Count(len(c.Lost), "version"))
		if back > 0 {
			fmt.Fprintf(&b, " (%d of them restored from their files)", back)
		}
	}
	for _, p := range c.Problems {
		fmt.Fprintf(&b, "\n  %s", p)
	}
	if c.Unread != nil {
		fmt.Fprintf(&b, "\n  the check stopped, because reading failed: %v", c.Unread)
	}
	return b.String()
}

func purgedText(p store.Path, r keep.Purged) string {
	var b strings.Builder
	if r.Versions == 0 {
		fmt.Fprintf(&b, "nothing of %s is in the history", onwire.Display(p))
	} else {
		fmt.Fprintf(&b, "purged %s: %s (%s) of %s", onwire.Display(p), text.Count(r.Blobs, "content"), text.Bytes(r.Bytes), text.Count(r.Versions, "version"))
	}
	if r.Spooled > 0 {
		fmt.Fprintf(&b, "\n  overwritten in the spool: %s", text.Bytes(r.Spooled))
	}
	if r.Waste > 0 {
		fmt.Fprintf(&b, "\n  removed from pack files, because no version refers to it: %s of contents", text.Bytes(r.Waste))
	}
	for _, e := range r.Elsewhere {
		fmt.Fprintf(&b, "\n  the same content is also stored for %s", onwire.Display(e))
	}
	for _, sib := range r.Siblings {
		fmt.Fprintf(&b, "\n  not purged: the history of another worktree, which also has the content; to purge it there: %s", purgeThere(sib, p))
	}
	for _, sib := range r.Others {
		fmt.Fprintf(&b, "\n  not examined: contents outside of pack files in the history of another worktree; to purge them there: %s", purgeThere(sib, p))
	}
	for _, u := range r.Unreached {
		fmt.Fprintf(&b, "\n  not reached: %s", u)
	}
	return b.String()
}

// purgeThere returns the command that purges the same path in a sibling worktree.
func purgeThere(sib content.Sibling, p store.Path) string {
	if sib.Root == "" {
		return filepath.Dir(sib.Dir) // no project uses this directory, so it can be deleted
	}
	return "cachebro store purge " + onwire.ShellName(store.Path(filepath.Join(sib.Root, string(p))))
}

// pins returns a function that reports whether retention must keep a content, because a diff for a
// live reader or an outdated document starts from it. The function is called for every content, so
// the set of such contents is renewed at most once a second.
func (td *Tidy) pins() func(store.Hash) bool {
	var mu sync.Mutex // guards set and made
	var set map[store.Hash]struct{}
	var made time.Time
	return func(h store.Hash) bool {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(made) > time.Second {
			set, made = td.Shown.PinnedContents(), time.Now()
		}
		_, ok := set[h]
		return ok || td.Knowledge.Pinned(h)
	}
}

// collectEvery is the pause between two checks of the store's limits.
const collectEvery = time.Minute

// Collect enforces the limits of the store, if the last check was at least collectEvery ago. It also
// does so if the store has no space, to free some. It does nothing during the first index, because
// packing contents takes 70 MB of memory, and the daemon needs more memory for the first index than
// at any other time.
func (td *Tidy) Collect(ctx context.Context) {
	_, making := td.Index.Progress()
	if making == 0 && time.Since(td.collected) >= collectEvery {
		td.CollectNow(ctx)
	}
}

// CollectNow is Collect without these conditions. The same goroutine must call both.
func (td *Tidy) CollectNow(ctx context.Context) {
	td.collected = time.Now()
	r, err := td.keep.Collect(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		td.Log.Warn("collect", "err", err)
	case r.Versions+r.Blobs+r.Records+r.Packed > 0:
		td.Log.Info("collected", "versions", r.Versions, "blobs", r.Blobs, "bytes", r.Bytes, "packed", r.Packed, "before", r.Before, "after", r.After)
	}
}
