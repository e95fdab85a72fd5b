package fleet

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"cachebro/store"
	"cachebro/store/leaf/event"
	"cachebro/store/remote"
)

// ErrUntrue means that an audit file differs from the buckets.
var ErrUntrue = errors.New("the audit file does not match the bucket")

// Against compares an audit file with the buckets of its projects: each machine's chain of segments
// up to the time at which the file was made, and the versions in those segments that match the
// file's query. The caller passes it to Verify, and then calls Missing.
type Against struct {
	ctx     context.Context
	buckets map[string]*remote.Bucket // keyed by place
	q       Query
	made    time.Time
	kept    time.Time
	due     map[versionKey][sha256.Size]byte // hashes of the lines that the file must still contain
	seen    map[string]bool                  // machines in the file

	Machines int   // number of machines compared
	Versions int64 // number of versions compared
	Skipped  int   // number of machines whose project's bucket is unknown
}

type versionKey struct {
	machine string
	seq     int64
}

// NewAgainst returns a comparison with the buckets that Add adds.
func NewAgainst(ctx context.Context) *Against {
	return &Against{ctx: ctx, buckets: map[string]*remote.Bucket{}, due: map[versionKey][sha256.Size]byte{}, seen: map[string]bool{}}
}

// Add adds the bucket of a project.
func (a *Against) Add(p remote.Place, b *remote.Bucket) { a.buckets[place(p)] = b }

func (a *Against) head(h auditHead) error {
	a.q = Query{Project: h.Project, Machine: h.Machine, Path: h.Path, Session: h.Session, Since: h.Since, Until: h.Until}
	a.made, a.kept = h.Made, h.Kept
	return nil
}

// Kept returns the time before which versions had been dropped from the database when the file was
// made, or the zero time if none had been.
func (a *Against) Kept() time.Time { return a.kept }

