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

// Errors of a sender that trying again does not mend.
var (
	// ErrLost: the bucket does not have what was sent.
	ErrLost = errors.New("the bucket has lost what was sent")
	// ErrTaken: another machine goes on with this history.
	ErrTaken = errors.New("this history was taken over")
	// ErrFull: so many machines write there that no reader takes a longer list of them.
	ErrFull = errors.New("there is no room for another machine: use another prefix")
	// errCopied: somebody else writes under our id, with a copy of our state.
	errCopied = errors.New("somebody else sends under the same id")
)

// The names of what a store keeps about sending.
const (
	bucketState = "remote"      // state, origin, claim
	bucketSent  = "remote-sent" // hashes of the contents that were sent
)

// state is how far a history has been sent, and where to. It lies in the history's own
// store, so whoever replaces that begins anew.
type state struct {
	Place Place `json:"place"`
	// Recipients are those that all is encrypted for; none: it is not.
	Recipients []string          `json:"recipients,omitempty"`
	Head       Head              `json:"head"` // as the bucket has it, or is to have it
	Position   portable.Position `json:"position"`
	// Note is what a person should know of the id.
	Note string `json:"note,omitempty"`
	// Taken: another machine writes under the id now.
	Taken bool `json:"taken,omitempty"`
	// Based: who prunes the bucket sees that this history needs those it goes on behind.
	Based bool `json:"based,omitempty"`
	// Next is what a head is being written for: whether it was is not known.
	Next *next `json:"next,omitempty"`
}

type next struct {
	Head     Head              `json:"head"`
	Position portable.Position `json:"position"`
}

// origin is where a history came from.
type origin struct {
	Place      Place             `json:"place"`
	Base       Base              `json:"base"`
	Position   portable.Position `json:"position"`
	Recipients []string          `json:"recipients,omitempty"`
}

// Sender sends a history. Its methods must not be called at once.
type Sender struct {
	store  *store.Store
	o      portable.PartOptions
	kv     store.KV
	sent   store.KV
	st     *state // nil: nowhere
	b      *Bucket
	etag   string // of the head; "": not known
	known  bool   // the bucket's head is st.Head
	packed packed
	doubt  bool // what is to be sent may be there already: the last answer was lost
}

// packed is what was encrypted last: encrypted again it would have another hash, and a
// lost answer could not be told from a new object.
type packed struct {
	of   string // hash of the clear contents
	body []byte
}

// NewSender continues where the store says it stood. o.Has is the sender's own.
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

// Place is where it sends to; false: nowhere.
func (r *Sender) Place() (Place, bool) {
	if r.st == nil {
		return Place{}, false
	}
	return r.st.Place, true
}

// Recipients are those that the history is encrypted for; none: it is not.
func (r *Sender) Recipients() []string {
	if r.st == nil {
		return nil
	}
	return r.st.Recipients
}

// Head is what has been sent.
func (r *Sender) Head() Head {
	if r.st == nil {
		return Head{}
	}
	return r.st.Head
}

// Note is what a person should know of the id that this history is sent under; "":
// nothing.
func (r *Sender) Note() string {
	if r.st == nil {
		return ""
	}
	return r.st.Note
}

// Unsent is how many versions are not sent yet, at most: some may stay here.
func (r *Sender) Unsent() uint64 {
	if r.st == nil {
		return 0
	}
	return r.store.Seq() - min(r.store.Seq(), r.st.Position.Seq)
}

