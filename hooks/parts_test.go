package hooks

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"cachebro/store/wire"
)

// shortens is a daemon that answers the request for every part with a stub, and records the
// requests.
type shortens struct {
	*project
	mu   sync.Mutex // guards asks
	asks []string
}

func newShortens(t *testing.T) *shortens {
	p := &shortens{project: newProject(t)}
	p.serve(answers{wire.MRead: func(r *wire.Request) (any, []byte, error) {
		var q wire.ReadRequest
		if err := r.Decode(&q); err != nil {
			return nil, nil, err
		}
		p.mu.Lock()
		p.asks = append(p.asks, fmt.Sprintf("%s %d+%d #%d", q.Path, q.Rewrite.StartLine, q.Rewrite.NumLines, q.Rewrite.Part))
		p.mu.Unlock()
		if strings.HasPrefix(string(q.Path), "new") {
			return wire.ReadAnswer{Kind: wire.ReadKeep}, nil, nil
		}
		return wire.ReadAnswer{Kind: wire.ReadUnchanged}, []byte("cachebro: " + string(q.Path)), nil
	}, wire.MCommit: func(r *wire.Request) (any, []byte, error) {
		var q wire.Commit
		if err := r.Decode(&q); err != nil || q.Calls[0].Took != wire.TookOwn {
			return nil, nil, err
		}
		return wire.CommitAnswer{Own: []string{q.Calls[0].ToolUse}}, nil, nil
	}})
	for name, text := range map[string]string{"a": manyLines("a"), "b": manyLines("b"), "new": manyLines("new"), "open": "no end"} {
		if err := os.WriteFile(filepath.Join(p.root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func manyLines(name string) string {
	var s strings.Builder
	for i := range 40 {
		fmt.Fprintf(&s, "%s: line %d of some length\n", name, i+1)
	}
	return s.String()
}

func numberedLines(text string, from int) string {
	var s strings.Builder
	for l := range strings.Lines(text) {
		fmt.Fprintf(&s, "%6d\t%s", from, l)
		from++
	}
	return s.String()
}

// Each part of a command's output that only shows a file is shortened in its place. A part that
// prints something else stays. If the output is not what the files contain, all of it stays.
func TestParts(t *testing.T) {
	a, b, fresh := manyLines("a"), manyLines("b"), manyLines("new")
	for _, c := range []struct{ command, stdout, want, asks string }{
		{"cat a b", a + b, "cachebro: a\ncachebro: b", "a 1+40 #1, b 1+40 #2"},
		{"cat a; cat b", a + b, "cachebro: a\ncachebro: b", "a 1+40 #1, b 1+40 #2"},
		{"cat a && echo --- && head -30 b", a + "---\n" + b[:strings.Index(b, "b: line 31")], "cachebro: a\n---\ncachebro: b", "a 1+40 #1, b 1+30 #3"},
		{"cat -n a", numberedLines(a, 1), "cachebro: a", "a 1+40 #1"},
		{"nl -ba a 2>/dev/null", numberedLines(a, 1), "cachebro: a", "a 1+40 #1"},
		{"nl a", numberedLines(a, 1), "cachebro: a", "a 1+40 #1"},
		{"nl -ba a | sed -n '11,40p'", numberedLines(a[strings.Index(a, "a: line 11"):], 11), "cachebro: a", "a 11+30 #1"},
		{"cat -n a 2>&1 | head -30 && cat b", numberedLines(a[:strings.Index(a, "a: line 31")], 1) + b, "cachebro: a\ncachebro: b", "a 1+30 #1, b 1+40 #2"},
		{"cat a open", a + "no end", "cachebro: a\nno end", "a 1+40 #1, open 1+1 #2"},
		{"cat a open && true", a + "no end", "cachebro: a\nno end", "a 1+40 #1, open 1+1 #2"},
		{"cat new a", fresh + a, fresh + "cachebro: a", "new 1+40 #1, a 1+40 #2"},
		{"cat a && git status", a + "on main\nclean\n", "cachebro: a\non main\nclean", "a 1+40 #1"},
		{"wc -l a && cat a", "40 a\n" + a, "40 a\ncachebro: a", "a 1+40 #2"},
		{"cat b; ls; pwd; tail -35 a", b + "x\ny\n" + a[strings.Index(a, "a: line 6"):], "cachebro: b\nx\ny\ncachebro: a", "b 1+40 #1, a 6+35 #4"},
		{"cd sub && cat ../a && cat ../b", a + b, "cachebro: a\ncachebro: b", "a 1+40 #1, b 1+40 #2"},
		// These are left alone: another text, two gaps, no file shown, a line of two files, or no
		// certainty that the command succeeded.
		{"cat a b", a + strings.Replace(b, "line 7", "line x", 1), "", ""},
		{"ls; cat a; ls", a, "", ""},
		{"cat open a", "no end" + a, "", ""}, // both would count as shown, but no line of the output is a line of open or the first one of a
		{"cat open && ls", "no endx\n", "", ""},
		{"cat a b", b + a, "", ""},
		{"wc -l a && cat a", "40 a" + a, "", ""},
		{"cat a || cat b", a, "", ""},
		{"cat a b | wc", "80 1 1", "", ""},
		{"eval x; cat a", a, "", ""},
		{"cat a b > c", "x", "", ""},
		{"cat -n a b", numberedLines(a+b, 1), "", ""},
		{"cat -n a | nl", numberedLines(a, 1), "", ""},
		{"cat a 2>&1; cat none", a + "cat: none: No such file or directory", "", ""},
	} {
		p := newShortens(t)
		event := fmt.Sprintf(`{"session_id":"s1","cwd":"PROJ","hook_event_name":"PostToolUse","tool_name":"Bash","tool_use_id":"t1","tool_input":{"command":%q},"tool_response":{"stdout":%q,"stderr":"","interrupted":false,"isImage":false}}`,
			c.command, strings.TrimRight(c.stdout, "\n"))
		got := p.run(event).stdout
		want := ""
		if c.want != "" && c.want != c.stdout {
			want = fmt.Sprintf(`{"hookSpecificOutput":{"hookEventName":"PostToolUse","updatedToolOutput":{"interrupted":false,"isImage":false,"noOutputExpected":false,"stderr":"","stdout":%q}}}`+"\n", c.want)
		}
		if got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.command, got, want)
		}
		if asks := strings.Join(p.asks, ", "); asks != c.asks {
			t.Errorf("%s: asked %s, want %s", c.command, asks, c.asks)
		}
		if c.want == "" {
			continue
		}
		for text, took := range map[string]string{c.want: wire.TookOurs, c.stdout: wire.TookOwn, c.stdout[:60]: wire.TookOther, c.want + "\n<system-reminder>x</system-reminder>": wire.TookOurs} {
			if c.want == c.stdout && took == wire.TookOurs {
				continue // nothing was shortened, so this is the client's own text
			}
			silent(t, p.run(fmt.Sprintf(`{"session_id":"s1","cwd":"PROJ","hook_event_name":"PostToolBatch","tool_calls":[{"tool_name":"Bash","tool_input":{"command":%q},"tool_use_id":"t1","tool_response":%q}]}`, c.command, text)))
			var q wire.Commit
			if p.asked(wire.MCommit, &q); len(q.Calls) != 1 || q.Calls[0].Took != took {
				t.Errorf("%s: committed %+v, want %s", c.command, q.Calls, took)
			}
		}
		if refused := len(Refusals(p.paths, p.now)) > 0; refused != (c.want != c.stdout) {
			t.Errorf("%s: refused %v; only what was shortened can be refused", c.command, refused)
		}
	}
}

// The client removes empty lines at the end of an output, so those of the last file are not
// reported as shown. If it also removes some at the beginning, nothing is reported.
func TestPartsEndWhereTheOutputEnds(t *testing.T) {
	p := newProject(t)
	var mu sync.Mutex
	bodies := map[string]string{}
	p.serve(answers{wire.MRead: func(r *wire.Request) (any, []byte, error) {
		var q wire.ReadRequest
		if err := r.Decode(&q); err != nil {
			return nil, nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		bodies[string(q.Path)] = string(r.Body)
		return wire.ReadAnswer{Kind: wire.ReadKeep}, nil, nil
	}})
	a, b := manyLines("a")+"\n\n", manyLines("b")+" \n\n\n"
	for name, text := range map[string]string{"a": a, "b": b, "blank": "\n" + a} {
		if err := os.WriteFile(filepath.Join(p.root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	bash := func(command, stdout string) {
		p.run(fmt.Sprintf(`{"session_id":"s1","cwd":"PROJ","hook_event_name":"PostToolUse","tool_name":"Bash","tool_use_id":"t1","transcript_path":"PROJ/t.jsonl",`+
			`"tool_input":{"command":%q},"tool_response":{"stdout":%q,"stderr":"","interrupted":false,"isImage":false}}`, command, stdout))
	}
	for _, c := range []struct {
		command, stdout string
		bodies          map[string]string
	}{
		{"cat a b", a + b, map[string]string{"a": a, "b": strings.TrimRight(b, " \n")}},
		{"cat b a", b + a, map[string]string{"a": strings.TrimRight(a, "\n"), "b": b}},
		{"cat a b && true", a + b, map[string]string{"a": a, "b": strings.TrimRight(b, " \n")}},
		{"cat blank b", "\n" + a + b, map[string]string{}},
	} {
		clear(bodies)
		bash(c.command, c.stdout)
		mu.Lock()
		for _, name := range []string{"a", "b", "blank"} {
			if bodies[name] != c.bodies[name] {
				t.Errorf("%s: %s: %q was reported as shown, want %q", c.command, name, bodies[name], c.bodies[name])
			}
		}
		mu.Unlock()
	}
}
