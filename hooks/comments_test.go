package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cachebro/cmd/cachebro/daemon/sessions"
	"cachebro/scripts/testkit/daemontest"
	"cachebro/store"
	"cachebro/store/wire"
)

// commented is a project whose daemon answers requests about comments as the real one does.
type commented struct {
	*project
	daemon wire.Handler
	// mu guards before, which is called with each request and may answer instead of the daemon.
	mu     sync.Mutex
	before func(q wire.CommentsRequest) (answered bool, err error)
}

func newCommented(t *testing.T) *commented {
	d := daemontest.New(t)
	p := &commented{project: newProject(t)}
	now := func() time.Time { p.mu.Lock(); defer p.mu.Unlock(); return p.now }
	p.daemon = sessions.NewComments(d.Store, d.Paths, now).Handlers()[wire.MComments]
	p.serve(answers{wire.MComments: func(r *wire.Request) (any, []byte, error) {
		var q wire.CommentsRequest
		if err := json.Unmarshal(r.Params, &q); err != nil {
			return nil, nil, err
		}
		p.mu.Lock()
		before := p.before
		p.mu.Unlock()
		if before != nil {
			if answered, err := before(q); answered || err != nil {
				return wire.CommentsAnswer{}, nil, err
			}
		}
		return p.daemon(context.Background(), r)
	}})
	return p
}

// do asks the daemon as another client would.
func (p *commented) do(q wire.CommentsRequest) []wire.Comment {
	p.t.Helper()
	params, err := json.Marshal(q)
	if err != nil {
		p.t.Fatal(err)
	}
	a, _, err := p.daemon(context.Background(), &wire.Request{Method: wire.MComments, Params: params})
	if err != nil {
		p.t.Fatal(err)
	}
	return a.(wire.CommentsAnswer).Comments
}

func (p *commented) say(text string) string {
	p.t.Helper()
	return p.do(wire.CommentsRequest{Do: "add", Comment: wire.Comment{Session: "s1", Path: []byte("a.go"), Seq: 7, Line: 3, Quote: "the line", Text: text}})[0].ID
}

// prompt returns what the model gets with the session's next prompt.
func (p *commented) prompt() string {
	p.t.Helper()
	out := p.run(`{"session_id":"s1","transcript_path":"` + p.transcript() + `","cwd":"PROJ","hook_event_name":"UserPromptSubmit","prompt":"go on"}`).stdout
	if out == "" {
		return ""
	}
	var a struct {
		HookSpecificOutput struct{ AdditionalContext string }
	}
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		p.t.Fatalf("%v: %s", err, out)
	}
	return a.HookSpecificOutput.AdditionalContext
}

func (p *commented) transcript() string { return filepath.Join(p.paths.Home, "transcript.jsonl") }

func (p *commented) later(d time.Duration) {
	p.mu.Lock()
	p.now = p.now.Add(d)
	p.mu.Unlock()
}

func (p *commented) when(before func(q wire.CommentsRequest) (bool, error)) {
	p.mu.Lock()
	p.before = before
	p.mu.Unlock()
}

// waiting returns the texts of comments that were not delivered.
func (p *commented) waiting() (texts []string) {
	for _, c := range p.do(wire.CommentsRequest{Do: "list"}) {
		if c.Delivered.IsZero() {
			texts = append(texts, c.Text)
		}
	}
	return texts
}

