package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"cachebro/store/wire"
)

var update = flag.Bool("update", false, "write golden files anew")

// peer is a client that speaks raw JSON-RPC, so that tests see exactly what is sent.
type peer struct {
	t    testing.TB
	in   *io.PipeWriter
	done chan error

	mu      sync.Mutex
	next    int
	waiting map[string]chan reply
	notes   chan reply
}

type reply struct {
	ID     any             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    struct {
			URI string `json:"uri"`
		} `json:"data"`
	} `json:"error"`
}

// noDaemon is a Dial for a machine on which the daemon cannot be started.
func noDaemon(context.Context) (Caller, error) {
	return nil, wire.Errorf(wire.ErrNoDaemon, "", "no daemon in this test")
}

// connect serves opt over pipes and performs the handshake.
func connect(t testing.TB, opt Options) *peer {
	t.Helper()
	p := connectRaw(t, opt)
	p.call("initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "test", "version": "0"}})
	p.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
	return p
}

func connectRaw(t testing.TB, opt Options) *peer {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	opt.In, opt.Out = inR, outW
	if opt.Dial == nil {
		opt.Dial = noDaemon
	}
	if opt.Profile == "" {
		opt.Profile = ProfileAll // so that every tool can be tested
	}
	if opt.Version == "" {
		opt.Version = "test"
	}
	p := &peer{t: t, in: inW, done: make(chan error, 1), waiting: map[string]chan reply{}, notes: make(chan reply, 1000)}
	go func() {
		err := Serve(context.Background(), opt)
		outW.Close()
		p.done <- err
	}()
	go p.read(outR)
	t.Cleanup(func() {
		inW.Close()
		select {
		case err := <-p.done:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("Serve did not end with its input")
		}
	})
	return p
}

func (p *peer) read(r io.Reader) {
	br := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := br.ReadBytes('\n')
		if err != nil {
			return
		}
		var m reply
		if err := json.Unmarshal(line, &m); err != nil {
			p.t.Errorf("not JSON from the server: %q", line)
			continue
		}
		if m.Method != "" {
			p.notes <- m
			continue
		}
		p.mu.Lock()
		ch := p.waiting[fmt.Sprint(m.ID)]
		delete(p.waiting, fmt.Sprint(m.ID))
		p.mu.Unlock()
		if ch != nil {
			ch <- m
		} else {
			p.notes <- m
		}
	}
}

func (p *peer) send(m any) {
	p.t.Helper()
	b, err := json.Marshal(m)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.in.Write(append(b, '\n')); err != nil {
		p.t.Fatal(err)
	}
}

// start sends a request and returns its id and the channel on which its answer arrives.
func (p *peer) start(method string, params any) (id int, answer chan reply) {
	p.t.Helper()
	p.mu.Lock()
	p.next++
	id = 700_000 + p.next // ids that a fuzzer does not guess
	answer = make(chan reply, 1)
	p.waiting[fmt.Sprint(id)] = answer
	p.mu.Unlock()
	p.send(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	return id, answer
}

func (p *peer) call(method string, params any) reply {
	p.t.Helper()
	_, ch := p.start(method, params)
	select {
	case m := <-ch:
		return m
	case <-time.After(40 * time.Second):
		p.t.Fatalf("%s: no answer", method)
		return reply{}
	}
}

// result is the result of a tool call.
type result struct {
	Content []struct {
		Type, Text string
	}
	IsError    bool
	Structured map[string]any `json:"structuredContent"`
}

func (p *peer) tool(name string, args map[string]any) result {
	p.t.Helper()
	return p.toolMeta(name, args, nil)
}

func (p *peer) toolMeta(name string, args, meta map[string]any) result {
	p.t.Helper()
	params := map[string]any{"name": name, "arguments": args}
	if meta != nil {
		params["_meta"] = meta
	}
	m := p.call("tools/call", params)
	if m.Error != nil {
		p.t.Fatalf("%s %v: protocol error %d %s", name, args, m.Error.Code, m.Error.Message)
	}
	var r result
	if err := json.Unmarshal(m.Result, &r); err != nil {
		p.t.Fatal(err)
	}
	if len(r.Content) == 0 {
		p.t.Fatalf("%s: no content", name)
	}
	return r
}

// ok returns the text of a call that must not fail.
func (p *peer) ok(name string, args map[string]any) string {
	p.t.Helper()
	r := p.tool(name, args)
	if r.IsError {
		p.t.Fatalf("%s %v: %s", name, args, r.Content[0].Text)
	}
	return r.Content[0].Text
}

// bad returns the text of a call that must be refused with a tool error.
func (p *peer) bad(name string, args map[string]any) string {
	p.t.Helper()
	r := p.tool(name, args)
	if !r.IsError {
		p.t.Fatalf("%s %v: accepted: %s", name, args, r.Content[0].Text)
	}
	return r.Content[0].Text
}

// note waits for a notification of that method.
func (p *peer) note(method string) reply {
	p.t.Helper()
	limit := time.After(10 * time.Second)
	for {
		select {
		case m := <-p.notes:
			if m.Method == method {
				return m
			}
		case <-limit:
			p.t.Fatalf("no %s", method)
		}
	}
}

type files map[string]string

// project makes a directory with files; its path has no symlinks.
func project(t testing.TB, fs files) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range fs {
		write(t, filepath.Join(dir, name), content)
	}
	return dir
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b)
}
