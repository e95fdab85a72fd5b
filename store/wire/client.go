package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Timeouts limit the duration of calls. A call's own context may end sooner.
type Timeouts struct {
	Connect time.Duration // connect and handshake; 0: 5 s
	Answer  time.Duration // each call; 0: limited only by the context
}

// HookTimeouts are short, because a hook delays a model's tool call.
var HookTimeouts = Timeouts{Connect: 100 * time.Millisecond, Answer: 200 * time.Millisecond}

// maxIdle is the number of connections that are kept open for later calls.
const maxIdle = 4

// Client calls the daemon of one project. Goroutines may share it, because each call takes its own
// connection from a small pool. If the daemon was restarted, a call reconnects once.
type Client struct {
	hello    Hello
	timeouts Timeouts
	// open makes a connection and shakes hands.
	open func(context.Context) (*clientConn, error)
	next atomic.Uint64

	// mu guards the fields below.
	mu     sync.Mutex
	idle   []*clientConn
	answer HelloAnswer // answer on the newest connection
	closed bool
}

type clientConn struct {
	*stream
	answer HelloAnswer
}

// Dial connects to the daemon of h.Root. It returns ErrNoDaemon if none is running. If the daemon
// has another version, Dial returns ErrVersion together with a Client. That Client can call only a
// few methods, such as MStatus and MShutdown.
func Dial(ctx context.Context, p Paths, h Hello, t Timeouts) (*Client, error) {
	c := newClient(h, t)
	c.open = func(ctx context.Context) (*clientConn, error) { return c.connect(ctx, p) }
	return c, c.first(ctx)
}

func newClient(h Hello, t Timeouts) *Client {
	if h.PID == 0 {
		h.PID = os.Getpid()
	}
	if t.Connect <= 0 {
		t.Connect = 5 * time.Second
	}
	return &Client{hello: h, timeouts: t}
}

// first opens a connection, so that Dial reports an error that the first call would report.
func (c *Client) first(ctx context.Context) error {
	cc, err := c.open(ctx)
	if err != nil {
		return err
	}
	c.give(cc)
	return c.versionError(cc.answer)
}

func (c *Client) versionError(a HelloAnswer) error {
	if a.Version == c.hello.Version {
		return nil
	}
	hint := "restart the older program; cachebro mount replaces an older daemon"
	if Older(c.hello.Version, a.Version) {
		hint = "use version " + a.Version + ", or end it first: cachebro umount " + c.hello.Root
	}
	return Errorf(ErrVersion, hint,
		"the store daemon (pid %d) is version %s, this is %s", a.PID, a.Version, c.hello.Version)
}

// connect dials, checks the peer and shakes hands.
func (c *Client) connect(ctx context.Context, p Paths) (*clientConn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeouts.Connect)
	defer cancel()
	u, err := connect(ctx, p, c.hello.Root)
	if err != nil {
		return nil, err
	}
	cc := &clientConn{stream: newStream(u)}
	if _, err := checkPeer(u); err != nil {
		cc.close()
		return nil, err
	}
	if _, _, err := cc.roundTrip(ctx, 0, MHello, c.hello, nil, nil, &cc.answer); err != nil {
		cc.close()
		if isGone(err) { // the daemon was killed after the kernel had accepted the connection
			err = Errorf(ErrNoDaemon, "cachebro status", "the store daemon went away during the handshake")
		}
		return nil, err
	}
	if cc.answer.Root != c.hello.Root {
		cc.close()
		return nil, Errorf(ErrNoDaemon, "cachebro status", "the daemon at the socket of %s serves %s", c.hello.Root, cc.answer.Root)
	}
	c.mu.Lock()
	c.answer = cc.answer
	c.mu.Unlock()
	return cc, nil
}

// Hello returns the daemon's answer to the last handshake.
func (c *Client) Hello() HelloAnswer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answer
}

// Root returns the project's root.
func (c *Client) Root() string { return c.hello.Root }

// take returns an idle connection, or nil.
func (c *Client) take() (*clientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, os.ErrClosed
	}
	n := len(c.idle)
	if n == 0 {
		return nil, nil
	}
	cc := c.idle[n-1]
	c.idle = c.idle[:n-1]
	return cc, nil
}

func (c *Client) give(cc *clientConn) {
	c.mu.Lock()
	keep := !c.closed && len(c.idle) < maxIdle
	if keep {
		c.idle = append(c.idle, cc)
	}
	c.mu.Unlock()
	if !keep {
		cc.close()
	}
}

// Call sends a request, decodes the answer into result (nil: ignored) and returns the answer's
// body. If the context ends, the connection is closed, which cancels the handler in the daemon.
func (c *Client) Call(ctx context.Context, method string, params any, body []byte, result any) ([]byte, error) {
	return c.call(ctx, method, params, body, nil, result)
}

// Attach calls MAttach and passes the descriptor of the source directory.
func (c *Client) Attach(ctx context.Context, a Attach, source *os.File) (HeartbeatAnswer, error) {
	var ans HeartbeatAnswer
	_, err := c.call(ctx, MAttach, a, nil, source, &ans)
	return ans, err
}

// Export calls MExport and passes the descriptor that the history is written to. The descriptor
// must be a pipe, because a file might be on the daemon's own mount and make the daemon wait for
// itself.
func (c *Client) Export(ctx context.Context, to *os.File) (Totals, error) {
	var ans Totals
	_, err := c.call(ctx, MExport, Empty{}, nil, to, &ans)
	return ans, err
}