// TestCommentsOnce: whatever happens between a hook's request and its output, the model gets each
// comment once.
func TestCommentsOnce(t *testing.T) {
	killed := errors.New("the daemon was killed")

	t.Run("told", func(t *testing.T) {
		p := newCommented(t)
		id := p.say("not so\r\n\x1b[31mplease\u202e")
		if got := p.prompt(); !strings.Contains(got, "a.go:3 (as of version 7; "+id+`), the line "the line":`) || !strings.Contains(got, "  not so\n  [31mplease\n") {
			t.Errorf("got %q", got)
		}
		if left := p.waiting(); len(left) != 0 {
			t.Errorf("waiting: %q", left)
		}
		p.later(time.Hour)
		if got := p.prompt(); got != "" {
			t.Errorf("again: %q", got)
		}
	})

	t.Run("another prompt took one of them", func(t *testing.T) {
		p := newCommented(t)
		first := p.say("number one")
		p.say("number two")
		p.when(func(q wire.CommentsRequest) (bool, error) {
			if q.Do == "claim" {
				p.do(wire.CommentsRequest{Do: "claim", IDs: []string{first}})
			}
			return false, nil
		})
		if got := p.prompt(); strings.Contains(got, "number one") || !strings.Contains(got, "number two") {
			t.Errorf("got %q", got)
		}
		if left := p.waiting(); len(left) != 1 || left[0] != "number one" {
			t.Errorf("waiting: %q", left)
		}
	})

	t.Run("killed before it claims", func(t *testing.T) {
		p := newCommented(t)
		p.say("number one")
		p.when(func(q wire.CommentsRequest) (bool, error) {
			if q.Do == "claim" {
				return true, killed
			}
			return false, nil
		})
		if got := p.prompt(); got != "" {
			t.Errorf("got %q", got)
		}
		p.when(nil)
		if got := p.prompt(); !strings.Contains(got, "number one") {
			t.Errorf("then: %q", got)
		}
	})

	t.Run("killed when it has claimed", func(t *testing.T) {
		p := newCommented(t)
		p.say("number one")
		p.when(func(q wire.CommentsRequest) (bool, error) {
			if q.Do == "claim" {
				p.do(q)
				return true, killed
			}
			return false, nil
		})
		if got := p.prompt(); got != "" {
			t.Errorf("got %q", got)
		}
		p.when(nil)
		if got := p.prompt(); got != "" {
			t.Errorf("while the other may still print it: %q", got)
		}
		if err := os.WriteFile(p.transcript(), []byte(strings.Repeat("{}\n", 1000)), 0o600); err != nil {
			t.Fatal(err)
		}
		p.later(2 * time.Minute)
		if got := p.prompt(); !strings.Contains(got, "number one") || len(p.waiting()) != 0 {
			t.Errorf("later: %q, waiting %q", got, p.waiting())
		}
	})

	t.Run("killed when it has printed", func(t *testing.T) {
		p := newCommented(t)
		id := p.say("number one")
		p.when(func(q wire.CommentsRequest) (bool, error) { return q.Do == "delivered", nil })
		if got := p.prompt(); !strings.Contains(got, id) {
			t.Errorf("got %q", got)
		}
		p.when(nil)
		// The file is read in pieces, and the id is half in one piece and half in the next.
		if err := os.WriteFile(p.transcript(), []byte(strings.Repeat("x", 1<<20-5)+id+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		p.later(2 * time.Minute)
		if got := p.prompt(); got != "" || len(p.waiting()) != 0 {
			t.Errorf("later: %q, waiting %q", got, p.waiting())
		}
	})

	t.Run("a client that takes no text", func(t *testing.T) {
		p := newCommented(t)
		p.say("number one")
		p.args = []string{"--client=cursor"}
		silent(t, p.run(`{"hook_event_name":"beforeSubmitPrompt","conversation_id":"s1","generation_id":"n1","workspace_roots":["PROJ"],"prompt":"x"}`))
		if left := p.waiting(); len(left) != 1 {
			t.Errorf("waiting: %q", left)
		}
	})
}

// TestCommentsDeaf checks that the answer for the web page names a client that takes no text from
// hooks.
func TestCommentsDeaf(t *testing.T) {
	d := daemontest.New(t)
	if err := d.Store.Sessions.Put(store.Session{ID: "s1", Client: "cursor"}); err != nil {
		t.Fatal(err)
	}
	h := sessions.NewComments(d.Store, d.Paths, time.Now).Handlers()[wire.MComments]
	a, _, err := h(context.Background(), &wire.Request{Method: wire.MComments, Params: []byte(`{"do":"list","session":"s1"}`)})
	if err != nil || a.(wire.CommentsAnswer).Deaf != "cursor" {
		t.Errorf("%+v, %v", a, err)
	}
}
