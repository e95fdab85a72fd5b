package remote

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"cachebro/store"
	"cachebro/store/leaf/text"
	"cachebro/store/portable"
)

// Errors of a sender that a retry does not resolve.
var (
	// ErrLost means that the bucket lacks data that was sent.
	ErrLost = errors.New("the bucket has lost what was sent")
	// ErrTaken means that another machine has taken over this history and continues it.
	ErrTaken = errors.New("this history was taken over")
	// ErrFull means that the list of machines is full. Readers reject a longer list.
	ErrFull = errors.New("the list of machines is full: use another prefix")
	// errCopied means that another machine writes under this ID with a copy of this state.
	errCopied = errors.New("another sender uses the same id")
)

// The KV sets in which a store records what was sent.
const (
	bucketState = "remote"      // state, origin, claim
	bucketSent  = "remote-sent" // hashes of the contents that were sent
)

// state records where a history is sent and how far. It is in the history's own store, so it
// disappears with the store.
type state struct {
	Place Place `json:"place"`
	// Recipients are the age recipients of everything that is sent. If it is empty, nothing is
	// encrypted.
	Recipients []string          `json:"recipients,omitempty"`
	Head       Head              `json:"head"` // the last head that is known to be in the bucket; N is 0 before the first one
	Position   portable.Position `json:"position"`
	// Note is a message for the user about the ID under which the history is sent.
	Note string `json:"note,omitempty"`
	// Taken means that another machine writes under the ID now.
	Taken bool `json:"taken,omitempty"`
	// Based means that this history's head is in the bucket. Prune reads it there, and keeps what
	// the history needs of its base.
	Based bool `json:"based,omitempty"`
	// Next is set while a head is being written. It remains set while it is unknown whether the
	// write succeeded.
	Next *next `json:"next,omitempty"`
}

type next struct {
	Head     Head              `json:"head"`
	Position portable.Position `json:"position"`
}

// origin records where a history came from.
type origin struct {
	Place      Place             `json:"place"`
	Base       Base              `json:"base"`
	Position   portable.Position `json:"position"`
	Recipients []string          `json:"recipients,omitempty"`
}

// Sender sends a history. Its methods must not be called concurrently.
type Sender struct {
	store  *store.Store
	o      portable.PartOptions
	kv     store.KV
	sent   store.KV
	st     *state // nil: no destination
	b      *Bucket
	etag   string // ETag of the head; "": unknown
	known  bool   // the bucket's head is known to be st.Head
	packed packed
	doubt  bool // the last answer was lost, so the object to be sent may already exist
}

// packed holds the last encrypted contents. Encrypting them again would give another hash, and an
// object whose answer was lost would not be recognised.
type packed struct {
	of   string // hash of the unencrypted contents
	body []byte
}

// NewSender continues from the state in the store. It sets o.Has.
func NewSender(s *store.Store, o portable.PartOptions) (*Sender, error) {
	r := &Sender{store: s, o: o, kv: s.KV(bucketState), sent: s.KV(bucketSent), doubt: true}
	r.o.Has = func(h store.Hash) (bool, error) {
		_, ok, err := r.sent.Get(string(h[:]))
		return ok, err
	}
	var st state
	ok, err := r.read("state", &st)
	if err == nil && ok {
		r.st = &st
	}
	return r, err
}

func (r *Sender) read(key string, v any) (ok bool, err error) {
	b, ok, err := r.kv.Get(key)
	if err == nil && ok {
		err = json.Unmarshal(b, v)
	}
	return ok, err
}

func (r *Sender) save() error {
	b, err := json.Marshal(r.st)
	if err != nil {
		return err
	}
	return r.kv.Set("state", b)
}

// Place returns the destination, or false if there is none.
func (r *Sender) Place() (Place, bool) {
	if r.st == nil {
		return Place{}, false
	}
	return r.st.Place, true
}

// Recipients returns the age recipients of the history, or none if it is not encrypted.
func (r *Sender) Recipients() []string {
	if r.st == nil {
		return nil
	}
	return r.st.Recipients
}

// Head describes what has been sent.
func (r *Sender) Head() Head {
	if r.st == nil {
		return Head{}
	}
	return r.st.Head
}

// Note returns a message for the user about the ID under which this history is sent, or "".
func (r *Sender) Note() string {
	if r.st == nil {
		return ""
	}
	return r.st.Note
}

