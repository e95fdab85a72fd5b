package sessions

import (
	"bytes"
	"compress/flate"
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"cachebro/store/wire"
)

// This file keeps the outputs of commands that the model was given in fewer words, with lines
// left out, for as long as the session lasts: "cachebro output ID" shows them in full.
//
// They are in memory only, compressed and within a budget; the oldest goes first. Package
// reshape never hands over what may contain a secret. mu guards everything and is held over
// nothing but memory.

const (
	maxOutput = 4 << 20  // bytes of one output
	budget    = 16 << 20 // bytes of all, compressed
	// holdFor is how long the daemon stays for kept outputs: a session that has not asked
	// by then has most likely ended silently, or does without them.
	holdFor = time.Hour
)

// Kept holds the outputs. The zero value is usable.
type Kept struct {
	mu   sync.Mutex // guards all below
	all  []kept     // the oldest first
	size int
	last time.Time // when the newest came
}

type kept struct {
	session, id string
	size        int    // of the text
	packed      []byte // deflate
}

// Handlers returns the handler of its request, by method.
func (k *Kept) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{wire.MOutput: k.handle}
}

// handle keeps the body if there is one, and else returns what is kept.
func (k *Kept) handle(_ context.Context, r *wire.Request) (any, []byte, error) {
	var q wire.OutputRequest
	if err := r.Decode(&q); err != nil {
		return nil, nil, err
	}
	if q.ID == "" {
		return nil, nil, wire.Errorf(wire.ErrBadRequest, "", "an output without an id")
	}
	if len(r.Body) > 0 {
		if q.Session == "" || len(r.Body) > maxOutput || !k.keep(q.Session, q.ID, r.Body) {
			return nil, nil, wire.Errorf(wire.ErrBadRequest, "", "an output of %d bytes is not kept", len(r.Body))
		}
		return wire.Empty{}, nil, nil
	}
	text, ok := k.get(q.ID)
	if !ok {
		return nil, nil, wire.Errorf(wire.ErrNotFound, "run the command again", "output %s is not kept any more: it is for its session, and the oldest goes first", q.ID)
	}
	return wire.Empty{}, text, nil
}

// keep takes a text. It returns false if the text is too large even alone.
func (k *Kept) keep(session, id string, text []byte) bool {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err != nil {
		return false
	}
	_, _ = w.Write(text) // into memory: cannot fail
	_ = w.Close()
	if b.Len() > budget {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dropLocked(func(o kept) bool { return o.id == id && o.session == session })
	k.last = time.Now()
	k.all = append(k.all, kept{session, id, len(text), bytes.Clone(b.Bytes())})
	for k.size += b.Len(); k.size > budget; {
		k.size -= len(k.all[0].packed)
		k.all = slices.Delete(k.all, 0, 1)
	}
	return true
}

// Held reports whether a session may still ask for an output, which is lost when this
// process ends.
func (k *Kept) Held() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.all) > 0 && time.Since(k.last) < holdFor
}

func (k *Kept) get(id string) ([]byte, bool) {
	k.mu.Lock()
	i := slices.IndexFunc(k.all, func(o kept) bool { return o.id == id })
	var o kept
	if i >= 0 {
		o = k.all[i]
	}
	k.mu.Unlock()
	if i < 0 {
		return nil, false
	}
	text := make([]byte, o.size)
	_, err := io.ReadFull(flate.NewReader(bytes.NewReader(o.packed)), text)
	return text, err == nil
}

// End forgets what is kept for a session.
func (k *Kept) End(session string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dropLocked(func(o kept) bool { return o.session == session })
}

// dropLocked forgets the outputs that which selects. mu is held.
func (k *Kept) dropLocked(which func(kept) bool) {
	k.all = slices.DeleteFunc(k.all, func(o kept) bool {
		if which(o) {
			k.size -= len(o.packed)
			return true
		}
		return false
	})
}
