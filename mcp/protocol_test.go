package mcp

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"
)

// modern adds the _meta of a request of revision 2026-07-28.
func modern(params map[string]any) map[string]any {
	out := map[string]any{"_meta": map[string]any{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "test", "version": "0"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{},
	}}
	for k, v := range params {
		out[k] = v
	}
	return out
}

func TestInitialize(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"} {
		p := connectRaw(t, Options{Root: project(t, nil)})
		m := p.call("initialize", map[string]any{"protocolVersion": version, "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "t", "version": "0"}})
		var r struct {
			ProtocolVersion, Instructions string
			ServerInfo                    struct{ Name, Version string }
			Capabilities                  map[string]json.RawMessage
		}
		if err := json.Unmarshal(m.Result, &r); err != nil {
			t.Fatal(err)
		}
		if r.ProtocolVersion != version || r.ServerInfo.Name != "cachebro" || r.Instructions == "" {
			t.Errorf("%s: %s", version, m.Result)
		}
		for _, c := range []string{"tools", "resources", "completions"} {
			if r.Capabilities[c] == nil {
				t.Errorf("%s: no capability %s", version, c)
			}
		}
	}
}

// The stateless revision has no handshake, and every request names its client.
func TestModernEra(t *testing.T) {
	dir := project(t, files{"a.txt": "text\n"})
	p := connectRaw(t, Options{Root: dir, Profile: ProfileAll})
	var d struct {
		SupportedVersions []string
		Instructions      string
	}
	if err := json.Unmarshal(p.call("server/discover", modern(nil)).Result, &d); err != nil {
		t.Fatal(err)
	}
	if len(d.SupportedVersions) == 0 || d.SupportedVersions[0] != "2026-07-28" || d.Instructions == "" {
		t.Errorf("discover: %+v", d)
	}
	m := p.call("tools/call", modern(map[string]any{"name": "read_file", "arguments": map[string]any{"path": "a.txt"}}))
	if !strings.Contains(string(m.Result), `"text":"text\n"`) {
		t.Errorf("read: %s %+v", m.Result, m.Error)
	}
	// Each notification of a stream is marked with the request that opened the stream.
	id, answer := p.start("subscriptions/listen", modern(map[string]any{"notifications": map[string]any{"resourcesListChanged": true}}))
	ack := p.note("notifications/subscriptions/acknowledged")
	if !strings.Contains(string(ack.Params), "resourcesListChanged") {
		t.Errorf("acknowledged: %s", ack.Params)
	}
	p.call("tools/call", modern(map[string]any{"name": "write_file", "arguments": map[string]any{"path": "b.txt", "content": "x"}}))
	n := p.note("notifications/resources/list_changed")
	var tag struct {
		Meta map[string]any `json:"_meta"`
	}
	if err := json.Unmarshal(n.Params, &tag); err != nil || tag.Meta["io.modelcontextprotocol/subscriptionId"] != float64(id) {
		t.Errorf("notification is not tagged with %d: %s", id, n.Params)
	}
	p.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": map[string]any{"requestId": id}})
	select {
	case <-answer:
	case <-time.After(5 * time.Second):
		t.Error("the stream did not end when it was cancelled")
	}
	p.call("tools/call", modern(map[string]any{"name": "write_file", "arguments": map[string]any{"path": "c.txt", "content": "x"}}))
	select {
	case n := <-p.notes:
		t.Errorf("after the end of the stream: %s %s", n.Method, n.Params)
	case <-time.After(100 * time.Millisecond):
	}
}

func TestListChanged(t *testing.T) {
	dir := project(t, nil)
	p := connect(t, Options{Root: dir, Profile: ProfileAll})
	p.ok("write_file", map[string]any{"path": "dir/a b.txt", "content": "x"})
	p.note("notifications/resources/list_changed")
	got := string(p.call("resources/list", map[string]any{}).Result)
	for _, uri := range []string{"cachebro://status", "cachebro://working-set", "cachebro://metrics", "cachebro://history/dir/a%20b.txt"} {
		if !strings.Contains(got, `"`+uri+`"`) {
			t.Errorf("no %s in %s", uri, got)
		}
	}
	for range 30 {
		p.ok("write_file", map[string]any{"path": "f" + randomID(), "content": "x"})
	}
	got = string(p.call("resources/list", map[string]any{}).Result)
	if n := strings.Count(got, uriHistory); n != maxHistories {
		t.Errorf("%d histories listed, want the newest %d", n, maxHistories)
	}
}

func TestCompletion(t *testing.T) {
	dir := project(t, files{"src/main.go": "", "src/mail.go": "", "src/x/y.go": "", "readme": ""})
	p := connect(t, Options{Root: dir})
	for prefix, want := range map[string]string{
		"": `["readme","src/"]`, "src/ma": `["src/mail.go","src/main.go"]`, "src/x": `["src/x/"]`, "zzz": `[]`, "../": `[]`, "/etc/": `[]`,
	} {
		m := p.call("completion/complete", map[string]any{"ref": map[string]any{"type": "ref/resource", "uri": "cachebro://history/{+path}"},
			"argument": map[string]any{"name": "path", "value": prefix}})
		var r struct {
			Completion struct{ Values json.RawMessage }
		}
		if err := json.Unmarshal(m.Result, &r); err != nil {
			t.Fatalf("%s: %+v", m.Result, m.Error)
		}
		if string(r.Completion.Values) != want {
			t.Errorf("complete %q: %s, want %s", prefix, r.Completion.Values, want)
		}
	}
}

// hung answers nothing until it is cancelled.
type hung struct{ calls chan string }

func (h hung) Call(ctx context.Context, method string, _ any, _ []byte, _ any) ([]byte, error) {
	select {
	case h.calls <- method:
	default:
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// A daemon that hangs delays one read by two seconds, and then no other for a while. A request that
// only the daemon can answer can be cancelled at once.
func TestHungDaemon(t *testing.T) {
	dir := project(t, files{"a.txt": "text\n"})
	h := hung{make(chan string, 100)}
	p := connect(t, Options{Root: dir, Profile: ProfileAll, Dial: func(context.Context) (Caller, error) { return h, nil }})
	id, answer := p.start("tools/call", map[string]any{"name": "search_history", "arguments": map[string]any{}})
	for m := range h.calls {
		if m == "log" {
			break
		}
	}
	p.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": map[string]any{"requestId": id}})
	select {
	case m := <-answer:
		t.Errorf("a cancelled request was answered: %s", m.Result)
	case <-time.After(200 * time.Millisecond):
	}
	start := time.Now()
	for range 20 {
		if got := p.ok("read_file", map[string]any{"path": "a.txt"}); got != "text\n" {
			t.Errorf("read %q", got)
		}
	}
	p.ok("edit_file", map[string]any{"path": "a.txt", "old_string": "text", "new_string": "more"})
	if d := time.Since(start); d > readWait+time.Second {
		t.Errorf("20 reads and an edit took %v", d)
	}
}

// A message that is not a request must not end the server, and the answer to it must be JSON-RPC.
func TestBrokenMessages(t *testing.T) {
	p := connect(t, Options{Root: project(t, files{"a": "x\n"}), Profile: ProfileAll})
	for _, line := range []string{
		"", "  ", "hello", "{", "[]", "[{}]", "null", "1", `"x"`, "{}", `{"jsonrpc":"1.0","id":1,"method":"ping"}`,
		`{"jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","id":{},"method":"ping"}`, `{"jsonrpc":"2.0","id":[1],"method":"tools/call"}`,
		`{"jsonrpc":"2.0","id":1e400,"method":"ping"}`, `{"jsonrpc":"2.0","id":"x","method":5}`,
		`{"jsonrpc":"2.0","id":"y","method":"tools/call","params":[]}`, `{"jsonrpc":"2.0","id":"y","method":"tools/call","params":{"name":5}}`,
		`{"jsonrpc":"2.0","id":"y","method":"tools/call","params":{"name":"read_file","arguments":"a"}}`,
		`{"jsonrpc":"2.0","id":"y","method":"tools/call","params":{"name":"nothing"}}`,
		`{"jsonrpc":"2.0","id":"y","method":"tools/call","params":{"name":"read_file","arguments":{"path":"a"},"_meta":5}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
		`{"jsonrpc":"2.0","id":9,"result":{}}`, `{"jsonrpc":"2.0","id":"z","method":"resources/read","params":{"uri":"cachebro://nothing"}}`,
		`{"jsonrpc":"2.0","id":"z","method":"resources/read","params":{"uri":"cachebro://history/../../etc/passwd"}}`,
		`{"jsonrpc":"2.0","id":"z","method":"resources/read","params":{"uri":"cachebro://history/%zz"}}`,
		`{"jsonrpc":"2.0","id":"z","method":"subscriptions/listen"}`, `{"jsonrpc":"2.0","id":"z","method":"prompts/list"}`,
		strings.Repeat("[", 100000), `{"jsonrpc":"2.0","id":"d","method":"tools/call","params":` + strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5001),
		"\xff\xfe\x00", strings.Repeat("x", 1<<20),
	} {
		if _, err := io.WriteString(p.in, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	if m := p.call("ping", map[string]any{}); m.Error != nil {
		t.Errorf("ping: %+v", m.Error)
	}
	if got := p.ok("read_file", map[string]any{"path": "a"}); got != "x\n" {
		t.Errorf("read %q", got)
	}
}

func FuzzMessage(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"a","offset":1}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"edit_file","arguments":{"path":"a","old_string":"x","new_string":"y"}}}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"read_files","arguments":{"paths":["a","b"]},"_meta":{"progressToken":1}}}`,
		`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"ls","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":"5","method":"resources/read","params":{"uri":"cachebro://history/a"}}`,
		`{"jsonrpc":"2.0","id":6,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}}}`,
		`{"jsonrpc":"2.0","id":7,"method":"completion/complete","params":{"ref":{"type":"ref/resource","uri":"cachebro://history/{+path}"},"argument":{"name":"path","value":"a"}}}`,
		`{"jsonrpc":"2.0","id":8,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		// An id of the wrong type used to end the server.
		`{"jsonrpc":"2.0","id":[],"method":"subscriptions/listen","params":{"notifications":{}}}`,
		`{"jsonrpc":"2.0","id":{"a":[1]},"method":"tools/list"}`,
	} {
		f.Add([]byte(s))
	}
	dir := project(f, files{"a": "x\ny\n", "b": "z\n"})
	p := connect(f, Options{Root: dir, Profile: ProfileAll})
	go func() {
		for range p.notes { // answers to the fuzzer's requests
		}
	}()
	f.Fuzz(func(t *testing.T, line []byte) {
		p.t = t
		if _, err := p.in.Write(append(line, '\n')); err != nil {
			t.Fatalf("the server is gone: %v", err)
		}
		if m := p.call("ping", map[string]any{}); m.Error != nil {
			t.Fatalf("ping: %+v", m.Error)
		}
	})
}