// Unsent returns an upper bound of the number of unsent versions. It is not exact, because some
// versions are never sent.
func (r *Sender) Unsent() uint64 {
	if r.st == nil {
		return 0
	}
	return r.store.Seq() - min(r.store.Seq(), r.st.Position.Seq)
}

// Add begins to send to a place. It writes to the bucket, so missing rights are noticed here. name
// is the name of this computer.
//
// A history that was resumed from that place is continued there. It keeps its ID if the ID's lease
// has expired and nothing was sent since; otherwise it gets a new ID. The method Note then tells
// which ID is used and why. A history that another machine has taken over continues under a new ID,
// based on what it had sent.
//
// to lists the age recipients to encrypt for. If it is empty, the recipients of the continued
// history are used. A history without recipients is not encrypted, and Add refuses to store it next
// to encrypted ones.
func (r *Sender) Add(ctx context.Context, p Place, name string, to []string) error {
	b, err := Dial(p)
	if err != nil {
		return err
	}
	st := &state{Place: p, Recipients: to, Head: Head{Machine: Machine{ID: newID(), Name: name, Root: r.o.Root, Since: time.Now().UTC().Round(0)}}}
	var from origin
	resumed, err := r.read("origin", &from)
	if err != nil {
		return err
	}
	resumed = resumed && from.Place.same(p)
	if len(to) == 0 && r.st != nil && r.st.Place.same(p) {
		st.Recipients = r.st.Recipients
	} else if len(to) == 0 && resumed {
		st.Recipients = from.Recipients
	}
	if err := st.Head.Machine.sealNames(st.Recipients); err != nil {
		return err
	}
	tag := stamp{}
	if was := r.st; was != nil && was.Taken && was.Place.same(p) && was.Head.N > 0 {
		h := was.Head
		drops := ""
		if h.Base != nil {
			drops = h.Base.Drops
		}
		st.Head.Base = &Base{Machine: h.Machine.ID, N: h.N, Log: h.Log, Seq: h.Seq, Drops: joinDrops(h.Dropped, drops)}
		st.Head.Seq, st.Position = h.Seq, was.Position
	}
	if err := r.forget(); err != nil { // the bucket may drop what was sent under another ID
		return err
	}
	if resumed && st.Head.Base == nil {
		st.Head.Base, st.Position = &from.Base, from.Position
		st.Head.Seq = from.Base.Seq
		h, t, err := r.claim(ctx, b, from.Base, st.Head.Machine)
		switch {
		case errors.Is(err, errHeld):
			st.Note = fmt.Sprintf("%v: this history continues under a new id", err)
		case err != nil:
			return err
		default:
			st.Note = fmt.Sprintf("continues as %s; the machine that used this id before can no longer send under it", h.Machine.ID)
			h.Machine.Name, h.Machine.Root = name, r.o.Root // the name and root in h may be encrypted, and there is no key here
			st.Head, tag = h, t
		}
	}
	if err := enter(ctx, b, st.Head.Machine); err != nil {
		return err
	}
	r.st = st
	r.b = b
	r.etag = tag.etag
	r.known = tag.etag != ""
	r.packed = packed{}
	return r.save()
}

// maxFormer limits how often an ID is taken over, because a head lists all its former machines.
const maxFormer = 256

// Enlist adds this history to the list of machines, if missing.
func (r *Sender) Enlist(ctx context.Context) error {
	if r.st == nil {
		return nil
	}
	b, err := Dial(r.st.Place)
	if err != nil {
		return err
	}
	return enter(ctx, b, r.st.Head.Machine)
}

// errHeld means that the id could not be taken over.
var errHeld = errors.New("not taken over")

