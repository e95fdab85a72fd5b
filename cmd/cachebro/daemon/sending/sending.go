// Package sending sends the project's history to its bucket while the daemon runs. It sends some
// seconds after something was stored, soon after a session ends, and at once when a client requests
// it. Nothing else waits for the transfer. The log is the queue: versions that cannot be sent now
// stay in it.
package sending

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/store"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/loop"
	"cachebro/store/onwire"
	"cachebro/store/portable"
	"cachebro/store/remote"
	"cachebro/store/wire"
)

const (
	// delay is how long stored versions wait for more versions before they are sent. After the end
	// of a session they wait only for the time soon.
	delay = 8 * time.Second
	soon  = time.Second
	// retryLast is the longest wait between two attempts after a failure.
	retryLast = 5 * time.Minute
	// hopeless is how long a failing link may prevent the daemon from ending.
	hopeless = 5 * time.Minute
	// maxWait bounds how long a client may ask to wait. Farewell is how much longer the daemon
	// may take to end if something is not sent yet.
	maxWait  = 10 * time.Minute
	Farewell = 5 * time.Second
)

// Options configure New. All are required.
type Options struct {
	Store  *store.Store
	Ingest *ingest.Ingester
	Parts  portable.Options
	Log    *slog.Logger
}

// Service sends one history.
type Service struct {
	Options

	delay, hopeless time.Duration

	turn   chan struct{} // holds a token while no goroutine is sending
	sender *remote.Sender
	wake   chan time.Duration // capacity 1: send after this time

	mu    sync.Mutex // guards the fields below; no other lock is taken while it is held
	state wire.RemoteState
	seq   uint64             // everything up to this version is sent
	stop  context.CancelFunc // cancels the sending in progress; nil if there is none
	on    atomic.Bool        // a bucket is configured
}

// New makes the service.
func New(o Options) (*Service, error) {
	sender, err := remote.NewSender(o.Store, portable.PartOptions{Options: o.Parts, Leave: staysLocal})
	if err != nil {
		return nil, err
	}
	s := &Service{Options: o, delay: delay, hopeless: hopeless, sender: sender, turn: make(chan struct{}, 1), wake: make(chan time.Duration, 1)}
	s.turn <- struct{}{}
	s.copyState()
	return s, nil
}

// staysLocal reports whether a version must not be sent to another machine.
func staysLocal(v store.Version) bool {
	return v.Class != store.Class(0) || ignore.Secret(string(v.Path))
}

// Handlers returns the handler of its request, by method.
func (s *Service) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{wire.MRemote: onwire.Decoded(s.answer)}
}

// Configured reports whether a bucket is configured.
func (s *Service) Configured() bool { return s.on.Load() }

// Changed notes that something was stored. It never blocks.
func (s *Service) Changed() { s.schedule(s.delay) }

// Ended notes that a session has ended. It never blocks.
func (s *Service) Ended() { s.schedule(soon) }

func (s *Service) schedule(in time.Duration) {
	if !s.Configured() {
		return
	}
	select {
	case s.wake <- in:
	default:
		if in < s.delay { // replace the waiting entry, whose delay is longer
			select {
			case <-s.wake:
			default:
			}
			select {
			case s.wake <- in:
			default:
			}
		}
	}
}

// Run sends until ctx ends.
func (s *Service) Run(ctx context.Context) {
	if s.State().Unsent > 0 {
		s.schedule(soon)
	}
	retry := ingest.RetryFirst
	for {
		var in time.Duration
		select {
		case <-ctx.Done():
			return
		case in = <-s.wake:
		}
		if !s.pause(ctx, in) {
			return
		}
		for {
			err := s.send(ctx)
			if ctx.Err() != nil {
				return
			}
			if err == nil || !s.Configured() {
				retry = ingest.RetryFirst
				break
			}
			s.mu.Lock()
			s.state.Next = time.Now().Add(retry)
			s.mu.Unlock()
			if !s.pause(ctx, retry) {
				return
			}
			retry = min(2*retry, retryLast)
		}
	}
}

