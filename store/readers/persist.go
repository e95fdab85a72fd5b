package readers

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"

	"cachebro/store"
)

// The keys of the saved state contain the number of its format. State in another format is dropped,
// because losing it costs only tokens.
const (
	keyAll      = "readers/"
	keyReaders  = keyAll + "2/"
	keyClosed   = "closed/1"  // when the readers were saved, ns
	keyAccounts = "ledger/1/" // followed by the session
)

// maxSaved is the size limit for a reader's saved state, in bytes. A larger state is not saved.
const maxSaved = 500 << 10

// maxQuiet is how long after its last activity a reader is still saved. A user who returns the next
// day is then shown what changed meanwhile. Stubs and diffs expire earlier, see Options.IdleExpiry.
const maxQuiet = 24 * time.Hour

type savedReader struct {
	Session   store.SessionID      `cbor:"1,keyasint"`
	Agent     string               `cbor:"2,keyasint"`
	Epoch     uint64               `cbor:"3,keyasint"`
	Delivered int64                `cbor:"4,keyasint"`
	N         uint64               `cbor:"5,keyasint"`
	Used      bool                 `cbor:"6,keyasint"`
	Active    int64                `cbor:"7,keyasint"`
	Files     map[string]savedFile `cbor:"8,keyasint"`
	Held      int64                `cbor:"9,keyasint"`
	Unsure    int64                `cbor:"10,keyasint"`
	Given     []uint64             `cbor:"11,keyasint,omitempty"`
}

type savedFile struct {
	Pieces []piece      `cbor:"1,keyasint"`
	Used   uint64       `cbor:"2,keyasint"`
	Stubs  []int        `cbor:"3,keyasint,omitempty"` // first and last line of each range whose last answer was not full text
	Hash   []store.Hash `cbor:"4,keyasint,omitempty"` // content of each of these ranges
	Was    []piece      `cbor:"5,keyasint,omitempty"`
	Told   told         `cbor:"6,keyasint,omitempty"`
}