// claim takes over the ID of the history that this one was resumed from. It writes the head only if
// no other machine has written it meanwhile. It returns errHeld if the ID belongs to another
// machine.
func (r *Sender) claim(ctx context.Context, b *Bucket, from Base, m Machine) (h Head, st stamp, err error) {
	var by string
	if ok, err := r.read("claim", &by); err != nil {
		return h, st, err
	} else if !ok { // stored before use, so that a retry after a lost answer sends the same value
		by = newID()
		if err := r.kv.Set("claim", fmt.Appendf(nil, "%q", by)); err != nil {
			return h, st, err
		}
	}
	h, st, err = b.head(ctx, from.Machine)
	ours := h.Claim.same(&Claim{By: by})
	switch {
	case err != nil:
		return h, st, err
	case h.N != from.N || h.Log != from.Log:
		return h, st, fmt.Errorf("%w: %s has sent more since", errHeld, h.Machine.Called())
	case ours:
		return h, st, nil
	case h.Machine.Sealed != "" && m.Sealed == "":
		return h, st, errBare
	case st.age < 0 || st.etag == "":
		return h, st, fmt.Errorf("%w: the server does not say when %s last sent something", errHeld, h.Machine.Called())
	case st.age < Lease:
		return h, st, fmt.Errorf("%w: %s sent something %s ago and holds its id for %s", errHeld, h.Machine.Called(), st.age, Lease)
	}
	was := h.Machine
	if len(h.Former) == maxFormer {
		return h, st, fmt.Errorf("%w: %d machines have already continued it", errHeld, maxFormer)
	}
	if n := len(h.Former); h.N > 0 && (n == 0 || h.Former[n-1].N < h.N) {
		h.Former = append(slices.Clone(h.Former), Former{Machine: was, N: h.N, Seq: from.Seq})
	}
	h.Machine = m
	h.Machine.ID, h.Machine.Since = was.ID, was.Since
	h.Claim = &Claim{By: by, Time: time.Now().UTC()}
	etag, err := b.put(ctx, headKey(h.Machine.ID), h.body(), st.etag)
	if errors.Is(err, errChanged) { // by another machine, or by this one in an attempt whose answer was lost
		h, st, err = b.head(ctx, from.Machine)
		if err == nil && !h.Claim.same(&Claim{By: by}) {
			err = fmt.Errorf("%w: %s took it over first", errHeld, h.Machine.Called())
		}
		return h, st, err
	}
	return h, stamp{etag: etag}, err
}

// Remove ends sending. It deletes nothing from the bucket.
func (r *Sender) Remove() error {
	if err := r.forget(); err != nil {
		return err
	}
	r.st, r.b = nil, nil
	return r.kv.Delete("state")
}

