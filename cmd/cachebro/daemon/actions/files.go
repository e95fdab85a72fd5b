package actions

import (
	"bytes"
	"cmp"
	"slices"
	"sort"
	"strings"
	"syscall"
	"time"

	"cachebro/cmd/cachebro/daemon/versions"
	"cachebro/store"
	"cachebro/store/diff"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"
)

// file collects the facts about one path while the versions of an action are read.
type file struct {
	path        store.Path
	existed     bool          // whether the file existed before the action
	before      store.Version // its version before the action; if the file was renamed, the version at the path origin
	origin      store.Path    // the file's path before the action; "" if it was the same
	now         store.Version // the action's last version of it
	made        bool          // the action made the file
	deleted     bool
	onlyMode    bool // only permissions and the like changed
	onlyRenamed bool // a single rename is the only change
	comm        string
}

// history reads the versions of an action, oldest first.
type history struct {
	v     *store.View
	files map[store.Path]*file         // by path: the file that has the path or had it last
	moved map[store.Path]store.Version // by old path: the version in which a file left it, until the version of the new path is read
	// startOf maps each path to the number of the version with which the action began to change it
	// (see start). versionBefore maps each path to its newest version with a lower number.
	startOf       map[store.Path]uint64
	versionBefore map[store.Path]store.Version
	first         uint64 // the action's first version if some of its versions were not read, else 0
	a             *wire.Action
}

// filesOf returns the outcome for each file. first is the action's first version.
func filesOf(v *store.View, vs []store.Version, first uint64, a *wire.Action) ([]*file, error) {
	h := &history{v: v, files: map[store.Path]*file{}, moved: map[store.Path]store.Version{}, a: a}
	if a.Least {
		h.first = first
	}
	if err := h.readBefore(vs); err != nil {
		return nil, err
	}
	for _, o := range vs {
		if err := h.version(o); err != nil {
			return nil, err
		}
	}
	return h.outcome(), nil
}

// start returns the number of the version with which the action began to change a path. Usually that
// is the number of o, the first version read for the path. If some of the action's versions were not
// read, start returns the number of the action's first version.
func (h *history) start(o store.Version) uint64 {
	if h.first > 0 {
		return h.first
	}
	return o.Seq
}

// readBefore reads the state of all paths before the action, in one pass and in the order of the
// keys.
func (h *history) readBefore(vs []store.Version) (err error) {
	h.startOf = make(map[store.Path]uint64, len(vs))
	for _, o := range vs {
		for _, p := range [...]store.Path{o.From, o.Path} {
			if p != "" && h.startOf[p] == 0 {
				h.startOf[p] = h.start(o)
			}
		}
	}
	h.versionBefore, err = h.v.NewestBelow(h.startOf)
	return err
}

// before returns the state of a path just before its version o.
func (h *history) before(p store.Path, o store.Version) (*file, error) {
	if f := h.files[p]; f != nil {
		return f, nil
	}
	before, found := h.versionBefore[p], true
	if h.startOf[p] == h.start(o) {
		found = before.Seq != 0
	} else {
		var err error
		before, found, err = h.v.AtSeq(p, h.start(o)-1)
		if err != nil {
			return nil, err
		}
	}
	f := &file{path: p, existed: found && !before.Deleted(), onlyMode: true}
	prevUnread := h.first > 0 && o.Prev >= h.first // the version before o belongs to the action too
	if !f.existed && prevUnread && o.Path == p && o.Op != store.OpRename {
		f.made, found = true, true // the file was made by a version of the action that was not read
	}
	if f.existed {
		f.before = before
	}
	if !found { // the log has no earlier version, so only whether the file existed is known
		f.existed = slices.Contains([]store.Op{store.OpWrite, store.OpTruncate, store.OpChmod, store.OpUnlink, store.OpRmdir, store.OpMoved}, o.Op)
	}
	h.files[p] = f
	return f, nil
}

func (f *file) touch(o store.Version) {
	f.now = o
	f.deleted, f.onlyRenamed = false, false
	f.onlyMode = f.onlyMode && o.Op == store.OpChmod
	f.comm = o.Actor.Comm
}

func (h *history) version(o store.Version) error {
	if o.Op == store.OpMoved && store.OwnFile(o.To) { // undo deletes a file by first renaming it to a name of cachebro's own; the rename counts as the deletion
		o.Op = store.OpUnlink
	}
	if o.Op == store.OpMoved {
		h.moved[o.Path] = o
		_, err := h.before(o.Path, o)
		return err
	}
	if o.Op == store.OpRename {
		return h.rename(o)
	}
	f, err := h.before(o.Path, o)
	if err != nil {
		return err
	}
	switch o.Op {
	case store.OpUnlink, store.OpRmdir:
		if f.made && !f.existed && f.origin == "" {
			if !dirMode(f.now.Stat.Mode) && !store.OwnFile(o.Path) {
				h.a.Fleeting++
			}
			delete(h.files, o.Path)
			return nil
		}
		f.touch(o)
		f.deleted = true
	case store.OpExchange:
		f.touch(o)
		other, err := h.before(o.From, o)
		if err != nil {
			return err
		}
		other.touch(o)
	case store.OpCreate, store.OpMkdir, store.OpSymlink, store.OpLink, store.OpMknod, store.OpOutside, store.OpSeen:
		f.made = f.made || !f.existed
		f.touch(o)
	default:
		f.touch(o)
	}
	return nil
}

