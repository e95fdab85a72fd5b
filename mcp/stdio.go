package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"

	"cachebro/store/leaf/limits"
	"cachebro/store/leaf/text"
)

// maxLine bounds one message, in bytes. A write_file of the largest versioned file fits, with
// JSON escapes.
const maxLine = limits.Content * 5 / 2

// parallel bounds how many requests of one connection are handled at once. 50 simultaneous reads
// must not wait for each other.
const parallel = 64

// stdioConn is one connection on stdio.
type stdioConn struct {
	s    *Server
	sess *session

	outMu sync.Mutex // orders whole lines on out
	out   io.Writer

	mu     sync.Mutex                    // guards flying and closed
	flying map[string]context.CancelFunc // by id: cancels a request in progress
	closed bool                          // no more requests are accepted

	ended chan struct{} // closed at the end of input
	slots chan struct{}
	work  sync.WaitGroup // messages being handled; none is added once closed is set
}

// serveStdio answers until the end of input. If ctx ends first, it does not wait for the goroutine
// that reads In, because nothing can interrupt a read of a pipe.
func (s *Server) serveStdio(ctx context.Context) error {
	sess := &session{id: s.id, out: make(chan mcp.JSONRPCNotification, 256), uris: make(map[string]bool)}
	c := &stdioConn{s: s, sess: sess, out: s.opt.Out,
		flying: make(map[string]context.CancelFunc), ended: make(chan struct{}), slots: make(chan struct{}, parallel)}
	if err := s.rpc.RegisterSession(ctx, c.sess); err != nil {
		return fmt.Errorf("register connection: %w", err)
	}
	defer s.rpc.UnregisterSession(context.WithoutCancel(ctx), c.sess.id)
	ctx = s.rpc.WithContext(ctx, c.sess)
	ctx, cancel := context.WithCancel(ctx)
	s.work.Go(func() { s.hello(ctx) })
	s.work.Go(func() { c.notify(ctx) })

	go c.follow(ctx, bufio.NewReaderSize(s.opt.In, 64<<10))
	select {
	case <-c.ended:
	case <-ctx.Done():
	}
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	// At the end of input, requests in progress are answered, except streams of notifications,
	// which would never end.
	c.endStreams()
	c.work.Wait()
	cancel()
	return nil
}

// follow reads messages until one is a request. Then another goroutine continues reading, and this
// one handles the request. If the other goroutine handled the request instead, the client would wait
// for a thread to wake up, which takes as long as all the work for an unchanged file.
func (c *stdioConn) follow(ctx context.Context, br *bufio.Reader) {
	for {
		line, err := readLine(br)
		if errors.Is(err, errLong) {
			c.write(errorReply(nil, mcp.INVALID_REQUEST, fmt.Sprintf("message longer than %d bytes", maxLine)))
			continue
		}
		if !c.enter() {
			return
		}
		var run func()
		if len(bytes.TrimSpace(line)) > 0 {
			run = c.take(ctx, line)
		}
		switch {
		case err != nil:
			close(c.ended)
		case run != nil:
			go c.follow(ctx, br)
		}
		if run != nil {
			run()
		}
		c.work.Done()
		if run != nil || err != nil {
			return
		}
	}
}

// enter registers a message to handle. It returns false once the connection is closing.
func (c *stdioConn) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.work.Add(1)
	}
	return !c.closed
}

// take parses one message. It handles a notification at once, so that no request delays a
// cancellation. For a request it returns rest, which the caller runs in parallel with other
// requests.
func (c *stdioConn) take(ctx context.Context, line []byte) (rest func()) {
	var head struct {
		ID     any    `json:"id"`
		Method string `json:"method"`
		Params struct {
			RequestID     any                    `json:"requestId"`
			Notifications mcp.SubscriptionFilter `json:"notifications"`
		} `json:"params"`
	}
	// Only broken JSON is an error here. The handler reports fields of the wrong type.
	var bad *json.SyntaxError
	if errors.As(json.Unmarshal(line, &head), &bad) {
		c.write(errorReply(nil, mcp.PARSE_ERROR, "not JSON: one JSON-RPC message per line is expected"))
		return nil
	}
	switch head.ID.(type) {
	case nil, string, float64:
	default: // an array or object could not be compared with other ids
		c.write(errorReply(nil, mcp.INVALID_REQUEST, "the id of a request is a string or a number"))
		return nil
	}
	if head.ID == nil {
		if head.Method == string(mcp.MethodNotificationCancelled) {
			c.cancel(head.Params.RequestID)
			c.s.renew(ctx)
		}
		if r := c.handle(ctx, nil, line); r != nil {
			c.write(r)
		}
		return nil
	}
	key := fmt.Sprintf("%T:%v", head.ID, head.ID)
	rctx, cancel := context.WithCancel(ctx)
	listen := head.Method == string(mcp.MethodSubscriptionsListen)
	if listen && c.sess.openStreams() >= parallel {
		cancel()
		c.write(errorReply(head.ID, mcp.INVALID_REQUEST, "too many open streams on this connection"))
		return nil
	}
	c.mu.Lock()
	c.flying[key] = cancel
	c.mu.Unlock()
	var st *stream
	if listen {
		st = c.sess.openStream(head.ID, head.Params.Notifications)
	} else {
		c.slots <- struct{}{}
	}
	run := func() {
		defer func() {
			c.mu.Lock()
			delete(c.flying, key)
			c.mu.Unlock()
			if !listen {
				<-c.slots
			}
			cancel()
		}()
		r := c.handle(rctx, head.ID, line)
		switch {
		case listen:
			c.endStream(ctx, st, r)
		case r != nil && rctx.Err() == nil: // a cancelled request has no answer
			c.write(r)
		}
	}
	if head.Method == string(mcp.MethodInitialize) {
		run() // run it before reading on, because later messages depend on it
		return nil
	}
	return run
}

