package wire

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"cachebro/store/leaf/loop"
)

// Request is one request as passed to a handler.
type Request struct {
	Method string
	Params json.RawMessage
	Body   []byte
	Files  []*os.File // received descriptors; the handler owns them
	Hello  Hello
	Peer   Peer

	// Written, if the handler sets it, is called with the result of writing the answer. Only a
	// written answer counts as shown to the reader.
	Written func(error)
}

// Decode decodes the params. Unknown fields are ignored, because a newer client may send more.
func (r *Request) Decode(v any) error {
	if len(r.Params) == 0 {
		return nil
	}
	if err := json.Unmarshal(r.Params, v); err != nil {
		return Errorf(ErrBadRequest, "", "%s: %v", r.Method, err)
	}
	return nil
}

// Handler answers one request with a result for the header (nil: empty) and a body. ctx ends
// when the client disconnects or the server closes.
type Handler func(ctx context.Context, r *Request) (result any, body []byte, err error)

// ServerOptions configure a Server.
type ServerOptions struct {
	Handler Handler
	// Hello answers the handshake; an error refuses the connection.
	Hello func(Hello, Peer) (HelloAnswer, error)
	Log   *slog.Logger // nil: silent
	// MaxConns limits the number of open connections. More are refused. 0: 512.
	MaxConns int
	// WriteTimeout limits how long an unread answer may block. 0: 10 s.
	WriteTimeout time.Duration
}

// Server serves connections. Each connection has one goroutine that works and one that reads ahead.
// So the server notices the end of a connection while its handler runs, and a slow client delays no
// other client.
type Server struct {
	o      ServerOptions
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
	busy   atomic.Int64
	// retiring is set by Retire.
	retiring atomic.Bool
	began    time.Time
	last     atomic.Int64 // last time a request ended, or a connection opened or closed; ns since began, because the clock may be set

	// mu guards the fields below.
	mu     sync.Mutex
	conns  map[*stream]struct{}
	lis    map[net.Listener]struct{}
	closed bool
}

// NewServer makes a Server; Serve runs it.
func NewServer(o ServerOptions) *Server {
	if o.MaxConns <= 0 {
		o.MaxConns = 512
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = 10 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{o: o, conns: make(map[*stream]struct{}), lis: make(map[net.Listener]struct{}), began: time.Now()}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.touch()
	return s
}

// acceptPause is the pause after a failed accept. It doubles with each failure, up to a second.
const acceptPause = 10 * time.Millisecond

// Serve accepts connections until Close is called. Then it returns nil.
func (s *Server) Serve(l *net.UnixListener) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return l.Close()
	}
	s.lis[l] = struct{}{}
	s.mu.Unlock()
	pause := acceptPause
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			if s.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			s.o.Log.Warn("accept", "err", err) // out of descriptors for a while
			if !loop.Pause(s.ctx, pause) {
				return nil
			}
			pause = min(2*pause, time.Second)
			continue
		}
		pause = acceptPause
		s.start(c)
	}
}

func (s *Server) start(c *net.UnixConn) {
	st := newStream(c)
	s.mu.Lock()
	if s.closed || len(s.conns) >= s.o.MaxConns {
		s.mu.Unlock()
		st.close()
		return
	}
	s.conns[st] = struct{}{}
	s.done.Add(1)
	s.mu.Unlock()
	s.touch()
	go func() {
		defer s.done.Done()
		s.serve(st)
		s.mu.Lock()
		delete(s.conns, st)
		s.mu.Unlock()
		s.touch()
	}()
}

func (s *Server) touch() { s.last.Store(int64(time.Since(s.began))) }

// Idle returns the time since the last request; 0 while a handler runs.
func (s *Server) Idle() time.Duration {
	if s.busy.Load() > 0 {
		return 0
	}
	return time.Since(s.began) - time.Duration(s.last.Load())
}

// Retire ends the server without losing a request. The server accepts no connections and reads no
// new requests, but answers all requests that have arrived. A client that could not send its
// request connects to the next daemon; see Client.call.
func (s *Server) Retire() {
	s.retiring.Store(true)
	s.mu.Lock()
	s.closed = true
	for l := range s.lis {
		l.Close()
	}
	for st := range s.conns {
		_ = st.c.CloseRead() // data that has arrived can still be read
	}
	s.mu.Unlock()
	s.done.Wait()
}

// Close stops accepting, cancels the handlers and waits for them.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for l := range s.lis {
		l.Close()
	}
	for st := range s.conns {
		_ = st.c.SetReadDeadline(past) // answers in progress may still be sent
	}
	s.mu.Unlock()
	s.cancel()
	s.done.Wait()
}