func (h *history) rename(o store.Version) error {
	delete(h.moved, o.From)
	src, err := h.before(o.From, o)
	if err != nil {
		return err
	}
	if src.now.Seq == 0 && !src.existed { // the file had already left o.From; o.Prev is its last version there
		if was, err := h.v.Version(o.Prev); err == nil && !was.Deleted() {
			src.existed, src.before = true, was
		}
	}
	delete(h.files, o.From)
	dst, err := h.before(o.Path, o)
	if err != nil {
		return err
	}
	if src.made && !src.existed || store.OwnFile(o.From) {
		// A new file replaces the old one, as when editors, sed or undo save.
		dst.made = dst.made || !dst.existed
		dst.touch(o)
		return nil
	}
	untouched := src.now.Seq == 0 && dst.now.Seq == 0
	if origin := cmp.Or(src.origin, src.path); origin != o.Path {
		dst.origin, dst.before = origin, src.before
	} else { // the file is back at its original path
		dst.existed, dst.before = true, src.before
	}
	dst.touch(o)
	dst.onlyRenamed = untouched
	return nil
}

// outcome returns the changes that remain at the end of the action, sorted by path.
func (h *history) outcome() []*file {
	for p, o := range h.moved { // the versions of the new path were left out by the filter
		f := &file{path: o.To, origin: p, existed: true, now: o, onlyRenamed: true, comm: o.Actor.Comm}
		if h.files[o.To] == nil {
			h.files[o.To] = f
		}
	}
	for p, f := range h.files {
		if !f.deleted || f.origin == "" {
			continue
		}
		// The file was moved away and then deleted, as vim does with the old file.
		delete(h.files, p)
		if was := h.files[f.origin]; was != nil {
			was.existed, was.made = true, false
			was.before = f.before
		} else {
			h.files[f.origin] = &file{path: f.origin, existed: true, before: f.before, now: f.now, deleted: true, comm: f.comm}
		}
	}
	var all []*file
	for _, f := range h.files {
		switch {
		case f.now.Seq == 0: // the action did not change the path
		case f.deleted && !f.existed:
		case !f.deleted && f.existed && f.origin == "" && same(f.before, f.now):
			h.a.Same++
		default:
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b *file) int { return strings.Compare(string(a.path), string(b.path)) })
	return all
}

// same reports whether two versions agree in everything that a history records.
func same(a, b store.Version) bool {
	rights := a.Stat.UID == b.Stat.UID && a.Stat.GID == b.Stat.GID && a.Stat.Attrs == b.Stat.Attrs
	if a.Stat.Mode != b.Stat.Mode || !rights {
		return false
	}
	return dirMode(a.Stat.Mode) || a.Blob == b.Blob && a.Blob != (store.Hash{}) && a.Target == b.Target
}

func dirMode(mode uint32) bool { return mode&syscall.S_IFMT == syscall.S_IFDIR }

func (f *file) dir() bool {
	if f.deleted || f.now.Stat.Mode == 0 {
		return f.now.Op == store.OpRmdir || dirMode(f.before.Stat.Mode)
	}
	return dirMode(f.now.Stat.Mode)
}

func (f *file) change() string {
	switch {
	case f.deleted:
		return wire.FileDeleted
	case f.origin != "":
		return wire.FileRenamed
	case f.made && !f.existed:
		return wire.FileAdded
	case f.onlyMode:
		return wire.FileMode
	}
	return wire.FileModified
}

// fold lists the files of a renamed or deleted directory under that directory. It leaves out
// directories that were made for the files in them.
func fold(all []*file) (kept []*file, below map[*file][]*file) {
	below = map[*file][]*file{}
	top := map[store.Path]*file{} // renamed and deleted directories
	for _, f := range all {
		if f.dir() && (f.deleted || f.origin != "") {
			top[f.path] = f
		}
	}
	filled := map[store.Path]bool{}
	for _, f := range all {
		for p := f.path.Dir(); p != ""; p = p.Dir() {
			filled[p] = true
		}
	}
	for _, f := range all {
		var under *file
		for p := f.path.Dir(); p != ""; p = p.Dir() {
			d := top[p]
			if d == nil || d.deleted != f.deleted {
				continue
			}
			if f.deleted || f.onlyRenamed && f.origin == d.origin+f.path[len(p):] {
				under = d
			}
		}
		switch {
		case under != nil:
			if !f.dir() {
				below[under] = append(below[under], f)
			}
		case f.dir() && filled[f.path] && f.change() == wire.FileAdded:
		default:
			kept = append(kept, f)
		}
	}
	return kept, below
}