// forget deletes the record of what was sent.
func (r *Sender) forget() error {
	for {
		some := map[string][]byte{}
		err := r.sent.Scan("", func(key string, _ []byte) error {
			some[key] = nil
			if len(some) == 4000 {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			return err
		}
		if len(some) == 0 {
			return nil
		}
		if err := r.sent.SetAll(some); err != nil {
			return err
		}
	}
}

var errEnough = errors.New("enough")

func newID() string {
	b := make([]byte, 16)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// errBare means that an unencrypted history would be stored next to encrypted ones.
var errBare = errors.New("the histories there are encrypted: name a recipient for this one too")

// enter adds a machine to the bucket's list of machines.
func enter(ctx context.Context, b *Bucket, m Machine) error {
	m = m.redacted()
	for range 20 {
		all, etag, err := b.machines(ctx)
		if err != nil {
			return err
		}
		if len(all.Machines) == 0 && etag == "" {
			etag = absent
		}
		hidden := m.Sealed != ""
		for i, o := range all.Machines {
			if o.Sealed != "" && m.Sealed == "" {
				return errBare
			}
			hidden = hidden || o.Sealed != ""
			all.Machines[i] = o.redacted()
		}
		i := slices.IndexFunc(all.Machines, func(o Machine) bool { return o.ID == m.ID })
		switch {
		case i < 0:
			all.Machines = append(all.Machines, m)
		case all.Machines[i] == m:
			return nil
		default:
			all.Machines[i] = m
		}
		body := seal("machines", hidden, all)
		if len(body) > maxMachines {
			return ErrFull
		}
		_, err = b.put(ctx, "machines", body, etag)
		if !errors.Is(err, errChanged) {
			return err
		}
	}
	return fmt.Errorf("write the list of machines, several attempts: %w", errChanged)
}

// Send sends one part of the unsent history. more means that there is another part.
func (r *Sender) Send(ctx context.Context) (more bool, err error) {
	if r.st == nil {
		return false, nil
	}
	if r.b == nil {
		r.b, err = Dial(r.st.Place)
		if err != nil {
			return false, err
		}
	}
	err = r.checkHead(ctx)
	if errors.Is(err, errCopied) { // from here on, the two histories have different versions
		return true, r.continueUnderNewID(ctx)
	}
	if err != nil {
		return false, err
	}
	if whole, err := r.based(ctx); whole || err != nil {
		return whole, err
	}
	part, err := portable.NextPart(ctx, r.store, r.st.Position, r.o)
	if err != nil {
		return false, err
	}
	if part.Empty() {
		if part.To.Seq != r.st.Position.Seq || part.More {
			r.st.Position = part.To
			err = r.save()
		}
		return part.More, err
	}
	err = r.segment(ctx, part)
	switch {
	case errors.Is(err, errCopied):
		return true, r.continueUnderNewID(ctx)
	case errors.Is(err, errMarked):
		return true, nil
	}
	return (part.More || r.st.Head.Base != nil && !r.st.Based) && err == nil, err
}

// based checks that the base of this history is still complete. A Prune that did not know about
// this history may have dropped contents of the base after they were read. Then everything is sent
// again under a new ID (whole). Once this history's head is in the bucket, Prune keeps all contents
// that the history needs.
func (r *Sender) based(ctx context.Context) (whole bool, err error) {
	base := r.st.Head.Base
	if base == nil || r.st.Based {
		return false, nil
	}
	drops := ""
	h, _, err := r.b.head(ctx, base.Machine)
	if err == nil {
		drops, err = r.b.drops(ctx, h)
	}
	switch {
	case err != nil && !errors.Is(err, ErrMissing):
		return false, err
	case err != nil || drops != base.Drops:
		m := r.st.Head.Machine
		m.ID, m.Since = newID(), time.Now().UTC().Round(0)
		if err := enter(ctx, r.b, m); err != nil {
			return false, err
		}
		if err := r.forget(); err != nil {
			return false, err
		}
		r.st = &state{Place: r.st.Place, Recipients: r.st.Recipients, Head: Head{Machine: m},
			Note: fmt.Sprintf("the bucket no longer has the whole history that %s continues, so all of it is sent again, as %s", r.st.Head.Machine.ID, m.ID)}
		r.etag, r.known = "", false
		r.packed = packed{}
		return true, r.save()
	case r.st.Head.N > 0:
		r.st.Based = true
		return false, r.save()
	}
	return false, nil
}

// errMarked means that contents of this history may have been dropped since the part was made.
var errMarked = errors.New("the bucket was pruned meanwhile")

// adoptPruned adopts the changes that Prune made to this history's head. Contents sent before those
// changes count as unsent.
func (r *Sender) adoptPruned(h Head) error {
	if h.Gen == r.st.Head.Gen {
		return nil
	}
	if h.Gen < r.st.Head.Gen {
		return fmt.Errorf("%w: its head is older than the last prune", ErrLost)
	}
	if err := r.forget(); err != nil {
		return err
	}
	r.st.Head.Gen, r.st.Head.Dropped, r.st.Head.Marked = h.Gen, h.Dropped, h.Marked
	r.packed = packed{}
	return r.save()
}

// segment sends a part, and then the head that names it.
func (r *Sender) segment(ctx context.Context, part *portable.Part) error {
	was := r.st.Head
	seg := Segment{N: was.N + 1, Seq: part.To.Seq, Versions: part.Versions, Gen: was.Gen}
	if part.Contents != nil {
		if clear := text.Hash(part.Contents); r.packed.of != clear {
			body, err := encrypted(part.Contents, r.st.Recipients)
			if err != nil {
				return err
			}
			r.packed = packed{clear, body}
		}
		seg.Contents, seg.ContentsSize = text.Hash(r.packed.body), int64(len(r.packed.body))
		if err := r.put(ctx, contentsKey(was.Machine.ID, seg), r.packed.body); err != nil {
			return err
		}
	}
	l := link{Machine: was.Machine.ID, N: seg.N, Previous: was.Log, Contents: seg.Contents, Gen: seg.Gen, Former: was.formerly(seg.N)}
	if seg.N == 1 {
		l.Base = was.Base
	}
	joint, err := json.Marshal(l)
	if err != nil {
		return err
	}
	log, err := part.Log(joint)
	if err != nil {
		return err
	}
	log, err = encrypted(log, r.st.Recipients)
	if err != nil {
		return err
	}
	seg.Log, seg.LogSize = text.Hash(log), int64(len(log))
	if err := r.put(ctx, logKey(was.Machine.ID, seg.Log), log); err != nil {
		return err
	}
	h := was
	h.N, h.Log = seg.N, seg.Log
	h.Seq, h.Time = seg.Seq, time.Now().UTC()
	h.Versions += uint64(seg.Versions)
	h.Bytes += seg.LogSize + seg.ContentsSize
	if len(h.Segments) >= listAfter {
		older := seal("list", h.Machine.Sealed != "", list{Machine: h.Machine.ID, List: h.List, Segments: h.Segments, Gen: h.Gen})
		h.List, h.Segments = text.Hash(older), nil
		if err := r.put(ctx, listKey(h.Machine.ID, h.List), older); err != nil {
			return err
		}
	}
	h.Segments = append(slices.Clone(h.Segments), seg)

	// From here on, only the bucket shows whether the head was written.
	r.st.Next = &next{Head: h, Position: part.To}
	if err := r.save(); err != nil {
		return err
	}
	r.known = false
	when := r.etag
	if was.N == 0 {
		when = absent
	}
	etag, err := r.b.put(ctx, headKey(h.Machine.ID), h.body(), when)
	// If the answer to an earlier attempt was lost, this sender itself changed the head. Otherwise
	// another sender did, or the head is gone.
	if errors.Is(err, errChanged) || errors.Is(err, ErrMissing) {
		if e := r.checkHead(ctx); e != nil || r.st.Head.N == h.N {
			return e
		}
		if r.st.Head.Gen != was.Gen {
			return errMarked
		}
	}
	if err != nil {
		return err
	}
	return r.adoptHead(etag, part.Sent)
}

// put writes an object that is named by its hash. If the answer to an earlier PUT was lost, it
// first checks whether the object exists.
func (r *Sender) put(ctx context.Context, key string, body []byte) error {
	if r.doubt {
		if there, err := r.b.has(ctx, key, len(body)); there || err != nil {
			return err
		}
	}
	_, err := r.b.put(ctx, key, body, always)
	r.doubt = err != nil
	return err
}

// adoptHead makes the head that was being written the sender's current head.
func (r *Sender) adoptHead(etag string, sent []store.Hash) error {
	r.st.Head, r.st.Position = r.st.Next.Head, r.st.Next.Position
	r.st.Next = nil
	r.etag, r.known = etag, etag != ""
	r.packed = packed{}
	vals := map[string][]byte{}
	for _, h := range sent {
		vals[string(h[:])] = []byte{}
	}
	if err := r.sent.SetAll(vals); err != nil {
		return err
	}
	return r.save()
}

// checkHead checks that the bucket's head is the one that this sender wrote last. It skips the
// check if that is known.
func (r *Sender) checkHead(ctx context.Context) error {
	if r.known {
		return nil
	}
	h, st, err := r.b.head(ctx, r.st.Head.Machine.ID)
	ours := h.Claim.same(r.st.Head.Claim)
	switch {
	case errors.Is(err, ErrMissing) && r.st.Head.N == 0:
		r.st.Next, r.known = nil, true
		return nil
	case errors.Is(err, ErrMissing):
		return fmt.Errorf("%w: %d segments were sent, but there is no head", ErrLost, r.st.Head.N)
	case err != nil:
		return err
	case st.etag == "":
		return fmt.Errorf("read %s: %w", headKey(h.Machine.ID), errNoETag)
	case ours && h.N == r.st.Head.N && h.Log == r.st.Head.Log:
		r.st.Next = nil
		r.etag, r.known = st.etag, true
		return r.adoptPruned(h)
	case ours && r.st.Next != nil && h.N == r.st.Next.Head.N && h.Log == r.st.Next.Head.Log:
		return errors.Join(r.adoptHead(st.etag, nil), r.adoptPruned(h))
	case h.N < r.st.Head.N:
		return fmt.Errorf("%w: %d segments were sent, but its head lists %d", ErrLost, r.st.Head.N, h.N)
	case !ours && h.Claim == nil:
		return fmt.Errorf("%w: its head is from before we took the history over", ErrLost)
	case !ours:
		return r.takenError(h)
	}
	return errCopied
}

// takenError returns the error that names the machine that continues this history. That machine's
// history may include the last segment of this sender, even if this sender received no answer.
func (r *Sender) takenError(h Head) error {
	r.st.Taken = true
	if err := r.save(); err != nil {
		return err
	}
	return fmt.Errorf("%w: %s has continued it since %s", ErrTaken, h.Machine.Called(), h.Claim.Time.Format(time.RFC3339))
}

// continueUnderNewID gives the history a new ID, because another machine sends a copy of it under
// the present one.
func (r *Sender) continueUnderNewID(ctx context.Context) error {
	m := r.st.Head.Machine
	if err := r.Add(ctx, r.st.Place, m.Name, nil); err != nil {
		return err
	}
	r.st.Note = fmt.Sprintf("another machine sends under the id %s with a copy of this state, so this history continues as %s", m.ID, r.st.Head.Machine.ID)
	return r.save()
}