// Add begins to send to a place. It writes to the bucket, so whoever may not learns it
// here. name is that of this computer. A history that came from there goes on behind
// what it had then: under its id when the lease of that has run out and nothing was sent
// since, else under a new one; Note tells which, and why. One that was taken over goes on
// under a new id behind what it had sent.
//
// to are the age recipients to encrypt for. None means those of the history that it
// goes on with; a history that has none is not encrypted, which is refused beside others
// that are.
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
	if err := st.Head.Machine.hide(st.Recipients); err != nil {
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
	if err := r.forget(); err != nil { // what was sent under another id may be dropped there
		return err
	}
	if resumed && st.Head.Base == nil {
		st.Head.Base, st.Position = &from.Base, from.Position
		st.Head.Seq = from.Base.Seq
		h, t, err := r.claim(ctx, b, from.Base, st.Head.Machine)
		switch {
		case errors.Is(err, errHeld):
			st.Note = fmt.Sprintf("%v: this history goes on under an id of its own", err)
		case err != nil:
			return err
		default:
			st.Note = fmt.Sprintf("goes on as %s; the machine that sent under this id before is refused when it comes back", h.Machine.ID)
			h.Machine.Name, h.Machine.Root = name, r.o.Root // without a key they are not read
			st.Head, tag = h, t
		}
	}
	if err := enter(ctx, b, st.Head.Machine); err != nil {
		return err
	}
	r.st, r.b, r.etag, r.known, r.packed = st, b, tag.etag, tag.etag != "", packed{}
	return r.save()
}

// maxFormer bounds how often an id is taken over: a head names all that had it.
const maxFormer = 256

// Enlist enters this history into the list of machines, if it is missing there.
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

// errHeld: somebody else has the id.
var errHeld = errors.New("not taken over")

// claim takes over the id of the history that this one was resumed from, by a write of
// its head that succeeds only if nobody else has written it meanwhile. errHeld: it is
// another's.
func (r *Sender) claim(ctx context.Context, b *Bucket, from Base, m Machine) (h Head, st stamp, err error) {
	var by string
	if ok, err := r.read("claim", &by); err != nil {
		return h, st, err
	} else if !ok { // kept before it is used: an answer may be lost
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
		return h, st, fmt.Errorf("%w: the server does not say when %s has sent last", errHeld, h.Machine.Called())
	case st.age < Lease:
		return h, st, fmt.Errorf("%w: %s has sent %s ago and holds its id for %s", errHeld, h.Machine.Called(), st.age, Lease)
	}
	was := h.Machine
	if len(h.Former) == maxFormer {
		return h, st, fmt.Errorf("%w: %d machines have gone on with it", errHeld, maxFormer)
	}
	if n := len(h.Former); h.N > 0 && (n == 0 || h.Former[n-1].N < h.N) {
		h.Former = append(slices.Clone(h.Former), Former{Machine: was, N: h.N, Seq: from.Seq})
	}
	h.Machine = m
	h.Machine.ID, h.Machine.Since = was.ID, was.Since
	h.Claim = &Claim{By: by, Time: time.Now().UTC()}
	etag, err := b.put(ctx, headKey(h.Machine.ID), h.body(), st.etag)
	if errors.Is(err, errChanged) { // by another, or by ourselves when the answer to a first try was lost
		h, st, err = b.head(ctx, from.Machine)
		if err == nil && !h.Claim.same(&Claim{By: by}) {
			err = fmt.Errorf("%w: %s was first", errHeld, h.Machine.Called())
		}
		return h, st, err
	}
	return h, stamp{etag: etag}, err
}

// Remove ends sending; the bucket keeps what it has.
func (r *Sender) Remove() error {
	if err := r.forget(); err != nil {
		return err
	}
	r.st, r.b = nil, nil
	return r.kv.Delete("state")
}

// forget what was sent.
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

// errBare: one would show what others hide.
var errBare = errors.New("the histories there are encrypted: name a recipient for this one too")

// enter puts a machine into the list of those that write here.
func enter(ctx context.Context, b *Bucket, m Machine) error {
	m = m.public()
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
			all.Machines[i] = o.public()
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
	return fmt.Errorf("write machines: %w, again and again", errChanged)
}

// Send sends one part of what is not sent yet; more: there is another one.
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
	err = r.look(ctx)
	if errors.Is(err, errCopied) { // what is ours has other numbers from here on
		return true, r.anew(ctx)
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
		return true, r.anew(ctx)
	case errors.Is(err, errMarked):
		return true, nil
	}
	return (part.More || r.st.Head.Base != nil && !r.st.Based) && err == nil, err
}