// load reads the saved state and deletes it, so that there is none after a crash.
func (s *Tracker) load() error {
	if s.kv == nil {
		return nil
	}
	if err := s.kv.Scan(keyAccounts, func(key string, value []byte) error {
		var a account
		// A damaged account is counted from zero.
		if cbor.Unmarshal(value, &a) == nil && a.Counts != nil {
			s.accounts.sessions[store.SessionID(key[len(keyAccounts):])] = &a
			s.accounts.order = max(s.accounts.order, a.Used)
		}
		return nil
	}); err != nil {
		return fmt.Errorf("load accounts: %w", err)
	}
	var closed int64
	if b, ok, err := s.kv.Get(keyClosed); err != nil {
		return fmt.Errorf("load shown state: %w", err)
	} else if ok {
		_ = cbor.Unmarshal(b, &closed)
	}
	believed := closed > 0 && closed <= s.now() && closed > s.o.Began
	var keys []string
	err := s.kv.Scan(keyAll, func(key string, value []byte) error {
		keys = append(keys, key)
		var saved savedReader
		if believed && strings.HasPrefix(key, keyReaders) && cbor.Unmarshal(value, &saved) == nil {
			s.restore(saved)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("load shown state: %w", err)
	}
	// Delete the marker first, because the other records are not trusted without it.
	if err := s.kv.Delete(keyClosed); err != nil {
		s.sessions = map[store.SessionID]*session{}
		if errors.Is(err, store.ErrNoSpace) {
			return nil // the saved state remains, but is not trusted: see Options.Began
		}
		return fmt.Errorf("load shown state: %w", err)
	}
	for _, k := range keys {
		if err := s.kv.Delete(k); err != nil && !errors.Is(err, store.ErrNoSpace) {
			return fmt.Errorf("load shown state: %w", err)
		}
	}
	return nil
}

func (s *Tracker) restore(saved savedReader) {
	r := newReader(store.Reader{Session: saved.Session, Agent: saved.Agent})
	r.epoch, r.delivered = saved.Epoch, saved.Delivered
	r.n, r.used = saved.N, saved.Used
	r.active.Store(saved.Active)
	r.held, r.unsure, r.given = saved.Held, saved.Unsure, saved.Given
	for p, sf := range saved.Files {
		f := &file{pieces: sf.Pieces, was: sf.Was, told: sf.Told, used: sf.Used, asks: map[span]ask{}}
		for i := 0; i+1 < len(sf.Stubs) && i/2 < len(sf.Hash); i += 2 {
			f.asks[span{sf.Stubs[i], sf.Stubs[i+1]}] = ask{hash: sf.Hash[i/2]}
		}
		r.files[store.Path(p)] = f
	}
	ss := s.sessions[saved.Session]
	if ss == nil {
		ss = &session{agents: map[string]*reader{}}
		s.sessions[saved.Session] = ss
	}
	ss.agents[saved.Agent] = r
	ss.last = max(ss.last, saved.Active)
}

// Close saves what readers were shown, and the accounts. It leaves out files with unconfirmed
// deliveries. No Decide may be running.
func (s *Tracker) Close() error {
	if s.kv == nil {
		return nil
	}
	errs := []error{s.Flush()}
	for i, r := range s.all() {
		if s.now()-r.active.Load() > int64(maxQuiet) {
			continue
		}
		b, err := cbor.Marshal(r.saved(s.orphans.paths()))
		if err == nil && len(b) <= maxSaved {
			err = s.kv.Set(fmt.Sprintf("%s%d", keyReaders, i), b)
		}
		errs = append(errs, err)
	}
	if errors.Join(errs...) == nil {
		b, err := cbor.Marshal(s.now())
		if err == nil {
			err = s.kv.Set(keyClosed, b)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("save shown state: %w", err)
	}
	return nil
}

// saved returns the reader's state without the files in the set doubt. It first adds the files with
// unconfirmed deliveries to this set.
func (r *reader) saved(doubt map[store.Path]bool) savedReader {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := savedReader{
		Session: r.id.Session, Agent: r.id.Agent, Epoch: r.epoch, Delivered: r.delivered,
		N: r.n, Used: r.used, Active: r.active.Load(), Held: r.held, Unsure: r.unsure, Given: r.given, Files: map[string]savedFile{},
	}
	for _, es := range r.waiting {
		for _, e := range es {
			doubt[e.path] = true
		}
	}
	for p, f := range r.files {
		if doubt[p] || len(f.pieces) == 0 {
			continue
		}
		sf := savedFile{Pieces: f.pieces, Used: f.used, Was: f.was, Told: f.told}
		for k, a := range f.asks {
			if !a.full {
				sf.Stubs, sf.Hash = append(sf.Stubs, k.first, k.last), append(sf.Hash, a.hash)
			}
		}
		out.Files[string(p)] = sf
	}
	return out
}

// Flush saves the accounts that changed.
func (s *Tracker) Flush() error {
	if s.kv == nil {
		return nil
	}
	values, gone, err := s.accounts.changes()
	for id, b := range values {
		if e := s.kv.Set(keyAccounts+string(id), b); e != nil {
			s.accounts.markUnsaved(id)
			err = errors.Join(err, e)
		}
	}
	for _, id := range gone {
		err = errors.Join(err, s.kv.Delete(keyAccounts+string(id)))
	}
	if err != nil {
		return fmt.Errorf("save accounts: %w", err)
	}
	return nil
}

const (
	saveEvery = 5 * time.Second
	saveLast  = time.Minute // the longest pause between attempts after failures
)

// Run saves the accounts a few seconds after each change, until done is closed. A kill loses only
// the counts of those seconds.
func (s *Tracker) Run(done <-chan struct{}, failed func(error)) {
	pause := saveEvery
	for {
		select {
		case <-done:
			return
		case <-s.accounts.news:
		}
		select {
		case <-done:
			return
		case <-time.After(pause):
		}
		if err := s.Flush(); err != nil {
			failed(err)
			pause = min(2*pause, saveLast)
		} else {
			pause = saveEvery
		}
	}
}
