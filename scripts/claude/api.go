package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"cachebro/scripts/testkit/modelserver"
)

// call is a tool call that the scripted model makes.
type call = modelserver.Call

// step is one answer of the scripted model: text, or tool calls that the client runs before it asks
// again. If usage is set, it is reported to the client as the input token count instead of the true
// count. A large count makes the client compact.
type step struct {
	text  string
	calls []call
	usage int
	act   func() // runs just before this answer; makes a change as another process would
}

// exchange is one request that reached the API.
type exchange struct {
	n      int
	script string // marker of the conversation to which the request belongs; "" if none
	step   int
	body   request
	size   int
	ids    []string // ids of the tool calls in the answer
	beside bool     // the request belongs to a run of bench.plain and is not counted
}

// api is the scripted Messages API. The marker "SCRIPT:name" in a request's messages says which
// conversation it belongs to. The position in each conversation is stored here and not derived from
// the messages, because a compaction replaces the messages.
type api struct {
	*modelserver.Server

	mu        sync.Mutex // guards the rest
	scripts   map[string][]step
	cursor    map[string]int
	exchanges []exchange
	ids       int
	apart     bool // requests that arrive now are not counted
}

func startAPI(dir string) (a *api, err error) {
	a = &api{scripts: map[string][]step{}, cursor: map[string]int{}}
	a.Server, err = modelserver.Start(dir, a.answer)
	return a, err
}

// script sets the steps of the model in the conversation with that name.
func (a *api) script(name string, steps ...step) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.scripts[name], a.cursor[name] = steps, 0
}

// beside sets whether requests are left out of the counts from now on.
func (a *api) beside(is bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.apart = is
}

// forget begins a new record of requests. The files that contain the requests stay.
func (a *api) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
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

func (a *api) answer(q modelserver.Request) modelserver.Answer {
	var req request
	_ = json.Unmarshal(q.Body, &req)
	s, ids := a.next(req, q)
	if s.act != nil {
		s.act()
	}
	return modelserver.Answer{Text: s.text, Calls: s.calls, IDs: ids, Tokens: s.usage}
}

// next finds the answer to a request and logs the request.
func (a *api) next(req request, q modelserver.Request) (step, []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := exchange{n: q.N, body: req, size: len(q.Body), beside: a.apart}
	s := step{text: "ok"}
	name := req.marker()
	switch {
	case name == "" || len(req.Tools) == 0 && !req.summary():
		// The request is for a title, a topic or the like, for which any answer is good enough.
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
	return s, ids
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
