package results

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"
)

// A Redis server is not trusted. The client library allocates any length that a reply announces,
// and recurses as deeply as the reply is nested. A reply of 24 bytes could crash the process.
// Therefore each connection has a guard that parses the protocol. It closes the connection at the
// first reply of a kind that is never requested.
const (
	guardLine  = 64 << 10         // bytes of a line
	guardReply = redisLargest * 2 // bytes of one reply with all nested replies
	guardMany  = 1 << 16          // elements of an array
	guardDepth = 16               // depth of nested arrays
)

// errHostile means that the server sent data that answers no request.
var errHostile = errors.New("the server does not answer like a Redis server")

// guardedConn is a connection with its guard. Only one goroutine may read at a time.
type guardedConn struct {
	net.Conn
	guard guard
}

// Read returns the data that the guard accepts.
func (c *guardedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if bad := c.guard.see(b[:n]); bad != nil {
		c.Close()
		return 0, bad
	}
	return n, err
}

// SyscallConn lets the client library check whether the server has hung up.
func (c *guardedConn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// guardedDial connects like the client library, and passes the result to ended. The library itself
// would retry until the timeout and then report only the timeout.
func guardedDial(wait time.Duration, secure *tls.Config, ended func(error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		d := &net.Dialer{Timeout: wait, KeepAlive: 5 * time.Minute}
		var c net.Conn
		var err error
		if secure != nil {
			c, err = (&tls.Dialer{NetDialer: d, Config: secure}).DialContext(ctx, network, addr)
		} else {
			c, err = d.DialContext(ctx, network, addr)
		}
		ended(err)
		if err != nil {
			return nil, err
		}
		return &guardedConn{Conn: c}, nil
	}
}

// guard follows the replies of one connection, in time proportional to their length.
type guard struct {
	line  []byte // the beginning of an incomplete line
	bulk  int    // outstanding bytes of a string, with its line end
	open  []int  // outstanding elements of each array that has begun
	bytes int    // bytes of the reply so far
}

func (g *guard) see(b []byte) error {
	for len(b) > 0 {
		if g.bulk > 0 {
			n := min(g.bulk, len(b))
			g.bulk, b = g.bulk-n, b[n:]
			if g.bulk == 0 {
				g.done()
			}
			continue
		}
		end := 0
		for end < len(b) && b[end] != '\n' {
			end++
		}
		whole := end < len(b)
		if whole {
			end++
		}
		g.line, b = append(g.line, b[:end]...), b[end:]
		if len(g.line) > guardLine {
			return fmt.Errorf("%w: a line of more than %d bytes", errHostile, guardLine)
		}
		if whole {
			if err := g.take(); err != nil {
				return err
			}
			g.line = g.line[:0]
		}
	}
	return nil
}

// take handles one complete line.
func (g *guard) take() error {
	g.bytes += len(g.line)
	if g.bytes > guardReply {
		return fmt.Errorf("%w: a reply of more than %d bytes", errHostile, guardReply)
	}
	if len(g.line) < 3 || g.line[len(g.line)-2] != '\r' {
		return fmt.Errorf("%w: %.40q", errHostile, g.line)
	}
	rest := string(g.line[1 : len(g.line)-2])
	switch g.line[0] {
	case '+', '-', ':', '_', ',', '#', '(':
		g.done()
		return nil
	case '$', '!', '=':
		n, err := strconv.Atoi(rest)
		switch {
		case err == nil && n == -1 && g.line[0] == '$':
			g.done()
			return nil
		case err != nil || n < 0 || n > guardReply-g.bytes:
			return fmt.Errorf("%w: a string of %.40q bytes", errHostile, rest)
		}
		g.bytes += n
		g.bulk = n + 2
		return nil
	case '*', '~', '%':
		n, err := strconv.Atoi(rest)
		switch {
		case err == nil && n == -1 && g.line[0] == '*', err == nil && n == 0:
			g.done()
			return nil
		case err != nil || n < 0 || n > guardMany || len(g.open) == guardDepth:
			return fmt.Errorf("%w: an array of %.40q elements", errHostile, rest)
		}
		if g.line[0] == '%' {
			n *= 2
		}
		g.open = append(g.open, n)
		return nil
	}
	// Attributes and pushes end up here too, because they are never requested.
	return fmt.Errorf("%w: %.40q", errHostile, g.line)
}

// done counts a complete element.
func (g *guard) done() {
	for len(g.open) > 0 {
		last := len(g.open) - 1
		g.open[last]--
		if g.open[last] > 0 {
			return
		}
		g.open = g.open[:last]
	}
	g.bytes = 0
}
