package store

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"

	"cachebro/store/content"

	"github.com/fxamacker/cbor/v2"
)

// DecMode decodes records. Paths are raw bytes in text strings, because file names need not be
// UTF-8.
var DecMode = func() cbor.DecMode {
	m, err := cbor.DecOptions{UTF8: cbor.UTF8DecodeInvalid}.DecMode()
	if err != nil {
		panic(err) // the options are constants
	}
	return m
}()

// State is the one record that makes a batch visible (key m state). Number 9 is reserved: older
// programs wrote a field with it.
type State struct {
	Seq        uint64 `cbor:"1,keyasint,omitempty"` // newest version
	Checkpoint []byte `cbor:"2,keyasint,omitempty"` // the caller's position in what it ingests
	Versions   uint64 `cbor:"3,keyasint,omitempty"` // records in the log
	Files      uint64 `cbor:"4,keyasint,omitempty"` // live paths that are not directories
	Blobs      uint64 `cbor:"5,keyasint,omitempty"`
	BlobBytes  int64  `cbor:"6,keyasint,omitempty"` // as stored
	RawBytes   int64  `cbor:"7,keyasint,omitempty"` // of the contents
	GapCount   int64  `cbor:"8,keyasint,omitempty"`
	Loose      int64  `cbor:"10,keyasint,omitempty"` // bytes of contents that are not yet in a frame
	// BaselineRuns lists the runs of the log that hold only baselines, in order.
	BaselineRuns []Run `cbor:"11,keyasint,omitempty"`
}

// Run is a range of consecutive versions in the log, both ends included.
type Run struct {
	_        struct{} `cbor:",toarray"`
	From, To uint64
}

const (
	// minRun is the shortest run that is worth a seek.
	minRun  = 256
	maxRuns = 16
)

// noteRun extends the last run by a baseline, or begins a new run. Readers that do not want
// baselines skip the runs. Without the runs, showing the last twenty lines of the log would take
// minutes after the first scan of a million files.
func (st *State) noteRun(v *Version) {
	if v.Op != OpBaseline {
		return
	}
	n := len(st.BaselineRuns)
	switch {
	case n > 0 && st.BaselineRuns[n-1].To+1 == v.Seq:
		st.BaselineRuns[n-1].To = v.Seq
		return
	case n > 0 && st.BaselineRuns[n-1].len() < minRun:
		st.BaselineRuns = st.BaselineRuns[:n-1]
	case n == maxRuns:
		least := 0
		for i, r := range st.BaselineRuns {
			if r.len() < st.BaselineRuns[least].len() {
				least = i
			}
		}
		st.BaselineRuns = slices.Delete(st.BaselineRuns, least, least+1)
	}
	st.BaselineRuns = append(st.BaselineRuns, Run{From: v.Seq, To: v.Seq})
}

func (r Run) len() uint64 { return r.To - r.From + 1 }

// baselineRunAt returns the run that contains a version, and whether the run is long enough to
// skip.
func (st *State) baselineRunAt(seq uint64) (Run, bool) {
	for _, r := range slices.Backward(st.BaselineRuns) {
		if r.From <= seq && seq <= r.To {
			return r, r.len() >= minRun/4
		}
	}
	return Run{}, false
}

func (st *State) counts() content.Counts {
	return content.Counts{Blobs: st.Blobs, Stored: st.BlobBytes, Raw: st.RawBytes, Loose: st.Loose}
}

func (st *State) setCounts(n content.Counts) {
	st.Blobs, st.Loose = n.Blobs, n.Loose
	st.BlobBytes, st.RawBytes = n.Stored, n.Raw
}

func encode(v any) []byte {
	b, err := cbor.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err)) // our own plain structs
	}
	return b
}

func decode(b []byte, v any) error {
	if err := DecMode.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: decode %T: %v", ErrDamaged, v, err)
	}
	return nil
}

func decodeVersion(key, val []byte) (Version, error) {
	var v Version
	if len(key) != 9 {
		return v, fmt.Errorf("%w: version key of %d bytes", ErrDamaged, len(key))
	}
	v, err := versionIn(val)
	if err != nil {
		return v, err
	}
	v.Seq = binary.BigEndian.Uint64(key[1:])
	return v, nil
}

