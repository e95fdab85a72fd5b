package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

const testToken = "0123456789abcdef0123"

// web serves opt on a loopback port.
func web(t *testing.T, opt Options) (url string) {
	t.Helper()
	if opt.Profile == "" {
		opt.Profile = ProfileAll // so that every tool can be tested
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	opt.Listener, opt.Version = l, "test"
	if opt.Token == "" {
		opt.Token = testToken
	}
	if opt.Dial == nil {
		opt.Dial = noDaemon
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, opt) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("Serve did not end")
		}
	})
	return "http://" + l.Addr().String() + "/mcp"
}

// post sends one message. The answer's body is JSON or the data of an event.
func post(t testing.TB, url string, header map[string]string, msg any) (*http.Response, string) {
	t.Helper()
	b, err := json.Marshal(msg)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest("POST", url, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Authorization", "Bearer "+testToken)
	for k, v := range header {
		if k == "Host" {
			req.Host = v
		} else {
			req.Header.Set(k, v)
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func request(id int, method string, params map[string]any) map[string]any {
	return map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params}
}

func TestHTTP(t *testing.T) {
	dir := project(t, files{"a.txt": "text\n"})
	url := web(t, Options{Root: dir, Reader: ReaderConnection})
	hello := request(1, "initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "t", "version": "0"}})
	res, body := post(t, url, nil, hello)
	if res.StatusCode != 200 || !strings.Contains(body, `"cachebro"`) {
		t.Fatalf("initialize: %s %s", res.Status, body)
	}
	if res.Header.Get("Mcp-Session-Id") == "" {
		t.Error("no session id")
	}
	session := map[string]string{"Mcp-Session-Id": res.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version": "2025-11-25"}
	read := request(2, "tools/call", map[string]any{"name": "read_file", "arguments": map[string]any{"path": "a.txt"}})
	if res, body := post(t, url, session, read); !strings.Contains(body, `text\n`) {
		t.Errorf("read: %s %s", res.Status, body)
	}
	// Revision 2026-07-28 has no session. Header and body name the revision.
	read["params"] = modern(read["params"].(map[string]any))
	if res, body := post(t, url, map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "read_file"}, read); !strings.Contains(body, `text\n`) {
		t.Errorf("stateless read: %s %s", res.Status, body)
	}
	ended, err := http.NewRequest("DELETE", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	ended.Header.Set("Authorization", "Bearer "+testToken)
	for k, v := range session {
		ended.Header.Set(k, v)
	}
	if res, err := http.DefaultClient.Do(ended); err != nil || res.StatusCode != 200 {
		t.Errorf("delete: %v %v", res, err)
	} else {
		res.Body.Close()
	}
	delete(read["params"].(map[string]any), "_meta")
	for _, tc := range []struct {
		name   string
		header map[string]string
		want   int
	}{
		{"an ended session", session, 404},
		{"an invented session", map[string]string{"Mcp-Session-Id": "0123456789abcdef"}, 404},
	} {
		if res, body := post(t, url, tc.header, read); res.StatusCode != tc.want {
			t.Errorf("%s: %s %s", tc.name, res.Status, body)
		}
	}
	for _, tc := range []struct {
		name   string
		header map[string]string
		want   int
	}{
		{"no token", map[string]string{"Authorization": ""}, 401},
		{"wrong token", map[string]string{"Authorization": "Bearer 0123456789abcdef0124"}, 401},
		{"token without scheme", map[string]string{"Authorization": testToken}, 401},
		{"a web page", map[string]string{"Origin": "https://example.com"}, 403},
		{"a sandboxed page", map[string]string{"Origin": "null"}, 403},
		{"a rebound name", map[string]string{"Host": "evil.example:80"}, 403},
		{"a page from here", map[string]string{"Origin": "http://localhost:3000"}, 200},
	} {
		if res, body := post(t, url, tc.header, hello); res.StatusCode != tc.want {
			t.Errorf("%s: %s %s", tc.name, res.Status, body)
		}
	}
}

func TestHTTPRefusesToListenOpenly(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	opt := Options{Root: project(t, nil), Dial: noDaemon, Listener: l, Token: testToken}
	if err := Serve(context.Background(), opt); err == nil || !strings.Contains(err.Error(), "loopback") {
		t.Errorf("all addresses: %v", err)
	}
	l2, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l2.Close()
	opt.Listener, opt.Token = l2, "short"
	if err := Serve(context.Background(), opt); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("short token: %v", err)
	}
}

func TestOptions(t *testing.T) {
	for want, opt := range map[string]Options{
		"unknown tool profile": {Root: "/", Dial: noDaemon, Profile: "most"},
		"unknown reader":       {Root: "/", Dial: noDaemon, Reader: "process"},
		"not an absolute path": {Root: ".", Dial: noDaemon},
		"no way to find":       {Root: "/"},
		"no input and output":  {Root: "/", Dial: noDaemon},
	} {
		if err := Serve(context.Background(), opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