type incoming struct {
	req   requestIn
	body  []byte
	files []*os.File
}

// serve handles one connection until it ends.
func (s *Server) serve(st *stream) {
	defer st.close()
	peer, err := checkPeer(st.c)
	if err != nil {
		s.o.Log.Warn("connection refused", "err", err)
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	cs := &connState{s: s, st: st, peer: peer, cancel: cancel, reading: make(chan struct{}, 1), working: make(chan struct{}, 1)}
	cs.reading <- struct{}{}
	cs.working <- struct{}{}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { cs.follow(ctx) })
	}
	both.Wait()
}

// follow reads a request and waits until the previous one is answered. Then it handles the request
// while the connection's other goroutine reads the next one. Passing the request to another
// goroutine would delay the answer until another thread has woken up.
func (cs *connState) follow(ctx context.Context) {
	for range cs.reading {
		in, ok := cs.read()
		if !ok {
			if !cs.s.retiring.Load() { // after Retire, no more can be read, but requests in progress are still answered
				cs.cancel()
			}
			close(cs.reading)
			return
		}
		<-cs.working
		cs.reading <- struct{}{}
		if ctx.Err() != nil {
			closeAll(in.files)
		} else if !cs.handle(ctx, in) {
			cs.cancel()
			_ = cs.st.c.SetReadDeadline(past)
		}
		cs.working <- struct{}{}
	}
}

// read waits for the next request. It returns false if the connection ended.
func (cs *connState) read() (in incoming, ok bool) {
	h, body, err := cs.st.readFrame()
	if err != nil {
		var e *Error
		if errors.As(err, &e) {
			_ = cs.st.c.SetWriteDeadline(time.Now().Add(time.Second))
			_ = cs.st.writeFrame(answerHeader{Error: e}, nil, nil)
		}
		return in, false
	}
	in = incoming{body: body, files: cs.st.takeFiles()}
	if err := json.Unmarshal(h, &in.req); err != nil {
		closeAll(in.files)
		cs.s.o.Log.Warn("malformed request", "err", err)
		return in, false
	}
	return in, true
}

// connState is the state of a connection. The goroutine that holds the working token owns the
// fields after that token.
type connState struct {
	s       *Server
	st      *stream
	peer    Peer
	cancel  context.CancelFunc
	reading chan struct{} // token: the right to read; closed at the end of the connection
	working chan struct{} // token: the right to work on a request
	greeted bool
	hello   Hello
	version string // version of the daemon
}

// handle answers one request. It returns false to end the connection.
func (cs *connState) handle(ctx context.Context, in incoming) bool {
	s := cs.s
	s.busy.Add(1)
	defer func() {
		s.touch()
		s.busy.Add(-1)
	}()
	r := &Request{Method: in.req.Method, Params: in.req.Params, Body: in.body, Files: in.files, Hello: cs.hello, Peer: cs.peer}
	result, body, err := cs.answer(ctx, r)
	a := answerHeader{ID: in.req.ID, Result: result}
	if err != nil {
		a.Result, a.Error = nil, AsError(err)
	}
	_ = cs.st.c.SetWriteDeadline(time.Now().Add(s.o.WriteTimeout))
	werr := cs.st.writeFrame(a, body, nil)
	var e *Error
	if errors.As(werr, &e) { // the answer is too large; send this error instead
		if r.Written != nil {
			r.Written(werr)
			r.Written = nil
		}
		werr = cs.st.writeFrame(answerHeader{ID: in.req.ID, Error: e}, nil, nil)
	}
	if r.Written != nil {
		r.Written(werr)
	}
	return werr == nil && cs.greeted
}

func (cs *connState) answer(ctx context.Context, r *Request) (any, []byte, error) {
	if !takesFile[r.Method] {
		closeAll(r.Files)
		r.Files = nil
	}
	if !cs.greeted {
		if r.Method != MHello {
			closeAll(r.Files)
			return nil, nil, Errorf(ErrBadRequest, "", "the first request must be %s", MHello)
		}
		var h Hello
		if err := r.Decode(&h); err != nil {
			return nil, nil, err
		}
		ans, err := cs.s.o.Hello(h, cs.peer)
		if err != nil {
			return nil, nil, err
		}
		cs.greeted = true
		cs.hello, cs.version = h, ans.Version
		return ans, nil, nil
	}
	if cs.hello.Version != cs.version && !anyVersion[r.Method] {
		closeAll(r.Files)
		return nil, nil, Errorf(ErrVersion, "restart the older program; cachebro mount replaces an older daemon",
			"the store daemon is version %s, the client %s", cs.version, cs.hello.Version)
	}
	return cs.s.o.Handler(ctx, r)
}
