package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"cachebro/store"
	"cachebro/store/leaf/text"
)

const (
	magic = "cachebro-remote "
	line  = magic + "%d %s %s\n" // format, kind, SHA-256 of what follows

	// The formats: in the second, machines may hide what they are called, and their
	// segments are encrypted.
	format       = 1
	formatHidden = 2

	// Bounds of what a reader takes.
	maxMachines = 1 << 20
	maxHead     = 1 << 20
	maxObject   = 1 << 30 // a segment's log or contents; the largest content is smaller

	// listAfter is from how many segments on a head puts them into a list.
	listAfter = 64
)

// Machine is one that writes here: a history, not a computer. One that was begun
// anew, or whose state was copied, writes under an id of its own.
type Machine struct {
	ID    string    `json:"id"`
	Name  string    `json:"name"` // of its host
	Root  string    `json:"root"` // of the project there
	Since time.Time `json:"since"`
	// Sealed is what is encrypted of it: Name and Root are empty then in the bucket,
	// and here if no key opens it.
	Sealed string `json:"sealed,omitempty"`

	recipients string // separated by blanks
}

type machines struct {
	Machines []Machine `json:"machines"`
}

// Segment is a part of a machine's history.
type Segment struct {
	N            uint64 `json:"n"` // from 1
	Log          string `json:"log"`
	LogSize      int64  `json:"log_size"`
	Contents     string `json:"contents,omitempty"`
	ContentsSize int64  `json:"contents_size,omitempty"`
	Seq          uint64 `json:"seq"` // the newest version of the history then
	Versions     int    `json:"versions"`
	Gen          int    `json:"gen,omitempty"` // of its head, when it was sent
}

// Lease is how long an id is held behind its last segment: then another machine that has
// all of the history may go on with it.
const Lease = 10 * time.Minute

// Claim identifies the machine that took over an id.
type Claim struct {
	By   string    `json:"by"`   // 32 hexadecimal digits that only that machine's store knows first
	Time time.Time `json:"time"` // by that machine's clock
}

// same reports whether two heads are one writer's.
func (c *Claim) same(o *Claim) bool {
	return c == nil && o == nil || c != nil && o != nil && c.By == o.By
}

// Head says what a machine has sent.
type Head struct {
	Machine  Machine   `json:"machine"`
	Time     time.Time `json:"time"`
	N        uint64    `json:"n"`   // segments
	Log      string    `json:"log"` // of the newest: the end of the chain
	Seq      uint64    `json:"seq"`
	Versions uint64    `json:"versions"` // all that were sent
	Bytes    int64     `json:"bytes"`    // of all segments
	List     string    `json:"list,omitempty"`
	Segments []Segment `json:"segments"` // those that are in no list
	Base     *Base     `json:"base,omitempty"`
	Claim    *Claim    `json:"claim,omitempty"` // nil: it is written by who began it
	// Former are those that wrote under this id before Machine, the first one first.
	Former []Former `json:"former,omitempty"`

	// What Prune wrote: see there.
	Gen     int       `json:"gen,omitempty"`     // how often
	Dropped string    `json:"dropped,omitempty"` // the list of segments whose contents may be gone
	Marked  time.Time `json:"marked,omitzero"`   // when, by the server's clock

	drops string // of the whole chain of bases, as it was before this head was read
}

// Former is a machine whose id another one took over. What it had sent stays its own.
type Former struct {
	Machine Machine `json:"machine"`
	N       uint64  `json:"n"`   // its last segment
	Seq     uint64  `json:"seq"` // its last version
}

// Writer is a machine with the versions that it wrote under an id.
type Writer struct {
	Machine
	First, Last uint64 // Last 0: it is the one that writes there now
}

// Writers are all machines that wrote under the head's id, the first one first.
func (h Head) Writers() []Writer {
	out := make([]Writer, 0, len(h.Former)+1)
	first := uint64(1)
	for _, f := range h.Former {
		out = append(out, Writer{f.Machine, first, f.Seq})
		first = f.Seq + 1
	}
	return append(out, Writer{h.Machine, first, 0})
}

// Authors are all machines that wrote versions of a history, with those of the histories
// that it goes on behind, the first one first.
func (b *Bucket) Authors(ctx context.Context, h Head) ([]Writer, error) {
	all := h.Writers()
	for depth := 0; h.Base != nil; depth++ {
		base := *h.Base
		if depth == maxBases || !validID(base.Machine) {
			return nil, fmt.Errorf("%w: the history of %s has no beginning", ErrForged, h.Machine.ID)
		}
		all[0].First = base.Seq + 1
		var err error
		h, err = b.Head(ctx, base.Machine)
		if err != nil {
			return nil, err
		}
		before := h.Writers()
		before = slices.DeleteFunc(before, func(w Writer) bool { return w.First > base.Seq })
		if n := len(before); n > 0 {
			before[n-1].Last = base.Seq
		}
		all = append(before, all...)
	}
	return all, nil
}

// formerly is what the link of segment n says of the machines that wrote before: it
// is nil but where another one begins.
func (h Head) formerly(n uint64) []Former {
	i := slices.IndexFunc(h.Former, func(f Former) bool { return f.N == n-1 })
	return public(h.Former[:i+1])
}

// public are former machines as the bucket shows them.
func public(all []Former) []Former {
	all = slices.Clone(all)
	for i := range all {
		all[i].Machine = all[i].Machine.public()
	}
	return all
}

// Base is where a history was resumed from: its beginning is there.
type Base struct {
	Machine string `json:"machine"`
	N       uint64 `json:"n"`
	Log     string `json:"log"`
	Seq     uint64 `json:"seq"`
	// Drops tells what of it was dropped when it was read: see Bucket.drops.
	Drops string `json:"drops,omitempty"`
}

