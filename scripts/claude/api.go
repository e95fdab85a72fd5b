package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// call is a tool call that the scripted model makes.
type call struct {
	Name  string         `json:"name"`
	Input map[string]any `json:"input"`
}

// step is one answer of the scripted model: text, or tool calls that the client runs before it
// asks again. If usage is set, it is reported to the client as the input token count in place
// of the true one; a large count makes the client compact.
type step struct {
	text  string
	calls []call
	usage int
	act   func() // runs just before this answer: a change by somebody else
}

// exchange is one request that reached the API.
type exchange struct {
	n      int
	script string // marker of the conversation that it belongs to; "" if none
	step   int
	body   request
	size   int
	ids    []string // ids of the tool calls in the answer
	beside bool     // not to be counted: of a run by plain
}

// api is the scripted Messages API. The marker "SCRIPT:name" in a request's messages says which
// conversation it belongs to. How far each conversation has got is kept here and not taken from
// the messages, because a compaction replaces those.
type api struct {
	dir string // request bodies are kept here

	// mu guards the fields down to apart.
	mu        sync.Mutex
	scripts   map[string][]step
	cursor    map[string]int
	exchanges []exchange
	past      int // number of exchanges that were forgotten
	ids       int
	apart     bool // the requests that come now are not to be counted

	srv *http.Server
	url string
}

// startAPI listens on a loopback port; close ends it.
func startAPI(dir string) (*api, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("request log: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	a := &api{dir: dir, scripts: map[string][]step{}, cursor: map[string]int{}, url: "http://" + l.Addr().String()}
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/messages", a.messages)
	mux.HandleFunc("/v1/messages/count_tokens", a.countTokens)
	mux.HandleFunc("/", a.other)
	a.srv = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go a.srv.Serve(l) //nolint:errcheck // ends with close
	return a, nil
}

func (a *api) close() { a.srv.Close() }

// script sets what the model does in the conversation of that name.
func (a *api) script(name string, steps ...step) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.scripts[name], a.cursor[name] = steps, 0
}

// beside says whether the requests from now on are not to be counted.
func (a *api) beside(is bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.apart = is
}

// forget begins a new record; the files of the requests stay.
func (a *api) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.past += len(a.exchanges)
	a.exchanges = nil
}

// of returns the requests of one conversation, oldest first.
func (a *api) of(name string) []exchange {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []exchange
	for _, e := range a.exchanges {
		if e.script == name {
			out = append(out, e)
		}
	}
	return out
}

func (a *api) other(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	a.note(fmt.Sprintf("%s %s (%d bytes)", r.Method, r.URL.Path, len(body)))
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodHead || r.URL.Path == "/" {
		w.WriteHeader(http.StatusOK)
		return
	}
	w.WriteHeader(http.StatusNotFound)
	io.WriteString(w, `{"type":"error","error":{"type":"not_found_error","message":"not scripted"}}`)
}

// note writes down a request that is not scripted.
func (a *api) note(line string) {
	f, err := os.OpenFile(filepath.Join(a.dir, "other.txt"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintln(f, line)
}

func (a *api) countTokens(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"input_tokens":%d}`, tokensOf(body))
}

// tokensOf estimates the tokens of a request. The hooks compare how it grew with what was
// added: if it grew by less, something was lost.
func tokensOf(body []byte) int { return len(body) / 4 }

func (a *api) messages(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var req request
	if err := json.Unmarshal(raw, &req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s, n, ids := a.next(req, raw)
	if s.act != nil {
		s.act()
	}
	if s.usage == 0 {
		s.usage = tokensOf(raw)
	}
	// The client takes answers with the same id for parts of one message.
	id := fmt.Sprintf("msg_%06d", n)
	if req.Stream {
		stream(w, req.Model, id, s, ids)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(whole(req.Model, id, s, ids))
}

// next finds the answer to a request and logs the request.
func (a *api) next(req request, raw []byte) (step, int, []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.past + len(a.exchanges) + 1
	os.WriteFile(filepath.Join(a.dir, fmt.Sprintf("%03d.json", n)), raw, 0o644)
	e := exchange{n: n, body: req, size: len(raw), beside: a.apart}
	s := step{text: "ok"}
	name := req.marker()
	switch {
	case name == "" || len(req.Tools) == 0 && !req.summary():
		// Titles, topics and the like: any answer will do.
	case req.summary():
		s.text = "<analysis>scripted</analysis><summary>The work so far, in short. SCRIPT:" + name + " goes on.</summary>"
		e.script = name + "/summary"
	default:
		e.script, e.step = name, a.cursor[name]
		if steps := a.scripts[name]; e.step < len(steps) {
			s = steps[e.step]
			a.cursor[name]++
		} else {
			s.text = "done"
		}
	}
	ids := make([]string, len(s.calls))
	for i := range ids {
		a.ids++
		ids[i] = fmt.Sprintf("toolu_%06d", a.ids)
	}
	e.ids = ids
	a.exchanges = append(a.exchanges, e)
	return s, n, ids
}

// marker returns the name in the last "SCRIPT:name" of the user's texts.
func (r request) marker() string {
	name := ""
	for _, m := range r.Messages {
		if m.Role != "user" {
			continue
		}
		for _, b := range m.blocks() {
			if b.Type != "text" {
				continue
			}
			if i := strings.LastIndex(b.Text, "SCRIPT:"); i >= 0 {
				rest := b.Text[i+len("SCRIPT:"):]
				end := strings.IndexFunc(rest, func(c rune) bool {
					return !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-')
				})
				if end < 0 {
					end = len(rest)
				}
				name = rest[:end]
			}
		}
	}
	return name
}

// summary reports whether the client asks to summarise the conversation.
func (r request) summary() bool {
	if len(r.Messages) == 0 {
		return false
	}
	for _, b := range r.Messages[len(r.Messages)-1].blocks() {
		if b.Type == "text" && strings.Contains(b.Text, "create a detailed summary") {
			return true
		}
	}
	return false
}
