package mcp

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// slow is a daemon that does not answer a search until the call is cancelled or the daemon is
// released.
type slow struct {
	entered chan struct{}
	release chan struct{}
}

func (s *slow) dial(context.Context) (Caller, error) { return s, nil }

func (s *slow) Call(ctx context.Context, method string, _ any, _ []byte, _ any) ([]byte, error) {
	if method != "search" {
		return nil, nil
	}
	s.entered <- struct{}{}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.release:
		return nil, nil
	}
}

func newSlow() *slow { return &slow{entered: make(chan struct{}, 1), release: make(chan struct{})} }

// A call that was cancelled over HTTP used to be answered with an error. It must have no answer,
// and later requests on the connection must be answered.
func TestCancelledOverHTTP(t *testing.T) {
	s := newSlow()
	url := web(t, Options{Root: project(t, files{"a.txt": "text\n"}), Dial: s.dial})
	hello := request(1, "initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "t", "version": "0"}})
	res, _ := post(t, url, nil, hello)
	session := map[string]string{"Mcp-Session-Id": res.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version": "2025-11-25"}
	for _, meta := range []map[string]any{nil, {"progressToken": "p"}} {
		answered := make(chan string, 1)
		go func() {
			params := map[string]any{"name": "search", "arguments": map[string]any{"pattern": "x"}}
			if meta != nil {
				params["_meta"] = meta
			}
			res, body := post(t, url, session, request(7, "tools/call", params))
			answered <- fmt.Sprint(res.StatusCode, " ", res.Header.Get("Content-Type"), " ", body)
		}()
		<-s.entered
		if res, body := post(t, url, session, map[string]any{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": map[string]any{"requestId": 7}}); res.StatusCode != http.StatusAccepted {
			t.Errorf("the cancellation: %s %s", res.Status, body)
		}
		if got := <-answered; got != "200 text/event-stream " {
			t.Errorf("the cancelled call was answered: %s", got)
		}
	}
	read := request(8, "tools/call", map[string]any{"name": "read_file", "arguments": map[string]any{"path": "a.txt"}})
	if res, body := post(t, url, session, read); !strings.Contains(body, `"id":8`) {
		t.Errorf("what came after it: %s %s", res.Status, body)
	}
}

// During a long search, a client that asked for progress gets a notification each second. Other
// clients get none.
func TestProgressOfLongCalls(t *testing.T) {
	s := newSlow()
	p := connect(t, Options{Root: project(t, nil), Dial: s.dial})
	params := map[string]any{"name": "search", "arguments": map[string]any{"pattern": "x"}, "_meta": map[string]any{"progressToken": "mine"}}
	_, answer := p.start("tools/call", params)
	<-s.entered
	for want := 1; want <= 2; {
		n := <-p.notes
		if n.Method != "notifications/progress" {
			continue
		}
		if got := string(n.Params); !strings.Contains(got, `"progressToken":"mine"`) || !strings.Contains(got, fmt.Sprintf(`"progress":%d,`, want)) && !strings.Contains(got, fmt.Sprintf(`"progress":%d}`, want)) || !strings.Contains(got, "search: ") {
			t.Errorf("progress %d: %s", want, got)
		}
		want++
	}
	s.release <- struct{}{}
	<-answer
}