// based makes sure that what this history goes on behind stays. Contents of it that were
// dropped after they were read, by somebody who did not know of us, may be needed by
// us alone: then all is sent under a new id. Once our head is there and nothing was
// dropped until then, nobody drops what we need. whole: it is begun anew.
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
			Note: fmt.Sprintf("the bucket no longer has all of what %s went on behind: all of it is sent again, as %s", r.st.Head.Machine.ID, m.ID)}
		r.etag, r.known, r.packed = "", false, packed{}
		return true, r.save()
	case r.st.Head.N > 0:
		r.st.Based = true
		return false, r.save()
	}
	return false, nil
}

// errMarked: contents of ours may be gone from the bucket since the part was made.
var errMarked = errors.New("the bucket was pruned meanwhile")

// heed takes over what Prune has written into our head: what was sent before counts as
// sent no more.
func (r *Sender) heed(h Head) error {
	if h.Gen == r.st.Head.Gen {
		return nil
	}
	if h.Gen < r.st.Head.Gen {
		return fmt.Errorf("%w: its head is from before it was pruned", ErrLost)
	}
	if err := r.forget(); err != nil {
		return err
	}
	r.st.Head.Gen, r.st.Head.Dropped, r.st.Head.Marked = h.Gen, h.Dropped, h.Marked
	r.packed = packed{}
	return r.save()
}

// segment sends a part, then the head that names it.
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
	h.N, h.Log, h.Seq, h.Time = seg.N, seg.Log, seg.Seq, time.Now().UTC()
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

	// From here on nobody can tell whether the head was written but by looking.
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
	// Changed by ourselves, when the answer to a first try was lost; or it is gone.
	if errors.Is(err, errChanged) || errors.Is(err, ErrMissing) {
		if e := r.look(ctx); e != nil || r.st.Head.N == h.N {
			return e
		}
		if r.st.Head.Gen != was.Gen {
			return errMarked
		}
	}
	if err != nil {
		return err
	}
	return r.take(etag, part.Sent)
}

// put writes an object that is named by its hash. One that may be there already, because
// the answer to its PUT was lost, is looked for first.
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

// take makes the head that was being written the present one.
func (r *Sender) take(etag string, sent []store.Hash) error {
	r.st.Head, r.st.Position, r.st.Next = r.st.Next.Head, r.st.Next.Position, nil
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

// look compares the bucket's head with ours, where that is not known.
func (r *Sender) look(ctx context.Context) error {
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
		return fmt.Errorf("%w: %d segments were, and there is no head", ErrLost, r.st.Head.N)
	case err != nil:
		return err
	case st.etag == "":
		return fmt.Errorf("read %s: %w", headKey(h.Machine.ID), errUnnamed)
	case ours && h.N == r.st.Head.N && h.Log == r.st.Head.Log:
		r.st.Next, r.etag, r.known = nil, st.etag, true
		return r.heed(h)
	case ours && r.st.Next != nil && h.N == r.st.Next.Head.N && h.Log == r.st.Next.Head.Log:
		return errors.Join(r.take(st.etag, nil), r.heed(h))
	case h.N < r.st.Head.N:
		return fmt.Errorf("%w: %d segments were, and it has %d", ErrLost, r.st.Head.N, h.N)
	case !ours && h.Claim == nil:
		return fmt.Errorf("%w: its head is from before we took the history over", ErrLost)
	case !ours:
		return r.taken(h)
	}
	return errCopied
}

// taken tells who goes on with our history. A segment of ours that nobody answered for
// may be in it.
func (r *Sender) taken(h Head) error {
	r.st.Taken = true
	if err := r.save(); err != nil {
		return err
	}
	return fmt.Errorf("%w: %s goes on with it since %s", ErrTaken, h.Machine.Called(), h.Claim.Time.Format(time.RFC3339))
}

// anew goes on under another id.
func (r *Sender) anew(ctx context.Context) error {
	m := r.st.Head.Machine
	if err := r.Add(ctx, r.st.Place, m.Name, nil); err != nil {
		return err
	}
	r.st.Note = fmt.Sprintf("somebody else sends under the id %s with a copy of this state: this history goes on as %s", m.ID, r.st.Head.Machine.ID)
	return r.save()
}