// versionIn decodes a version without its number, which is not part of the encoding.
func versionIn(enc []byte) (v Version, err error) {
	if readVersion(enc, &v) {
		return v, nil
	}
	return versionFrom(enc)
}

// versionFrom decodes versions that encode did not write. It is separate from versionIn, because
// the library moves the decoded version to the heap.
func versionFrom(enc []byte) (v Version, err error) { return v, decode(enc, &v) }

// encodeCurrent returns the value of a c key: the version's number and its encoding.
func encodeCurrent(v *Version, enc []byte) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(enc)), v.Seq)
	return append(b, enc...)
}

func decodeCurrent(val []byte) (Version, error) {
	var v Version
	if len(val) < 8 {
		return v, fmt.Errorf("%w: short current record", ErrDamaged)
	}
	v, err := versionIn(val[8:])
	if err != nil {
		return v, err
	}
	v.Seq = binary.BigEndian.Uint64(val)
	return v, nil
}

// currentDeleted returns decodeCurrent(val).Deleted() at a fraction of the cost. After rm -rf of a
// large directory, nearly all keys visited belong to deleted paths.
func currentDeleted(val []byte) (bool, error) {
	if len(val) > 8 {
		if _, op, class, ok := skim(val[8:]); ok {
			return Version{Op: op, Class: class}.Deleted(), nil
		}
	}
	v, err := decodeCurrent(val)
	return v.Deleted(), err
}

// times is the value of a z key: the lowest and highest time in a block of the log.
type times struct {
	Min, Max int64
	// Who identifies the author of all versions of the block (see Version.Who), and Gap is the
	// longest pause between two of them. Who is 0 if the author or Gap is not known for certain.
	Who uint64
	Gap int64
}

func (t times) bytes() []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(t.Min))
	b = binary.BigEndian.AppendUint64(b, uint64(t.Max))
	if t.Who == 0 {
		return b
	}
	b = binary.BigEndian.AppendUint64(b, t.Who)
	return binary.BigEndian.AppendUint64(b, uint64(t.Gap))
}

func parseTimes(b []byte) (t times, ok bool) {
	if len(b) != 16 && len(b) != 32 {
		return t, false
	}
	t = times{Min: int64(binary.BigEndian.Uint64(b)), Max: int64(binary.BigEndian.Uint64(b[8:]))}
	if len(b) == 32 {
		t.Who, t.Gap = binary.BigEndian.Uint64(b[16:]), int64(binary.BigEndian.Uint64(b[24:]))
	}
	return t, true
}

// with returns the block extended by v, the next version in the log. known is false if v is the
// first version of its block.
func (t times) with(v *Version, known bool) times {
	if !known {
		return times{Min: v.Time, Max: v.Time, Who: v.Who()}
	}
	if t.Who != 0 && (v.Time < t.Max || v.Who() != t.Who) {
		t.Who = 0
	}
	t.Gap = max(t.Gap, v.Time-t.Max)
	t.Min, t.Max = min(t.Min, v.Time), max(t.Max, v.Time)
	return t
}

// Who returns a number, never 0, that identifies a version's author. It is computed from the
// process and the session, prompt and tool call that the process ran for. It is stored on disk, so
// the computation must not change.
func (v *Version) Who() uint64 {
	h := fnv.New64a()
	var b []byte
	b = binary.BigEndian.AppendUint32(b, v.Actor.PID)
	b = binary.BigEndian.AppendUint64(b, v.Actor.Start)
	b = binary.BigEndian.AppendUint32(b, v.Actor.UID)
	for _, s := range [...]string{v.Actor.Comm, string(v.Actor.Session), v.Actor.Agent, v.Actor.Prompt, v.Actor.ToolCall, v.Actor.Tool, v.Plan} {
		b = append(append(b, s...), 0)
	}
	if v.Actor.Line != 0 {
		b = binary.BigEndian.AppendUint64(b, uint64(v.Actor.Line))
	}
	h.Write(b)
	return max(h.Sum64(), 1)
}
