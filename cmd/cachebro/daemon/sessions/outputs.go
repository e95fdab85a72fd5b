package sessions

import (
	"bytes"
	"compress/flate"
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// If the output of a command was shortened for the model, this file saves the full output for the
// command "cachebro output ID". An output is saved until its session ends, in memory only,
// compressed and within a budget. The oldest is dropped first. Package reshape never sends a text
// that may contain a secret.

const (
	maxOutput = 4 << 20  // bytes of one output
	budget    = 16 << 20 // bytes of all, compressed
	// holdFor is how long the daemon keeps running for saved outputs. A session that has not asked
	// for them by then does not need them, or has ended unnoticed.
	holdFor = time.Hour
)

// SavedOutputs holds the saved outputs. The zero value is usable.
type SavedOutputs struct {
	mu   sync.Mutex    // guards all below
	all  []savedOutput // the oldest first
	size int
	last time.Time // when the newest was saved
}

type savedOutput struct {
	session, id string
	size        int    // bytes of the text
	packed      []byte // deflate
}

// Handlers returns the handler of its request, by method.
func (k *SavedOutputs) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{wire.MOutput: onwire.WithRequest(k.handle)}
}

// handle saves the body if there is one, and otherwise returns a saved output.
func (k *SavedOutputs) handle(_ context.Context, r *wire.Request, q wire.OutputRequest) (any, []byte, error) {
	if q.ID == "" {
		return nil, nil, wire.Errorf(wire.ErrBadRequest, "", "the output has no id")
	}
	if len(r.Body) > 0 {
		if q.Session == "" || len(r.Body) > maxOutput || !k.keep(q.Session, q.ID, r.Body) {
			return nil, nil, wire.Errorf(wire.ErrBadRequest, "", "an output of %d bytes is too large to be saved", len(r.Body))
		}
		return wire.Empty{}, nil, nil
	}
	text, ok := k.get(q.ID)
	if !ok {
		return nil, nil, wire.Errorf(wire.ErrNotFound, "run the command again", "output %s is no longer saved, because its session has ended or newer outputs needed the room", q.ID)
	}
	return wire.Empty{}, text, nil
}

// keep saves a text. It returns false if the text alone exceeds the budget.
func (k *SavedOutputs) keep(session, id string, text []byte) bool {
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
	k.dropLocked(func(o savedOutput) bool { return o.id == id && o.session == session })
	k.last = time.Now()
	k.all = append(k.all, savedOutput{session, id, len(text), bytes.Clone(b.Bytes())})
	for k.size += b.Len(); k.size > budget; {
		k.size -= len(k.all[0].packed)
		k.all = slices.Delete(k.all, 0, 1)
	}
	return true
}

// Held reports whether a session may still ask for a saved output, so that the daemon should keep
// running.
func (k *SavedOutputs) Held() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.all) > 0 && time.Since(k.last) < holdFor
}

func (k *SavedOutputs) get(id string) ([]byte, bool) {
	k.mu.Lock()
	i := slices.IndexFunc(k.all, func(o savedOutput) bool { return o.id == id })
	var o savedOutput
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

// End drops the outputs of a session.
func (k *SavedOutputs) End(session string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dropLocked(func(o savedOutput) bool { return o.session == session })
}

// dropLocked drops the outputs that which selects. mu is held.
func (k *SavedOutputs) dropLocked(which func(savedOutput) bool) {
	k.all = slices.DeleteFunc(k.all, func(o savedOutput) bool {
		if which(o) {
			k.size -= len(o.packed)
			return true
		}
		return false
	})
}
