package mcp

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"cachebro/store/leaf/cache"
	"cachebro/store/wire"

	"github.com/mark3labs/mcp-go/server"
)

// serveHTTP serves streamable HTTP under /mcp, to this machine only. A web page in the user's
// browser can reach a loopback port too, but it lacks the token and has an Origin header.
func (s *Server) serveHTTP(ctx context.Context) error {
	if len(s.opt.Token) < 16 {
		return wire.Errorf(wire.ErrBadRequest, "give at least 16 characters", "the bearer token for HTTP is missing or too short")
	}
	if a, ok := s.opt.Listener.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		return wire.Errorf(wire.ErrBadRequest, "--http 127.0.0.1:PORT", "%s is not a loopback address", a)
	}
	inner := server.NewStreamableHTTPServer(s.rpc, server.WithEndpointPath("/mcp"),
		server.WithSessionIdManager(httpSessions{cache.New[string, struct{}](2*maxConns, nil)}), server.WithStreamableHTTPLogger(s.opt.Logger))
	mux := http.NewServeMux()
	mux.Handle("/mcp", http.MaxBytesHandler(unanswered(namesMissing(inner)), maxLine))
	srv := &http.Server{Handler: s.guard(mux), ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	s.work.Go(func() { s.hello(ctx) })
	s.work.Go(func() {
		<-ctx.Done()
		// Streams of notifications never end by themselves.
		end, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = inner.Shutdown(end)
		if srv.Shutdown(end) != nil {
			srv.Close()
		}
	})
	err := srv.Serve(s.opt.Listener)
	if ctx.Err() != nil && errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// guard refuses requests with a foreign Origin or without the token.
func (s *Server) guard(next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(s.opt.Token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !loopbackHost(r.Host) || !loopbackOrigin(r.Header.Values("Origin")) {
			http.Error(w, "cachebro: this server accepts requests only from programs on this machine", http.StatusForbidden)
			return
		}
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(strings.TrimSpace(token)))
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="cachebro"`)
			http.Error(w, "cachebro: the bearer token is missing or wrong", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// loopbackOrigin reports whether the Origin header is missing, as for a program, or names this
// machine.
func loopbackOrigin(origins []string) bool {
	return !slices.ContainsFunc(origins, func(o string) bool {
		u, err := url.Parse(o)
		return err != nil || u.Host == "" || !loopbackHost(u.Host)
	})
}

// loopbackHost reports whether a Host header names this machine. It guards against DNS names
// rebound to a loopback address.
func loopbackHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// httpSessions are the connections opened over HTTP. Only ids from Generate are valid. A connection
// can be a reader, so clients must not invent ids. After a DELETE or a restart the client has to
// open a new connection.
type httpSessions struct {
	live *cache.Cache[string, struct{}]
}

// Generate opens a connection. If more than maxConns are open, it closes connections that were not
// used for a long time.
func (h httpSessions) Generate() string {
	id := randomID() + randomID()
	h.live.Put(id, struct{}{})
	return id
}

// Validate answers "terminated", which is HTTP 404, for every id that is not live. Clients then
// initialize again.
func (h httpSessions) Validate(id string) (isTerminated bool, err error) {
	_, live := h.live.Get(id)
	return !live, nil
}

func (h httpSessions) Terminate(id string) (isNotAllowed bool, err error) {
	h.live.Drop(id)
	return false, nil
}