// Fork calls MFork and passes the descriptor of the directory to fill.
func (c *Client) Fork(ctx context.Context, q ForkQuery, to *os.File) (ForkAnswer, error) {
	var ans ForkAnswer
	_, err := c.call(ctx, MFork, q, nil, to, &ans)
	return ans, err
}

// Call is like Client.Call, with a typed result and no bodies.
func Call[R any](ctx context.Context, c *Client, method string, params any) (R, error) {
	var r R
	_, err := c.Call(ctx, method, params, nil, &r)
	return r, err
}

func (c *Client) call(ctx context.Context, method string, params any, body []byte, file *os.File, result any) ([]byte, error) {
	if c.timeouts.Answer > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeouts.Answer)
		defer cancel()
	}
	for try := 0; ; try++ {
		cc, err := c.take()
		if err != nil {
			return nil, err
		}
		pooled := cc != nil
		if !pooled {
			cc, err = c.open(ctx)
			if err != nil {
				return nil, err
			}
		}
		if err := c.versionError(cc.answer); err != nil && !anyVersion[method] {
			c.give(cc)
			return nil, err
		}
		out, o, err := cc.roundTrip(ctx, c.next.Add(1), method, params, body, file, result)
		if o == answered {
			c.give(cc)
			return out, err
		}
		cc.close()
		if o == answeredLate {
			return out, err
		}
		// A daemon that is ending reads no further requests, but answers the ones it has read.
		again := pooled && repeatable(method) || !sent(err) && (pooled || try < 10)
		if ctx.Err() == nil && isGone(err) && again {
			c.dropIdle() // the idle connections lead to the same dead daemon
			continue
		}
		if isGone(err) {
			err = Errorf(ErrNoDaemon, "cachebro status", "the store daemon went away during %s", method)
		}
		return nil, err
	}
}

// anyVersion lists the methods that a daemon of another version answers. They suffice to
// inspect and replace it, and to keep a mount working during an upgrade.
var anyVersion = map[string]bool{MHello: true, MStatus: true, MShutdown: true, MAttach: true, MHeartbeat: true, MDetach: true}

// takesFile lists the methods whose request may carry a descriptor.
var takesFile = map[string]bool{MAttach: true, MExport: true, MFork: true}

// repeatable reports whether a method may be called again when it is unknown whether the daemon
// acted on the first call. Calling another method twice would count or do something twice.
func repeatable(method string) bool {
	switch method {
	case MSpend, MRead, MStore, MPlan, MMetrics, MExport, MFork:
		return false
	}
	return true
}

func (c *Client) dropIdle() {
	c.mu.Lock()
	idle := c.idle
	c.idle = nil
	c.mu.Unlock()
	for _, cc := range idle {
		cc.close()
	}
}

// Close closes the idle connections. Calls in progress continue. On a nil Client it does nothing.
func (c *Client) Close() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.dropIdle()
	return nil
}

// notSent marks a failure before the whole request was written.
type notSent struct{ err error }

func (e *notSent) Error() string { return "send request: " + e.err.Error() }
func (e *notSent) Unwrap() error { return e.err }

func sent(err error) bool {
	var n *notSent
	return !errors.As(err, &n)
}

func isGone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.ENOTCONN)
}

// outcome is the outcome of a round trip.
type outcome int

const (
	failed       outcome = iota // no answer; the connection is unusable
	answered                    // an answer, possibly an error; the connection is usable
	answeredLate                // an answer, but the context set a deadline on the connection
)

func (cc *clientConn) roundTrip(ctx context.Context, id uint64, method string, params any, body []byte, file *os.File, result any) ([]byte, outcome, error) {
	if ctx.Err() != nil {
		return nil, failed, ctxError(ctx, method)
	}
	stop := func() bool { return true }
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, func() { _ = cc.c.SetDeadline(past) })
	}
	ok, out, err := cc.exchange(id, method, params, body, file, result)
	switch stopped := stop(); {
	case ok && stopped:
		return out, answered, err
	case ok:
		return out, answeredLate, err
	case !stopped: // the context ended the round trip
		return nil, failed, ctxError(ctx, method)
	}
	return nil, failed, err
}

func ctxError(ctx context.Context, method string) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return Errorf(ErrTimeout, "cachebro status", "the store daemon did not answer %s in time", method)
	}
	return Errorf(ErrCanceled, "", "%s was cancelled", method)
}

func (cc *clientConn) exchange(id uint64, method string, params any, body []byte, file *os.File, result any) (bool, []byte, error) {
	if err := cc.writeFrame(requestHeader{id, method, params}, body, file); err != nil {
		var e *Error
		if errors.As(err, &e) { // too large: nothing was sent
			return true, nil, err
		}
		return false, nil, &notSent{err}
	}
	h, out, err := cc.readFrame()
	if err != nil {
		return false, nil, fmt.Errorf("read answer: %w", err)
	}
	closeAll(cc.takeFiles())
	a := answerHeader{Result: result}
	if err := json.Unmarshal(h, &a); err != nil {
		return false, nil, fmt.Errorf("decode answer of %s: %w", method, err)
	}
	if a.Error != nil && a.ID == 0 && id != 0 { // the daemon gave up on the connection
		return false, nil, a.Error
	}
	if a.ID != id {
		return false, nil, Errorf(ErrBadRequest, "", "answer %d to request %d", a.ID, id)
	}
	if a.Error != nil {
		return true, out, a.Error
	}
	return true, out, nil
}
