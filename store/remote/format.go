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
	line  = magic + "%d %s %s\n" // format, kind, SHA-256 of the rest

	// The formats. In the second, machines may hide their names and encrypt their segments.
	format       = 1
	formatHidden = 2

	// Limits for a reader.
	maxMachines = 1 << 20
	maxHead     = 1 << 20
	maxObject   = 1 << 30 // a segment's log or contents; a single content is smaller

	// listAfter is the number of segments at which a head moves them into a list.
	listAfter = 64
)

// Machine is a writer of the bucket. It stands for a history, not for a computer. A history that
// was begun anew, or that uses copied state, gets a new ID.
type Machine struct {
	ID    string    `json:"id"`
	Name  string    `json:"name"` // name of its host
	Root  string    `json:"root"` // the project's root on that host
	Since time.Time `json:"since"`
	// Sealed is the encrypted part. If it is set, Name and Root are empty in the bucket, and here
	// as well unless a key decrypts it.
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
	Seq          uint64 `json:"seq"` // the newest version of the history when the segment was sent
	Versions     int    `json:"versions"`
	Gen          int    `json:"gen,omitempty"` // Gen of the head when the segment was sent
}

// Lease is how long a machine's ID stays reserved after its last segment. Then another machine that
// has the whole history may take the ID over.
const Lease = 10 * time.Minute

// Claim identifies the machine that took over an id.
type Claim struct {
	By   string    `json:"by"`   // 32 hexadecimal digits, known only to that machine's store until they are sent
	Time time.Time `json:"time"` // according to that machine's clock
}

// same reports whether heads with these two claims belong to the same writer.
func (c *Claim) same(o *Claim) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.By == o.By
}

// Head describes what a machine has sent.
type Head struct {
	Machine  Machine   `json:"machine"`
	Time     time.Time `json:"time"`
	N        uint64    `json:"n"`   // number of segments
	Log      string    `json:"log"` // log of the newest segment, the end of the chain
	Seq      uint64    `json:"seq"`
	Versions uint64    `json:"versions"` // number of versions sent
	Bytes    int64     `json:"bytes"`    // size of all segments
	List     string    `json:"list,omitempty"`
	Segments []Segment `json:"segments"` // the segments that are in no list
	Base     *Base     `json:"base,omitempty"`
	Claim    *Claim    `json:"claim,omitempty"` // nil: the writer is the machine that began the history
	// Former lists the machines that wrote under this ID before Machine, oldest first.
	Former []Former `json:"former,omitempty"`

	// Prune writes the following fields.
	Gen     int       `json:"gen,omitempty"`     // number of marks so far
	Dropped string    `json:"dropped,omitempty"` // hash of the list of segments whose contents may be gone
	Marked  time.Time `json:"marked,omitzero"`   // time of the last mark, according to the server's clock

	drops string // result of Bucket.drops before this head was read
}

// Former is a machine whose ID another one took over. It remains the author of the versions that it
// sent.
type Former struct {
	Machine Machine `json:"machine"`
	N       uint64  `json:"n"`   // its last segment
	Seq     uint64  `json:"seq"` // its last version
}

// Writer is a machine with the range of versions that it wrote under an ID.
type Writer struct {
	Machine
	First, Last uint64 // Last is 0 for the present writer
}

// Writers returns all machines that wrote under the head's id, oldest first.
func (h Head) Writers() []Writer {
	out := make([]Writer, 0, len(h.Former)+1)
	first := uint64(1)
	for _, f := range h.Former {
		out = append(out, Writer{f.Machine, first, f.Seq})
		first = f.Seq + 1
	}
	return append(out, Writer{h.Machine, first, 0})
}

// Authors returns all machines that wrote versions of a history, oldest first. It includes the
// machines of the histories that this one is based on.
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

// formerly returns the former machines for the link of segment n. It returns nil unless another
// machine begins with this segment.
func (h Head) formerly(n uint64) []Former {
	i := slices.IndexFunc(h.Former, func(f Former) bool { return f.N == n-1 })
	return redactedFormer(h.Former[:i+1])
}

// redactedFormer returns former machines as the bucket shows them.
func redactedFormer(all []Former) []Former {
	all = slices.Clone(all)
	for i := range all {
		all[i].Machine = all[i].Machine.redacted()
	}
	return all
}