// list holds segments, and names the list before it.
type list struct {
	Machine  string    `json:"machine"`
	List     string    `json:"list,omitempty"`
	Segments []Segment `json:"segments"`
	Gen      int       `json:"gen,omitempty"`
}

// dropped names the segments whose contents may be gone, as bits from segment 1 on.
type dropped struct {
	Machine  string `json:"machine"`
	Gen      int    `json:"gen"` // of the head that names it first
	Segments []byte `json:"segments"`
}

// has: is it segment n?
func (d dropped) has(n uint64) bool {
	i := (n - 1) / 8
	return i < uint64(len(d.Segments)) && d.Segments[i]&(1<<((n-1)%8)) != 0
}

func (d *dropped) add(n uint64) {
	i := int((n - 1) / 8)
	if i >= len(d.Segments) {
		d.Segments = append(d.Segments, make([]byte, i+1-len(d.Segments))...)
	}
	d.Segments[i] |= 1 << ((n - 1) % 8)
}

// link is in the head of a segment's log.
type link struct {
	Machine  string `json:"machine"`
	N        uint64 `json:"n"`
	Previous string `json:"previous,omitempty"` // log
	Contents string `json:"contents,omitempty"`
	Base     *Base  `json:"base,omitempty"` // of the first
	// Former are those that wrote before, in the first segment of the one that took the
	// id over: the head is not in the chain of hashes.
	Former []Former `json:"former,omitempty"`
	Gen    int      `json:"gen,omitempty"`
}

func seal(kind string, hidden bool, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err)) // plain structs
	}
	f := format
	if hidden {
		f = formatHidden
	}
	return append(fmt.Appendf(nil, line, f, kind, text.Hash(b)), b...)
}

func unseal(kind string, b []byte, v any) error {
	first, rest, ok := bytes.Cut(b, []byte{'\n'})
	switch {
	case !ok || !bytes.HasPrefix(first, []byte(magic)):
		return fmt.Errorf("%w: no %s of cachebro", ErrForged, kind)
	case !strings.HasPrefix(string(first), magic+"1 ") && !strings.HasPrefix(string(first), magic+"2 "):
		return fmt.Errorf("%w: the format of the bucket's %s is %.60q", store.ErrNewer, kind, first)
	case string(first[len(magic)+2:]) != kind+" "+text.Hash(rest):
		return fmt.Errorf("%w: the checksum of the %s does not match", ErrForged, kind)
	}
	if err := json.Unmarshal(rest, v); err != nil {
		return fmt.Errorf("%w: the %s cannot be read", ErrForged, kind)
	}
	return nil
}

// Names in a bucket come from others: they are made of nothing else.
var (
	validID   = regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString
	validHash = regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString
)

func headKey(machine string) string       { return path.Join("heads", machine) }
func logKey(machine, hash string) string  { return path.Join("logs", machine, hash) }
func listKey(machine, hash string) string { return path.Join("lists", machine, hash) }
func contentsKey(machine string, s Segment) string {
	return path.Join("contents", machine, strconv.Itoa(s.Gen), s.Contents)
}

// valid: all names are names.
func (s Segment) valid() bool {
	return s.Gen >= 0 && validHash(s.Log) && s.LogSize > 0 && s.LogSize <= maxObject &&
		(s.Contents == "" || validHash(s.Contents) && s.ContentsSize > 0 && s.ContentsSize <= maxObject)
}

// body is the head as it lies in a bucket.
func (h Head) body() []byte {
	h.Machine, h.Former = h.Machine.public(), public(h.Former)
	return seal("head", h.Machine.Sealed != "", h)
}

// head reads what a machine has sent.
func (b *Bucket) head(ctx context.Context, machine string) (h Head, st stamp, err error) {
	body, st, err := b.get(ctx, headKey(machine), maxHead)
	if err == nil {
		err = unseal("head", body, &h)
	}
	if err == nil && !h.valid(machine) {
		err = fmt.Errorf("%w: the head of %s is that of another machine", ErrForged, machine)
	}
	if err == nil {
		err = b.reveal(&h.Machine)
	}
	if err == nil {
		err = b.revealAll(h.Former)
	}
	return h, st, err
}

func (b *Bucket) revealAll(all []Former) (err error) {
	for i := range all {
		err = errors.Join(err, b.reveal(&all[i].Machine))
	}
	return err
}

// valid: it is the head of this machine, and all names in it are names.
func (h Head) valid(machine string) bool {
	if h.Machine.ID != machine || h.Gen < 0 || h.N > 0 && !validHash(h.Log) {
		return false
	}
	for _, name := range []string{h.List, h.Dropped} {
		if name != "" && !validHash(name) {
			return false
		}
	}
	was := Former{}
	for _, f := range h.Former {
		if f.Machine.ID != machine || f.N <= was.N || f.N > h.N || f.Seq < was.Seq || f.Seq > h.Seq {
			return false
		}
		was = f
	}
	return true
}

// machines are those that write here; there may be none.
func (b *Bucket) machines(ctx context.Context) (all machines, etag string, err error) {
	body, st, err := b.get(ctx, "machines", maxMachines)
	if errors.Is(err, ErrMissing) {
		return all, "", nil
	}
	if err == nil {
		err = unseal("machines", body, &all)
	}
	for i, m := range all.Machines {
		switch {
		case err != nil:
		case !validID(m.ID):
			err = fmt.Errorf("%w: no machine is called %.40q", ErrForged, m.ID)
		default:
			err = b.reveal(&all.Machines[i])
		}
	}
	return all, st.etag, err
}
