package mcp

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cachebro/scripts/testkit/conformance"
)

// TestConformance runs the conformance suite of the read decision over both transports. What holds
// for the decision itself must also hold for the answers that a client receives.
func TestConformance(t *testing.T) {
	t.Run("stdio", func(t *testing.T) {
		conformance.Run(t, func(t *testing.T) conformance.Subject {
			l := liveProject(t, nil)
			over := func(reader string) func(testing.TB) toolCaller {
				return func(testing.TB) toolCaller {
					return connect(t, Options{Root: l.dir, Reader: reader, Small: 1 << 30, Dial: l.dial, Tokens: unpaged}).tool
				}
			}
			return &subject{live: l, reader: over(ReaderConnection), unknown: over("")}
		})
	})
	t.Run("stdio with hooks", func(t *testing.T) {
		conformance.Run(t, func(t *testing.T) conformance.Subject {
			l := liveProject(t, nil)
			dial := func(testing.TB) metaCaller {
				return connect(t, Options{Root: l.dir, Dial: l.dial, Tokens: unpaged}).toolMeta
			}
			return newWithHooks(t, l, dial, func(t testing.TB) toolCaller {
				call := dial(t)
				return func(name string, args map[string]any) result { return call(name, args, nil) }
			})
		})
	})
	t.Run("http with hooks", func(t *testing.T) {
		conformance.Run(t, func(t *testing.T) conformance.Subject {
			l := liveProject(t, nil)
			url := web(t, Options{Root: l.dir, Dial: l.dial, Tokens: unpaged})
			return newWithHooks(t, l, func(t testing.TB) metaCaller { return webMeta(t, url) },
				func(t testing.TB) toolCaller { return statelessReader(t, url) })
		})
	})
	t.Run("http", func(t *testing.T) {
		conformance.Run(t, func(t *testing.T) conformance.Subject {
			l := liveProject(t, nil)
			url := web(t, Options{Root: l.dir, Reader: ReaderConnection, Small: 1 << 30, Dial: l.dial, Tokens: unpaged})
			return &subject{live: l, reader: func(t testing.TB) toolCaller { return webReader(t, url) },
				unknown: func(t testing.TB) toolCaller { return statelessReader(t, url) }}
		})
	})
}

// unpaged makes every text fit, so that the suite's long files are read whole.
func unpaged([]byte) int { return 0 }

type toolCaller func(name string, args map[string]any) result

type subject struct {
	live            *live
	reader, unknown func(testing.TB) toolCaller
}

func (s *subject) path(p string) string { return filepath.Join(s.live.dir, p) }

func (s *subject) Write(t testing.TB, path, content string) { write(t, s.path(path), content) }

func (s *subject) Remove(t testing.TB, path string) {
	if err := os.Remove(s.path(path)); err != nil {
		t.Fatal(err)
	}
}

func (s *subject) Rename(t testing.TB, from, to string) {
	if err := os.Rename(s.path(from), s.path(to)); err != nil {
		t.Fatal(err)
	}
}

func (s *subject) Symlink(t testing.TB, target, path string) {
	_ = os.Remove(s.path(path))
	if err := os.Symlink(target, s.path(path)); err != nil {
		t.Fatal(err)
	}
}

func (s *subject) Hidden() bool { return true }

func (s *subject) WriteSameStat(t testing.TB, path, content string) {
	fi, err := os.Stat(s.path(path))
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Millisecond) // longer than a tick of the kernel's clock, so that ctime changes
	write(t, s.path(path), content)
	if err := os.Chtimes(s.path(path), fi.ModTime(), fi.ModTime()); err != nil {
		t.Fatal(err)
	}
}

func (s *subject) Reader(t testing.TB) conformance.Reader  { return &subjectReader{s.reader(t)} }
func (s *subject) Unknown(t testing.TB) conformance.Reader { return &subjectReader{s.unknown(t)} }

type subjectReader struct{ call toolCaller }

func (r *subjectReader) Read(t testing.TB, q conformance.Read) conformance.Answer {
	args := map[string]any{"path": q.Path, "offset": q.Offset, "limit": q.Limit, "force": q.Force, "diff_offset": q.DiffOffset}
	res := r.call("read_file", args)
	if res.IsError {
		return conformance.Answer{Err: errors.New(res.Content[0].Text)}
	}
	return conformance.Answer{Text: res.Content[0].Text}
}

func (r *subjectReader) Edit(t testing.TB, path, old, new string) {
	if res := r.call("edit_file", map[string]any{"path": path, "old_string": old, "new_string": new}); res.IsError {
		t.Fatal(res.Content[0].Text)
	}
}

// webReader is a connection over HTTP.
func webReader(t testing.TB, url string) toolCaller {
	call := webMeta(t, url)
	return func(name string, args map[string]any) result { return call(name, args, nil) }
}

func webMeta(t testing.TB, url string) metaCaller {
	hello := request(1, "initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "t", "version": "0"}})
	res, _ := post(t, url, nil, hello)
	header := map[string]string{"Mcp-Session-Id": res.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version": "2025-11-25"}
	return func(name string, args, meta map[string]any) result {
		params := map[string]any{"name": name, "arguments": args}
		if meta != nil {
			params["_meta"] = meta
		}
		return webCall(t, url, header, request(2, "tools/call", params))
	}
}

// statelessReader uses revision 2026-07-28, which has no connections.
func statelessReader(t testing.TB, url string) toolCaller {
	return func(name string, args map[string]any) result {
		header := map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name}
		return webCall(t, url, header, request(2, "tools/call", modern(map[string]any{"name": name, "arguments": args})))
	}
}

func webCall(t testing.TB, url string, header map[string]string, msg map[string]any) result {
	t.Helper()
	_, body := post(t, url, header, msg)
	// The answer may be the last event of a stream, after notifications.
	for line := range strings.SplitSeq(body, "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok && strings.Contains(data, `"result":`) {
			body = data
		}
	}
	var m struct{ Result result }
	if err := json.Unmarshal([]byte(body), &m); err != nil || len(m.Result.Content) == 0 {
		t.Fatalf("%v: %s", err, body)
	}
	return m.Result
}