// maxCompared is the size in bytes up to which the lines of a content are counted.
const maxCompared = 2 << 20

type lineCounter struct {
	s      *store.Store
	w      *describer
	end    time.Time         // the deadline for counting; zero if lines are not counted
	lost   map[uint64]string // the lost updates, by version
	undone *takenBack
}

// compare compares a file before and after. known is false if a content is missing or too large,
// or if time is up.
func (l lineCounter) compare(f *file) (added, removed int, binary, known bool) {
	if l.end.IsZero() || time.Now().After(l.end) {
		return 0, 0, false, false
	}
	var from, to versions.Side
	var err error
	if f.existed || f.origin != "" {
		if f.before.Seq == 0 || f.before.Stat.Size > maxCompared {
			return 0, 0, false, false
		}
		from, err = versions.SideOf(l.s, f.before)
		if err != nil {
			return 0, 0, false, false
		}
	}
	if !f.deleted {
		if f.now.Op == store.OpMoved || f.now.Stat.Size > maxCompared {
			return 0, 0, false, false
		}
		to, err = versions.SideOf(l.s, f.now)
		if err != nil {
			return 0, 0, false, false
		}
	}
	switch {
	case bytes.Equal(from.Data, to.Data):
		return 0, 0, false, true
	case text.Binary(from.Data) || text.Binary(to.Data):
		return 0, 0, true, true
	case len(from.Data) == 0:
		return len(diff.Compare(nil, to.Data).New), 0, false, true
	case len(to.Data) == 0:
		return 0, len(diff.Compare(nil, from.Data).New), false, true
	}
	script := diff.Compare(from.Data, to.Data)
	return script.Added(), script.Removed(), false, true
}

// list fills in the files and the totals of an action.
func (l lineCounter) list(a *wire.Action, all []*file, q wire.ActionsQuery) error {
	var back planSum
	kept, below := fold(all)
	filled := map[store.Path]bool{}
	for _, f := range kept {
		for p := f.path.Dir(); p != ""; p = p.Dir() {
			filled[p] = true
		}
	}
	for _, f := range kept {
		x := wire.ActionFile{Path: []byte(f.path), From: []byte(f.origin), Change: f.change(), Dir: f.dir(), Ignored: f.now.Class == event.Ignored,
			Size: f.now.Stat.Size, Before: f.before.Seq, Seq: f.now.Seq, Time: f.now.When(), Missing: strings.ToValidUTF8(f.now.NoContent, "�"), Lost: l.lost[f.now.Seq]}
		if f.onlyMode {
			x.Missing = ""
		}
		if q.Together {
			_, j := l.w.keyOf(f.now)
			x.By, x.Command = strings.ToValidUTF8(f.comm, "�"), l.w.command(f.now, j)
		} else if f.comm != a.Actor.Comm {
			x.By = strings.ToValidUTF8(f.comm, "�")
		}
		under := below[f]
		x.Below = len(under)
		x.Counted = true
		if !x.Dir {
			under = []*file{f}
		}
		for _, u := range under {
			added, removed, binary, known := l.compare(u)
			x.Added += added
			x.Removed += removed
			x.Counted = x.Counted && known
			x.Binary = x.Binary || binary && !x.Dir
		}
		by, err := l.undone.undoneBy(change{f.path, f.before.Seq, f.now.Seq, func(seq uint64) bool {
			o, err := l.s.Version(seq)
			key, _ := l.w.keyOf(o)
			return err == nil && (q.Together || key == a.Key)
		}})
		if err != nil {
			return err
		}
		n := len(under)
		if x.Dir && n == 0 && !filled[f.path] { // an empty directory counts as one change; for any other directory its files are counted
			n = 1
		}
		a.Count += n
		if x.Ignored {
			a.Ignored += n
		}
		a.Added += x.Added
		a.Removed += x.Removed
		a.Partly = a.Partly || !x.Counted && !x.Ignored
		x.TakenBack = by
		back.add(by, n)
		a.Files = append(a.Files, x)
	}
	back.fill(a)
	// Ignored files come last, because they are rarely of interest.
	sort.SliceStable(a.Files, func(i, j int) bool { return !a.Files[i].Ignored && a.Files[j].Ignored })
	if q.Together {
		sort.SliceStable(a.Files, func(i, j int) bool { return a.Files[i].Seq > a.Files[j].Seq })
	}
	also := l.w.also[a.Key]
	seen := slices.IndexFunc(a.Files, func(x wire.ActionFile) bool { return x.Ignored })
	if seen <= 0 {
		seen = len(a.Files)
	}
	if q.Fold && seen > q.Files {
		alone := func(x wire.ActionFile) bool { return x.Missing != "" || x.Lost != "" || also[store.Path(x.Path)] != "" }
		a.Files = append(wire.FoldFiles(a.Files[:seen:seen], q.Files, alone), a.Files[seen:]...)
	}
	a.Files = a.Files[:min(len(a.Files), q.Files)]
	for i := range a.Files {
		a.Files[i].Also = also[store.Path(a.Files[i].Path)]
	}
	return nil
}