func (a *Against) machine(m auditMachine) error {
	b := a.buckets[m.Project]
	if b == nil {
		a.Skipped++
		return nil
	}
	untrue := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s (%s): %s", ErrUntrue, m.Machine, m.ID, fmt.Sprintf(format, args...))
	}
	a.seen[m.Project+" "+m.ID] = true
	a.Machines++
	h, err := b.Head(a.ctx, m.ID)
	switch {
	case errors.Is(err, remote.ErrMissing) && m.Segments == 0:
		return nil
	case errors.Is(err, remote.ErrMissing):
		return untrue("the bucket has no such machine")
	case err != nil:
		return err
	case h.N < uint64(m.Segments):
		return untrue("the bucket has %d segments, the file says %d", h.N, m.Segments)
	}
	var all []Version
	told := map[string]*action{}
	end := ""
	err = b.Logs(a.ctx, h, remote.Known{}, 0, func(l remote.Log) error {
		if l.Segment.N > uint64(m.Segments) {
			return errBehind
		}
		end = l.Segment.Log
		for _, x := range actions(l) {
			if told[x.id] == nil {
				told[x.id] = &action{}
			}
			told[x.id].tool = cmp.Or(x.tool, told[x.id].tool)
			told[x.id].title = cmp.Or(x.title, told[x.id].title)
		}
		for _, v := range l.Versions {
			if v.Op != store.OpBaseline && v.Class != event.Excluded {
				all = append(all, versionOf(m.ID, l.Segment.N, v))
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errBehind) {
		return fmt.Errorf("%s (%s): %w", m.Machine, m.ID, err)
	}
	if end != m.Log {
		return untrue("segment %d ends with another hash", m.Segments)
	}
	authors := authorsOf(h)
	if err := sameAuthors(m, authors); err != "" {
		return untrue("%s", err)
	}
	for _, v := range all {
		if i := slices.IndexFunc(authors, func(x author) bool { return x.first <= v.Seq && v.Seq <= x.last }); i >= 0 {
			v.Machine = authors[i].name
		}
		v.Project = m.Project
		if x := told[v.action]; x != nil {
			v.Tool, v.Action = x.tool, x.title
		}
		if !a.selects(v) {
			continue
		}
		line, err := json.Marshal(audited(v))
		if err != nil {
			return err
		}
		a.due[versionKey{m.Project + " " + m.ID, v.Seq}] = sha256.Sum256(line)
	}
	return nil
}

// errBehind stops the reading at the first segment after those that an audit file covers.
var errBehind = errors.New("after the end")

// sameAuthors compares a machine's authors in an audit file with all authors that the bucket names.
// It returns a description of a difference, or "". It accepts that the ID was handed over after the
// file was made.
func sameAuthors(m auditMachine, all []author) string {
	for i, w := range m.Writers {
		last := cmp.Or(w.Last, math.MaxInt64)
		switch {
		case i >= len(all), all[i].name != w.Machine && !all[i].hidden, all[i].first != w.First,
			i < len(m.Writers)-1 && all[i].last != last:
			return fmt.Sprintf("the bucket names another machine as the writer of the versions from %d on", w.First)
		}
	}
	return ""
}

// selects reports whether the file's query selects a version.
func (a *Against) selects(v Version) bool {
	q := a.q
	at := q.path()
	there := slices.Contains([]string{"", v.Machine, v.MachineID}, q.Machine) || len(q.Machine) >= 6 && strings.HasPrefix(v.MachineID, q.Machine)
	return there && store.Path(v.Path).Inside(store.Path(at)) && strings.HasPrefix(v.Session, q.Session) && a.within(v.Time)
}

// within reports whether the file covers a time.
func (a *Against) within(t time.Time) bool {
	return !t.Before(a.kept) && (a.q.Since.IsZero() || !t.Before(a.q.Since.Truncate(time.Microsecond))) &&
		(a.q.Until.IsZero() || !t.After(a.q.Until.Truncate(time.Microsecond)))
}

func (a *Against) version(line []byte, v auditVersion) error {
	if a.buckets[v.Project] == nil {
		return nil
	}
	key := versionKey{v.Project + " " + v.MachineID, v.Seq}
	want, ok := a.due[key]
	if !ok {
		return fmt.Errorf("%w: #%d of %s (%s) is not in the bucket, or is in the file twice", ErrUntrue, v.Seq, v.Machine, v.MachineID)
	}
	if sha256.Sum256(line) != want {
		return fmt.Errorf("%w: the bucket has another record of #%d of %s (%s)", ErrUntrue, v.Seq, v.Machine, v.MachineID)
	}
	delete(a.due, key)
	a.Versions++
	return nil
}

// Missing returns an error if the file lacks a version that its query selects, or a machine that
// had sent something when the file was made.
func (a *Against) Missing() error {
	if len(a.due) > 0 {
		first := versionKey{}
		for k := range a.due {
			if first.machine == "" || k.machine < first.machine || k.machine == first.machine && k.seq < first.seq {
				first = k
			}
		}
		return fmt.Errorf("%w: the file lacks %d versions, the first #%d of %s", ErrUntrue, len(a.due), first.seq, path.Base(first.machine))
	}
	if a.q.Machine != "" {
		return nil
	}
	for project, b := range a.buckets {
		if q := a.q.Project; q != "" && q != project && !strings.HasSuffix(strings.SplitN(project, "?", 2)[0], "/"+q) {
			continue
		}
		all, unlisted, _, err := b.AllMachines(a.ctx)
		if err != nil {
			return err
		}
		for _, id := range unlisted {
			all = append(all, remote.Machine{ID: id})
		}
		for _, m := range all {
			if a.seen[project+" "+m.ID] || m.Since.After(a.made) {
				continue
			}
			if _, err := b.Head(a.ctx, m.ID); !errors.Is(err, remote.ErrMissing) {
				return errors.Join(err, fmt.Errorf("%w: the file lacks the machine %s (%s)", ErrUntrue, m.Called(), m.ID))
			}
		}
	}
	return nil
}