// pause waits for d, or until something is due sooner. It returns false if ctx ended.
func (s *Service) pause(ctx context.Context, d time.Duration) bool {
	timeout := time.After(d)
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timeout:
			return true
		case in := <-s.wake:
			if in < s.delay {
				return loop.Pause(ctx, min(in, d))
			}
		}
	}
}

func (s *Service) send(ctx context.Context) error {
	ctx, err := s.acquireTurn(ctx)
	if err != nil {
		return err
	}
	defer s.releaseTurn()
	for more := true; more && err == nil; {
		err = ctx.Err()
		if err == nil {
			more, err = s.sender.Send(ctx)
		}
		if err == nil {
			s.copyState()
		}
	}
	s.recordOutcome(ctx, err)
	return err
}

// acquireTurn waits until no other goroutine is sending. interrupt cancels the context that
// acquireTurn returns.
func (s *Service) acquireTurn(ctx context.Context) (context.Context, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.turn:
	}
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	s.stop = cancel
	s.mu.Unlock()
	return ctx, nil
}

func (s *Service) releaseTurn() {
	s.mu.Lock()
	s.stop()
	s.stop = nil
	s.mu.Unlock()
	s.turn <- struct{}{}
}

func (s *Service) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		s.stop()
	}
}

// copyState copies the sender's state. The caller holds the turn.
func (s *Service) copyState() {
	p, on := s.sender.Place()
	h := s.sender.Head()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on.Store(on)
	was := s.state
	s.state = wire.RemoteState{}
	if !on {
		s.seq = 0
		return
	}
	s.seq = s.Store.Seq() - s.sender.Unsent()
	if n := s.sender.Note(); n != "" && n != was.Note {
		s.Log.Warn("the id under which the history is sent", "note", n)
	}
	s.state = wire.RemoteState{
		URL: p.String(), Machine: h.Machine.ID, Segments: h.N, Versions: h.Versions, Bytes: h.Bytes, Last: h.Time, Note: s.sender.Note(), Recipients: s.sender.Recipients(),
		Error: was.Error, Hint: was.Hint, Since: was.Since, Next: was.Next,
	}
}

func (s *Service) recordOutcome(ctx context.Context, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		if s.state.Error != "" {
			s.Log.Info("sending the history works again")
		}
		s.state.Error, s.state.Hint = "", ""
		s.state.Since, s.state.Next = time.Time{}, time.Time{}
		return
	}
	if ctx.Err() != nil { // interrupted, or the caller did not wait
		return
	}
	if s.state.Error == "" {
		s.state.Since = time.Now()
		s.Log.Warn("the history cannot be sent", "err", err)
	}
	s.state.Error, s.state.Hint = err.Error(), hint(err)
}

func hint(err error) string {
	if h := remote.Hint(err); h != "" {
		return h
	}
	if errors.Is(err, remote.ErrTaken) {
		return "the unsent history is still on this machine; cachebro remote add sends it under a new id"
	}
	return store.Hint(err)
}

// State returns what was sent, and how much is still to be sent.
func (s *Service) State() wire.RemoteState {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.state
	if st.URL != "" {
		if now := s.Store.Seq(); now > s.seq {
			st.Unsent = now - s.seq
		}
	}
	return st
}

// Busy reports whether unsent history may be sent soon. It returns false if the link has been
// failing for a while, so that the daemon can end.
func (s *Service) Busy() bool {
	st := s.State()
	return st.Unsent > 0 && (st.Error == "" || time.Since(st.Since) < s.hopeless)
}

// SendLast sends the unsent history before the daemon ends, unless the link is known to fail. It
// logs how much remains unsent.
func (s *Service) SendLast(ctx context.Context) {
	if !s.Configured() {
		return
	}
	s.interrupt()
	if s.State().Error == "" {
		ctx, cancel := context.WithTimeout(ctx, Farewell)
		defer cancel()
		if err := s.send(ctx); err != nil {
			s.Log.Warn("send the last of the history", "err", err)
		}
	}
	if n := s.State().Unsent; n > 0 {
		s.Log.Warn("not everything is sent; the next daemon continues", "versions", n)
	}
}

