package mcp

import (
	"slices"
	"sync"
)

// httpSessions are the connections opened over HTTP. Only ids from Generate are valid: a connection
// can be a reader, so clients must not invent ids. After a DELETE or a restart the client has to
// open a new connection.
type httpSessions struct {
	mu   sync.Mutex // guards live
	live []string   // least recently used first
}

// Generate opens a connection. Above maxConns, it closes the least recently used one.
func (h *httpSessions) Generate() string {
	id := randomID() + randomID()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.live) >= maxConns {
		h.live = h.live[1:]
	}
	h.live = append(h.live, id)
	return id
}

// Validate answers "terminated", which is HTTP 404, for every id that is not live. Clients then
// initialize again.
func (h *httpSessions) Validate(id string) (isTerminated bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.live, id)
	if i < 0 {
		return true, nil
	}
	h.live = append(slices.Delete(h.live, i, i+1), id)
	return false, nil
}

func (h *httpSessions) Terminate(id string) (isNotAllowed bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.live = slices.DeleteFunc(h.live, func(l string) bool { return l == id })
	return false, nil
}