func (c *stdioConn) cancel(id any) {
	c.mu.Lock()
	cancel := c.flying[fmt.Sprintf("%T:%v", id, id)]
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

func (c *stdioConn) endStreams() {
	c.sess.mu.Lock()
	streams := slices.Clone(c.sess.streams)
	c.sess.mu.Unlock()
	for _, st := range streams {
		c.cancel(st.id)
	}
}

// endStream answers the request that opened st, as the stream's last message.
func (c *stdioConn) endStream(ctx context.Context, st *stream, r mcp.JSONRPCMessage) {
	if _, ok := r.(mcp.JSONRPCResponse); ok {
		select {
		case <-st.begun:
		case <-ctx.Done():
		}
	}
	c.outMu.Lock()
	defer c.outMu.Unlock()
	c.sess.closeStream(st)
	if r != nil {
		c.writeLocked(c.encode(r))
	}
}

// handle handles one message. A panic in one request must not end the server.
func (c *stdioConn) handle(ctx context.Context, id any, line []byte) (reply mcp.JSONRPCMessage) {
	defer func() {
		if p := recover(); p != nil {
			c.s.opt.Logger.Error("panic in a request", "panic", p)
			if id != nil {
				reply = errorReply(id, mcp.INTERNAL_ERROR, "internal error of cachebro")
			}
		}
	}()
	return nameMissing(c.s.rpc.HandleMessage(ctx, line), askedResource(line))
}

// notify writes notifications until ctx ends.
func (c *stdioConn) notify(ctx context.Context) {
	for {
		select {
		case n := <-c.sess.out:
			c.outMu.Lock()
			for _, m := range c.sess.copies(n) {
				c.writeLocked(c.encode(m))
			}
			c.outMu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

func (c *stdioConn) write(m mcp.JSONRPCMessage) {
	b := c.encode(m)
	c.outMu.Lock()
	defer c.outMu.Unlock()
	c.writeLocked(b)
}

// encode encodes a message. It logs an error and returns nil.
func (c *stdioConn) encode(m mcp.JSONRPCMessage) []byte {
	b, err := text.JSONLine(m)
	if err != nil {
		c.s.opt.Logger.Error("answer not encoded", "err", err)
	}
	return b
}

// writeLocked writes a whole line. outMu is held.
func (c *stdioConn) writeLocked(b []byte) {
	// A client that has exited also closes our input, which ends the loop.
	if _, err := c.out.Write(b); err != nil {
		c.s.opt.Logger.Debug("answer not written", "err", err)
	}
}

func errorReply(id any, code int, text string) mcp.JSONRPCMessage {
	return mcp.JSONRPCError{JSONRPC: mcp.JSONRPC_VERSION, ID: mcp.NewRequestId(id),
		Error: mcp.NewJSONRPCErrorDetails(code, text, nil)}
}

var errLong = errors.New("line too long")

// readLine returns a line with its line end. It skips a line longer than maxLine and returns
// errLong.
func readLine(br *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := br.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = br.ReadSlice('\n')
			}
			if err != nil {
				return nil, err
			}
			return nil, errLong
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// The protocol wants no answer to a cancelled request. Over HTTP mcp-go answers it with the
// cancellation's error. This code suppresses that answer, so the response is a stream without
// messages.

// cancelledKey is the context key of the flag for a cancelled request over HTTP.
type cancelledKey struct{}

// cancelled marks a request over HTTP whose context has ended.
func cancelled(ctx context.Context) {
	if mark, ok := ctx.Value(cancelledKey{}).(*atomic.Bool); ok && ctx.Err() != nil {
		mark.Store(true)
	}
}

func unanswered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mark := new(atomic.Bool)
		next.ServeHTTP(&cancelledWriter{w, mark}, r.WithContext(context.WithValue(r.Context(), cancelledKey{}, mark)))
	})
}

// cancelledWriter writes nothing after its request was cancelled.
type cancelledWriter struct {
	http.ResponseWriter
	cancelled *atomic.Bool
}

func (w *cancelledWriter) WriteHeader(status int) {
	if w.cancelled.Load() {
		w.Header().Set("Content-Type", "text/event-stream")
		status = http.StatusOK
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *cancelledWriter) Write(b []byte) (int, error) {
	if w.cancelled.Load() {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

func (w *cancelledWriter) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}