func (s *Service) answer(ctx context.Context, q wire.RemoteRequest) (wire.RemoteState, []byte, error) {
	var err error
	switch q.Do {
	case "":
	case "add":
		err = s.add(ctx, q)
	case "rm":
		err = s.remove(ctx)
	case "send":
		err = s.sendNow(ctx, q.Within)
	default:
		err = wire.Errorf(wire.ErrBadRequest, "add, rm or send", "%q is not an operation on a remote", q.Do)
	}
	return s.State(), nil, err
}

func (s *Service) add(ctx context.Context, q wire.RemoteRequest) error {
	// Do not apply the daemon's environment. The client has already applied its own, which may be
	// newer.
	p, err := remote.ParsePlace(q.URL, func(string) string { return "" })
	if err != nil {
		return wire.Errorf(wire.ErrBadRequest, "cachebro remote --help", "%v", err)
	}
	old := s.State()
	if old.URL != "" && old.URL != p.String() {
		return wire.Errorf(wire.ErrConflict, "cachebro remote rm stops that", "the history is already sent to %s", old.URL)
	}
	if old.URL != "" && len(q.Recipients) > 0 && !slices.Equal(q.Recipients, old.Recipients) {
		return wire.Errorf(wire.ErrConflict, "cachebro remote rm, then add; what was already sent is not changed", "the history is already sent there, with other recipients or unencrypted")
	}
	if old.URL != "" && (old.Error == "" || old.Hint != hint(remote.ErrLost) && old.Hint != hint(remote.ErrTaken)) {
		return s.enlist(ctx)
	}
	if err := remote.CheckRecipients(q.Recipients); err != nil {
		return wire.Errorf(wire.ErrBadRequest, "age-keygen prints one", "%v", err)
	}
	s.interrupt()
	ctx, err = s.acquireTurn(ctx)
	if err != nil {
		return err
	}
	defer s.releaseTurn()
	if err := s.sender.Add(ctx, p, q.Name, q.Recipients); err != nil {
		return wire.Errorf(wire.ErrBadRequest, cmp.Or(hint(err), "cachebro remote --help explains addresses"), "%v", err)
	}
	s.copyState()
	s.mu.Lock()
	s.state.Error, s.state.Hint = "", ""
	s.state.Since = time.Time{}
	s.mu.Unlock()
	s.Log.Info("the history goes to a bucket", "url", p.String())
	s.schedule(soon)
	return nil
}

// enlist adds this machine to the bucket's list of machines if it is missing.
func (s *Service) enlist(ctx context.Context) error {
	s.interrupt()
	ctx, err := s.acquireTurn(ctx)
	if err != nil {
		return err
	}
	defer s.releaseTurn()
	s.schedule(soon) // continue what was interrupted
	if err := s.sender.Enlist(ctx); err != nil {
		return wire.Errorf(wire.ErrBadRequest, cmp.Or(hint(err), "cachebro remote shows what was sent and what failed"), "%v", err)
	}
	return nil
}

func (s *Service) remove(ctx context.Context) error {
	s.interrupt()
	_, err := s.acquireTurn(ctx)
	if err != nil {
		return err
	}
	defer s.releaseTurn()
	if err := s.sender.Remove(); err != nil {
		return err
	}
	s.copyState()
	return nil
}

// sendNow sends everything that has happened so far. It records a failure in the state instead of
// returning it.
func (s *Service) sendNow(ctx context.Context, within time.Duration) error {
	if !s.Configured() {
		return nil
	}
	if within <= 0 || within > maxWait {
		within = maxWait
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if _, err := s.Ingest.CaughtUp(ctx, ingest.PlanWait, ingest.PlanStill); err != nil {
		return err
	}
	_ = s.send(ctx)
	return nil
}