// Base identifies the history from which another one was resumed, and its last segment at that
// time.
type Base struct {
	Machine string `json:"machine"`
	N       uint64 `json:"n"`
	Log     string `json:"log"`
	Seq     uint64 `json:"seq"`
	// Drops identifies the contents that had been dropped from the base when it was read, see
	// Bucket.drops.
	Drops string `json:"drops,omitempty"`
}

// list holds segments and names the previous list.
type list struct {
	Machine  string    `json:"machine"`
	List     string    `json:"list,omitempty"`
	Segments []Segment `json:"segments"`
	Gen      int       `json:"gen,omitempty"`
}

// dropped lists the segments whose contents may be gone, as a bit set starting at segment 1.
type dropped struct {
	Machine  string `json:"machine"`
	Gen      int    `json:"gen"` // Gen of the first head that names the list
	Segments []byte `json:"segments"`
}

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

// link is stored in the log of each segment.
type link struct {
	Machine  string `json:"machine"`
	N        uint64 `json:"n"`
	Previous string `json:"previous,omitempty"` // the previous log
	Contents string `json:"contents,omitempty"`
	Base     *Base  `json:"base,omitempty"` // only in the first segment
	// Former lists the former machines. It is set in the first segment of a machine that took the
	// ID over, because the head is not in the chain of hashes.
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

// unseal decodes the object key, which seal encoded as this kind.
func unseal(kind, key string, b []byte, v any) error {
	first, rest, ok := bytes.Cut(b, []byte{'\n'})
	switch {
	case !ok || !bytes.HasPrefix(first, []byte(magic)):
		return fmt.Errorf("%w: %s was not written by cachebro", ErrForged, key)
	case !strings.HasPrefix(string(first), magic+"1 ") && !strings.HasPrefix(string(first), magic+"2 "):
		return fmt.Errorf("%w: the format of %s in the bucket is %.60q", store.ErrNewer, key, first)
	case string(first[len(magic)+2:]) != kind+" "+text.Hash(rest):
		return fmt.Errorf("%w: %s has another checksum", ErrForged, key)
	}
	if err := json.Unmarshal(rest, v); err != nil {
		return fmt.Errorf("%w: %s cannot be read", ErrForged, key)
	}
	return nil
}

// Names in a bucket come from others. Only these forms are accepted.
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

// valid reports whether all names in a segment have their proper form.
func (s Segment) valid() bool {
	object := func(hash string, size int64) bool { return validHash(hash) && size > 0 && size <= maxObject }
	return s.Gen >= 0 && object(s.Log, s.LogSize) && (s.Contents == "" || object(s.Contents, s.ContentsSize))
}

// body returns the head as stored in a bucket.
func (h Head) body() []byte {
	h.Machine, h.Former = h.Machine.redacted(), redactedFormer(h.Former)
	return seal("head", h.Machine.Sealed != "", h)
}

// head reads the head of a machine.
func (b *Bucket) head(ctx context.Context, machine string) (h Head, st stamp, err error) {
	body, st, err := b.get(ctx, headKey(machine), maxHead)
	if err == nil {
		err = unseal("head", headKey(machine), body, &h)
	}
	if err == nil && !h.valid(machine) {
		err = fmt.Errorf("%w: the head of %s belongs to another machine", ErrForged, machine)
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

// valid reports whether the head belongs to this machine and all its names have their proper form.
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
		inOrder := was.N < f.N && f.N <= h.N && was.Seq <= f.Seq && f.Seq <= h.Seq
		if f.Machine.ID != machine || !inOrder {
			return false
		}
		was = f
	}
	return true
}

// machines returns the machines that write here, possibly none.
func (b *Bucket) machines(ctx context.Context) (all machines, etag string, err error) {
	body, st, err := b.get(ctx, "machines", maxMachines)
	if errors.Is(err, ErrMissing) {
		return all, "", nil
	}
	if err == nil {
		err = unseal("machines", "machines", body, &all)
	}
	for i, m := range all.Machines {
		switch {
		case err != nil:
		case !validID(m.ID):
			err = fmt.Errorf("%w: there is no machine %.40q", ErrForged, m.ID)
		default:
			err = b.reveal(&all.Machines[i])
		}
	}
	if err != nil {
		return machines{}, "", err
	}
	return all, st.etag, nil
}
