package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pages is a running cachebro ui, with the cookie and secret that a browser has.
type pages struct {
	t      *testing.T
	pid    int
	first  string // the address with the token
	origin string
	base   string // of all pages
	cookie *http.Cookie
	csrf   string
}

// ui starts cachebro ui for the project and goes to the first address.
func (p *project) ui() *pages {
	p.t.Helper()
	cmd := exec.Command(binary, "ui", "--no-open")
	cmd.Dir, cmd.Env = p.dir, p.env
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	g := &pages{t: p.t, pid: cmd.Process.Pid}
	ended := make(chan error, 1)
	p.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-ended:
			if err != nil {
				p.t.Errorf("cachebro ui ended with %v", err)
			}
		case <-time.After(time.Minute):
			_ = cmd.Process.Kill()
			p.t.Error("cachebro ui did not end")
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() { ended <- cmd.Wait() }()
	if err != nil {
		p.t.Fatalf("cachebro ui printed no address: %v", err)
	}
	g.first = strings.TrimSpace(line)
	u, err := url.Parse(g.first)
	if err != nil || u.Hostname() != "127.0.0.1" {
		p.t.Fatalf("address %q: %v", g.first, err)
	}
	g.origin = "http://" + u.Host
	r, _ := g.do("GET", g.first, nil, nil)
	if len(r.Cookies()) != 1 {
		p.t.Fatalf("the first address gave %d cookies: %s", len(r.Cookies()), r.Status)
	}
	g.cookie = r.Cookies()[0]
	g.base = g.origin + strings.TrimPrefix(r.Header.Get("Refresh"), "0; url=")
	_, page := g.do("GET", g.base, nil, nil)
	m := regexp.MustCompile(`"X-Cachebro":"([^"]+)"`).FindStringSubmatch(html.UnescapeString(page))
	if m == nil {
		p.t.Fatalf("the page holds no secret:\n%s", page)
	}
	g.csrf = m[1]
	return g
}

// do sends a request with the cookie and these headers; a Host header also sets the request's host.
func (g *pages) do(method, address string, body url.Values, headers map[string]string) (*http.Response, string) {
	g.t.Helper()
	req, err := http.NewRequest(method, address, strings.NewReader(body.Encode()))
	if err != nil {
		g.t.Fatal(err)
	}
	if g.cookie != nil {
		req.AddCookie(&http.Cookie{Name: g.cookie.Name, Value: g.cookie.Value})
	}
	if method == "POST" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for k, v := range headers {
		switch {
		case k == "Host":
			req.Host = v
		case v == "":
			req.Header.Del(k)
		default:
			req.Header.Set(k, v)
		}
	}
	r, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return r, string(b)
}

// get requests a part of a page, which must exist.
func (g *pages) get(part string) string {
	g.t.Helper()
	r, body := g.do("GET", g.base+part, nil, nil)
	if r.StatusCode != http.StatusOK {
		g.t.Fatalf("%s: %s\n%s", part, r.Status, body)
	}
	return body
}

// post sends a form as a page does.
func (g *pages) post(part string, form url.Values) string {
	g.t.Helper()
	r, body := g.do("POST", g.base+part, form, map[string]string{"Origin": g.origin, "X-Cachebro": g.csrf})
	if r.StatusCode != http.StatusOK {
		g.t.Fatalf("%s: %s\n%s", part, r.Status, body)
	}
	return body
}

// find returns the first submatch in a part of a page, unescaped.
func (g *pages) find(in, pattern string) string {
	g.t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(in)
	if m == nil {
		g.t.Fatalf("no %s in\n%s", pattern, in)
	}
	return html.UnescapeString(m[1])
}

// form returns the form of a plan that is to be sent back.
func (g *pages) form(plan string) url.Values {
	v := url.Values{}
	for _, m := range regexp.MustCompile(`<input type="hidden" name="([a-z]+)" value="([ -~]*?)">`).FindAllStringSubmatch(plan, -1) {
		v.Set(m[1], html.UnescapeString(m[2]))
	}
	for _, m := range regexp.MustCompile(`<input type="checkbox" name="file" value="(\d+)"[^>]* checked`).FindAllStringSubmatch(plan, -1) {
		v.Add("file", m[1])
	}
	if !v.Has("digest") {
		g.t.Fatalf("no plan:\n%s", plan)
	}
	return v
}

// actionsWith waits until the timeline contains a text.
func (g *pages) actionsWith(text string) string {
	g.t.Helper()
	var page string
	eventually(g.t, time.Minute, "the timeline shows "+text, func() bool {
		page = g.get("actions")
		return strings.Contains(page, text)
	})
	return page
}

// TestPages looks at a change, undoes it and redoes it, as a browser does.
func TestPages(t *testing.T) {
	odd := "<b>odd\n\"\xff\u202etxt.[x]"
	p := newProject(t, map[string]string{"a.txt": "one\nsecond is two\nthree\n", "b.txt": "b\n", "dir/c.txt": "c\n"})
	p.mount()
	p.apart("sed -i s/two/zwei/ a.txt; printf 'x<script>\\n\\033[31m\\342\\200\\256\\377\\n' > dir/c.txt; rm b.txt")
	if err := os.WriteFile(p.path(odd), []byte("here\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	g := p.ui()

	t.Run("nobody else", func(t *testing.T) {
		none := &pages{t: t, origin: g.origin}
		for _, x := range []struct {
			what, method, to string
			headers          map[string]string
			as               *pages
		}{
			{"no cookie", "GET", g.base, nil, none},
			{"no cookie, a part", "GET", g.base + "actions", nil, none},
			{"a wrong token", "GET", g.origin + "/?token=x", nil, none},
			{"no token", "GET", g.origin + "/", nil, none},
			{"another path with the cookie", "GET", g.origin + "/actions", nil, g},
			{"another name for the address", "GET", g.base, map[string]string{"Host": "evil.example:" + strings.TrimPrefix(g.origin, "http://127.0.0.1:")}, g},
			{"from another origin", "GET", g.base + "actions", map[string]string{"Origin": "http://evil.example"}, g},
			{"from another site", "GET", g.base + "actions", map[string]string{"Sec-Fetch-Site": "cross-site"}, g},
			{"from another port", "GET", g.base + "actions", map[string]string{"Sec-Fetch-Site": "same-site"}, g},
			{"a change without origin", "POST", g.base + "apply", map[string]string{"X-Cachebro": g.csrf}, g},
			{"a change from another origin", "POST", g.base + "apply", map[string]string{"Origin": "http://evil.example", "X-Cachebro": g.csrf}, g},
			{"a change without the secret", "POST", g.base + "apply", map[string]string{"Origin": g.origin}, g},
			{"a change with a wrong secret", "POST", g.base + "apply", map[string]string{"Origin": g.origin, "X-Cachebro": "x"}, g},
			{"another method", "DELETE", g.base, map[string]string{"Origin": g.origin, "X-Cachebro": g.csrf}, g},
		} {
			x.as.t = t
			if r, body := x.as.do(x.method, x.to, nil, x.headers); r.StatusCode != http.StatusForbidden || strings.Contains(body, "a.txt") {
				t.Errorf("%s: %s\n%s", x.what, r.Status, body)
			}
		}
		g.t = t
		r, _ := g.do("GET", g.base, nil, map[string]string{"Sec-Fetch-Site": "none"})
		csp := r.Header.Get("Content-Security-Policy")
		if r.StatusCode != http.StatusOK || !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || r.Header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s, %s", r.Status, csp)
		}
		if c := g.cookie; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path == "/" || !strings.HasSuffix(g.base, c.Path) {
			t.Errorf("cookie %s", c)
		}
		if cmdline, err := os.ReadFile("/proc/" + strconv.Itoa(g.pid) + "/cmdline"); err != nil || bytes.Contains(cmdline, []byte("token")) {
			t.Errorf("arguments %q, %v: everybody reads them", cmdline, err)
		}
	})

	t.Run("timeline", func(t *testing.T) {
		g.t = t
		page := g.actionsWith(`&lt;b&gt;odd\n\&#34;\377\342\200\256txt.[x]`)
		for _, want := range []string{"a.txt", "b.txt", `class="l lD"`, `class="added">+1`} {
			if !strings.Contains(page, want) {
				t.Errorf("no %s in\n%s", want, page)
			}
		}
		if strings.Contains(page, "<b>odd") || strings.Contains(page, "\u202e") || strings.Contains(page, "\xff") {
			t.Errorf("a name is not escaped:\n%s", page)
		}
		if lanes := g.get("lanes"); !strings.Contains(lanes, "<rect ") {
			t.Errorf("no picture:\n%s", lanes)
		}
		change := g.get("diff?" + g.find(page, `a\.txt.*?hx-get="diff\?([^"]+)"`))
		if !strings.Contains(change, "<mark>two</mark>") || !strings.Contains(change, "<mark>zwei</mark>") {
			t.Errorf("the words that changed are not marked:\n%s", change)
		}
		side := g.get("diff?side=1&" + g.find(page, `a\.txt.*?hx-get="diff\?([^"]+)"`))
		if !strings.Contains(side, `<colgroup>`) {
			t.Errorf("the first row, which spans all columns, decides their widths:\n%s", side)
		}
		if !strings.Contains(side, `class="columns"`) {
			t.Errorf("not side by side:\n%s", side)
		}
		strange := g.get("diff?" + g.find(page, `c\.txt.*?hx-get="diff\?([^"]+)"`))
		for _, want := range []string{"x&#60;script&#62;", "^[</i>", "&lt;U+202E&gt;", "&lt;FF&gt;"} {
			if !strings.Contains(strange, want) {
				t.Errorf("no %s in\n%s", want, strange)
			}
		}
		if strings.ContainsAny(strange, "\u202e\x1b") || strings.Contains(strange, "\xff") || strings.Contains(strange, "<script>") {
			t.Errorf("what acts is in the page:\n%s", strange)
		}
	})

	t.Run("take back", func(t *testing.T) {
		g.t = t
		take := g.find(g.get("actions"), `(plan\?action=\d+&amp;kind=undo&amp;path=a\.txt)"`)
		plan := g.get(take)
		if !strings.Contains(plan, "a.txt") || strings.Contains(plan, `class="name">b.txt`) || read(t, p.path("a.txt")) != "one\nsecond is zwei\nthree\n" {
			t.Fatalf("the plan of one file:\n%s", plan)
		}
		// If the plan would no longer do what was shown, nothing is done.
		p.apart("echo \"somebody's\" > a.txt")
		if again := g.post("apply", g.form(plan)); !strings.Contains(again, "Something changed meanwhile") || !strings.Contains(again, "changed since") || read(t, p.path("a.txt")) != "somebody's\n" {
			t.Fatalf("a plan that is not the one shown: %q\n%s", read(t, p.path("a.txt")), again)
		}
		p.apart("printf 'one\\nsecond is zwei\\nthree\\n' > a.txt")
		whole := strings.TrimSuffix(html.UnescapeString(take), "&path=a.txt")
		done := g.post("apply", g.form(g.get(whole+"&force=1")))
		if !strings.Contains(done, "done:") || read(t, p.path("a.txt")) != "one\nsecond is two\nthree\n" || read(t, p.path("b.txt")) != "b\n" || read(t, p.path("dir/c.txt")) != "c\n" {
			t.Fatalf("after the undo: %q\n%s", read(t, p.path("a.txt")), done)
		}
		done = g.post("apply", g.form(g.get(g.find(done, `(plan\?kind=redo&amp;plan=[^"]+)"`))))
		if _, err := os.Stat(p.path("b.txt")); !strings.Contains(done, "done:") || err == nil || read(t, p.path("a.txt")) != "one\nsecond is zwei\nthree\n" {
			t.Fatalf("after the redo: %q\n%s", read(t, p.path("a.txt")), done)
		}
	})

	t.Run("file", func(t *testing.T) {
		g.t = t
		p.apart("echo four >> a.txt")
		g.actionsWith("echo four")
		page := g.get("file?path=a.txt")
		if !strings.Contains(page, `class="no">4</td><td class="line">four`) {
			t.Errorf("the newest version:\n%s", page)
		}
		first := g.get("version?path=a.txt&n=1")
		if !strings.Contains(first, "second is two") || strings.Contains(first, "four") || !strings.Contains(first, "found there") {
			t.Errorf("the first version:\n%s", first)
		}
		if change := g.get("version?path=a.txt&view=change"); !strings.Contains(change, `class="line">four`) || strings.Contains(change, "zwei</mark>") {
			t.Errorf("what the newest changed:\n%s", change)
		}
		if blame := g.get("version?path=a.txt&view=blame"); !strings.Contains(blame, "redo") || !strings.Contains(blame, "echo four") {
			t.Errorf("who wrote it:\n%s", blame)
		}
		g.post("apply", g.form(g.get(g.find(first, `(plan\?kind=revert&amp;path=a\.txt&amp;seq=\d+)"`))))
		if got := read(t, p.path("a.txt")); got != "one\nsecond is two\nthree\n" {
			t.Errorf("the first version written again: %q", got)
		}
		// A file that was deleted and came back is not listed as deleted.
		if err := os.WriteFile(p.path("back.txt"), []byte("here\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(p.path("back.txt")); err != nil {
			t.Fatal(err)
		}
		eventually(t, time.Minute, "the file is listed as deleted", func() bool { return strings.Contains(g.get("browse"), `class="gone">back.txt`) })
		if err := os.WriteFile(p.path("back.txt"), []byte("here again\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if page := g.get("browse"); strings.Contains(page, `class="gone">back.txt`) {
			t.Errorf("a living file is listed as deleted:\n%s", page)
		}
		// A deleted file is found by its name, whatever characters the name has.
		if err := os.Remove(p.path(odd)); err != nil {
			t.Fatal(err)
		}
		link := ""
		eventually(t, time.Minute, "the deleted file is listed", func() bool {
			m := regexp.MustCompile(`<a href="(file\?path=[^"]*)" class="gone">&#34;&lt;b&gt;odd`).FindStringSubmatch(g.get("browse"))
			if m != nil {
				link = html.UnescapeString(m[1])
			}
			return m != nil
		})
		gone := g.get(link)
		if !strings.Contains(gone, "The file was deleted here") {
			t.Errorf("the deleted file:\n%s", gone)
		}
		last, err := strconv.Atoi(g.find(gone, `id="slider" type="range" name="n" min="1" max="[0-9]+" value="([0-9]+)"`))
		if err != nil {
			t.Fatal(err)
		}
		older := g.get(g.find(gone, `id="slide" class="slide" hx-get="(version\?path=[^"]*)"`) + "&n=" + strconv.Itoa(last-1))
		g.post("apply", g.form(g.get(g.find(older, `(plan\?kind=revert&amp;path=[^"]*)"`))))
		if got := read(t, p.path(odd)); got != "here\n" {
			t.Errorf("the deleted file came back as %q\n%s", got, older)
		}
	})

	t.Run("hunks", func(t *testing.T) {
		g.t = t
		lines := strings.SplitAfter(strings.Repeat("x\n", 30), "\n")
		text := func(first, middle, last string) string {
			return first + "\n" + strings.Join(lines[:12], "") + middle + "\n" + strings.Join(lines[:12], "") + last + "\n"
		}
		p.write("h.txt", text("1", "2", "3"))
		p.apart("sed -i -e s/^1/one/ -e s/^2/two/ -e s/^3/three/ h.txt")
		p.apart("sed -i s/three/others/ h.txt")
		var change string
		eventually(t, time.Minute, "the timeline shows the change of h.txt", func() bool {
			m := regexp.MustCompile(`s/\^1/one/[^"]*">[\s\S]*?hx-get="diff\?([^"]+)"`).FindStringSubmatch(g.get("actions"))
			if m != nil {
				change = g.get("diff?" + html.UnescapeString(m[1]))
			}
			return m != nil
		})
		hunks := regexp.MustCompile(`plan\?after=\d+&amp;before=\d+&amp;edits=[\d%C]+&amp;kind=undo`).FindAllString(change, -1)
		if len(hunks) != 3 {
			t.Fatalf("%d hunks:\n%s", len(hunks), change)
		}
		done := g.post("apply", g.form(g.get(html.UnescapeString(hunks[1]))))
		if got := read(t, p.path("h.txt")); got != text("one", "2", "others") {
			t.Fatalf("after the hunk: %q\n%s", got, done)
		}
		g.post("apply", g.form(g.get(g.find(done, `(plan\?kind=redo&amp;plan=[^"]+)"`))))
		if got := read(t, p.path("h.txt")); got != text("one", "two", "others") {
			t.Fatalf("after the redo: %q", got)
		}
		if plan := g.get(html.UnescapeString(hunks[2])); !strings.Contains(plan, "changed since, in the same lines") || !strings.Contains(plan, "Nothing would change") {
			t.Errorf("a hunk that others changed:\n%s", plan)
		}
	})

	t.Run("comments", func(t *testing.T) {
		g.t = t
		event := func(hook, name, more string) string {
			cmd := p.command("hook", hook)
			cmd.Dir, cmd.Stdin = p.dir, strings.NewReader(`{"session_id":"s-1","hook_event_name":"`+name+`","cwd":"`+p.dir+`","transcript_path":"/dev/null"`+more+`}`)
			cmd.Env = append(cmd.Env, "CACHEBRO_HOOK_WAIT=30s")
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			return string(out)
		}
		prompt := func(id string) string {
			return event("user-prompt-submit", "UserPromptSubmit", `,"prompt_id":"`+id+`","prompt":"do it"`)
		}
		prompt("p1")
		call := `,"prompt_id":"p1","tool_name":"Bash","tool_use_id":"toolu_1","tool_input":{"command":"by the agent"}`
		event("pre-tool-use", "PreToolUse", call)
		p.sh("printf 'a\\nthe line\\n' > agent.txt")
		event("post-tool-use", "PostToolUse", call+`,"tool_response":{"stdout":""}`)
		page := g.actionsWith("agent.txt")
		change := g.get("diff?" + g.find(page, `agent\.txt.*?hx-get="diff\?([^"]+)"`))
		form := g.get(g.find(change, `hx-get="(comment\?line=2&amp;seq=\d+)"`))
		to := g.find(form, `hx-post="(comment\?line=2&amp;seq=\d+)"`)
		if kept := g.post(to, url.Values{"text": {"not <so>\nplease"}}); !strings.Contains(kept, "next prompt") {
			t.Fatalf("the comment was not kept:\n%s", kept)
		}
		if refused := g.post(to, url.Values{"text": {" "}}); !strings.Contains(refused, "has no text") || !strings.Contains(refused, "<textarea") {
			t.Errorf("an empty comment:\n%s", refused)
		}
		if list := g.get("comments"); !strings.Contains(list, "not &lt;so&gt;") || !strings.Contains(list, `data-copy="agent.txt:2: the line`+"\nnot &lt;so&gt;\nplease\"") || strings.Contains(list, ">delivered ") {
			t.Errorf("before the prompt:\n%s", list)
		}
		if other := event("user-prompt-submit", "UserPromptSubmit", `,"session_id":"s-2","prompt_id":"q1","prompt":"x"`); strings.Contains(other, "please") {
			t.Errorf("another session got %s", other)
		}
		if got := prompt("p2"); !strings.Contains(got, "agent.txt:2") || !strings.Contains(got, `the line`) || !strings.Contains(got, "please") {
			t.Errorf("the next prompt got %s", got)
		}
		if got := prompt("p3"); strings.Contains(got, "please") {
			t.Errorf("the prompt after it got %s", got)
		}
		if list := g.get("comments"); !strings.Contains(list, ">delivered ") {
			t.Errorf("after the prompt:\n%s", list)
		}
	})

	t.Run("other pages", func(t *testing.T) {
		g.t = t
		eventually(t, time.Minute, "the search finds it", func() bool {
			return strings.Contains(g.get("hits?q=others"), `path=h.txt"`)
		})
		// Words in different places: no line contains the text, and the page says so.
		eventually(t, time.Minute, "the nearest are distinguished from hits", func() bool {
			near := g.get("hits?q=" + url.QueryEscape("zwei nosuchword second"))
			return strings.Contains(near, "no line has") && strings.Contains(near, "nearest by meaning") && strings.Contains(near, "search deleted text") && strings.Contains(near, "<li")
		})
		if gone := g.get("hits?mode=history&q=%3Cscript%3E"); strings.Contains(gone, "<script>") || !strings.Contains(gone, "c.txt") && !strings.Contains(gone, "nothing found") {
			t.Errorf("what is gone:\n%s", gone)
		}
		for page, want := range map[string]string{"search?q=%22%3E%3Cscript%3E": "&#34;&gt;&lt;script&gt;", "savings": "No agent has read|overhead", "stored": "a.txt", "health": "doctor is checking", "findings": "all is well|checks failed", "browse?dir=dir": "c.txt"} {
			if got := g.get(page); !regexp.MustCompile(want).MatchString(got) {
				t.Errorf("%s: no %s in\n%s", page, want, got)
			}
		}
		since := g.get("since")
		mark := g.find(since, `hx-post="(seen\?[^"]+)"`)
		if left := g.post(mark, nil); left == since || strings.Contains(left, mark) {
			t.Errorf("after %s:\n%s", mark, left)
		}
		p.apart("echo more > more.txt")
		eventually(t, time.Minute, "there is something new since", func() bool { return strings.Contains(g.get("since"), "1 action, 1 file") })
	})

	t.Run("live", func(t *testing.T) {
		g.t = t
		hear, leave := g.events()
		defer leave()
		before := hear("changed", "")
		p.write("live.txt", "now\n")
		if now := hear("changed", ""); now == before {
			t.Errorf("twice %s", now)
		}
		g.actionsWith("live.txt")
	})
}

// TestHunksOfOddFiles undoes hunks, in the page and on the command line, of files with unusual
// lines or names, and compares the files byte for byte. For a file without lines no hunks are
// offered.
func TestHunksOfOddFiles(t *testing.T) {
	same := strings.Repeat("same\n", 9)
	long, bad := strings.Repeat("n", 255), "bad\xff\n.txt"
	type change struct {
		old, new string
		hunks    int    // offered
		want     string // the text after the first hunk was undone
	}
	files := map[string]change{
		"crlf.txt":   {"one\r\n" + strings.ReplaceAll(same, "\n", "\r\n") + "end\r\n", "ONE\r\n" + strings.ReplaceAll(same, "\n", "\r\n") + "END\r\n", 2, "one\r\n" + strings.ReplaceAll(same, "\n", "\r\n") + "END\r\n"},
		"tolf.txt":   {"one\r\ntwo\r\n", "one\ntwo\n", 1, "one\r\ntwo\r\n"},
		"noend.txt":  {"one\n" + same + "end", "ONE\n" + same + "end\nmore", 2, "one\n" + same + "end\nmore"},
		"end.txt":    {"one\nend", "one\nend\n", 1, "one\nend"},
		"noend2.txt": {"one\nend\n", "one\nend", 1, "one\nend\n"},
		"filled.txt": {"", "one\n", 1, ""},
		"empty.txt":  {"one\n", "", 1, "one\n"},
		"bin.dat":    {"a\x00b\n", "a\x00c\n", 0, ""},
		"mode.sh":    {"x\n", "x\n", 0, ""},
		"moved.txt":  {"one\n" + same + "end\n", "ONE\n" + same + "END\n", 2, "one\n" + same + "END\n"},
		long:         {"one\n", "two\n", 1, "one\n"},
		bad:          {"one\n", "two\n", 1, "one\n"},
	}
	old, now := map[string]string{}, map[string]string{}
	for name, f := range files {
		old[name], now[name] = f.old, f.new
	}
	p := newProject(t, old)
	p.mount()
	news := t.TempDir() // outside of the project
	for name, text := range now {
		if err := os.WriteFile(filepath.Join(news, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("sh", "-ec", `for f in "$1"/*; do cat "$f" > "${f##*/}"; done; chmod 755 mode.sh; mv moved.txt to.txt`, "sh", news)
	cmd.Dir, cmd.SysProcAttr = p.dir, &syscall.SysProcAttr{Setpgid: true}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	at := func(name string) string {
		if name == "moved.txt" {
			name = "to.txt"
		}
		return p.path(name)
	}
	type version struct {
		Path   string
		Raw    []byte `json:"path_base64"`
		Before uint64
		Seq    uint64
	}
	var did struct {
		Last  uint64
		Files []version
	}
	eventually(t, time.Minute, "the log has all of it", func() bool {
		line, _, _ := strings.Cut(p.cb("log", "--actions", "--json", p.dir), "\n")
		return json.Unmarshal([]byte(line), &did) == nil && len(did.Files) == len(files)
	})
	g := p.ui()
	hunk := regexp.MustCompile(`plan\?after=\d+&amp;before=\d+&amp;edits=[\d%C]+&amp;kind=undo`)
	for _, v := range did.Files {
		name := strings.Replace(v.Path+string(v.Raw), "to.txt", "moved.txt", 1)
		f := files[name]
		page := g.get(fmt.Sprintf("diff?from=%d&to=%d", v.Before, v.Seq))
		offered := hunk.FindAllString(page, -1)
		if marked := strings.Contains(page, "^M"); marked != (name == "tolf.txt") {
			t.Errorf("%q: ends of lines are shown: %v\n%s", name, marked, page)
		}
		if len(offered) != f.hunks {
			t.Errorf("%q: %d hunks of %d:\n%s", name, len(offered), f.hunks, page)
		}
		if f.hunks == 0 || len(offered) == 0 {
			if want := map[string]string{"bin.dat": "SHA-256", "mode.sh": "mode 0644 → 0755"}[name]; !strings.Contains(page, want) {
				t.Errorf("%q: no %q:\n%s", name, want, page)
			}
			continue
		}
		done := g.post("apply", g.form(g.get(html.UnescapeString(offered[0]))))
		if got := read(t, at(name)); got != f.want {
			t.Errorf("%q: after the hunk %q, want %q\n%s", name, got, f.want, done)
			continue
		}
		g.post("apply", g.form(g.get(g.find(done, `(plan\?kind=redo&amp;plan=[^"]+)"`))))
		if got := read(t, at(name)); got != f.new {
			t.Errorf("%q: after the redo %q", name, got)
		}
	}
	undo := p.command("undo", "--hunk", fmt.Sprintf("#%d", did.Last))
	undo.Dir, undo.Stdin = p.dir, strings.NewReader(strings.Repeat("y\n", 100))
	out, err := undo.CombinedOutput()
	if err != nil || strings.Contains(string(out), "\xff") {
		t.Fatalf("%v: %s", err, out)
	}
	for name, f := range files {
		want := f.old
		if f.hunks == 0 {
			want = f.new
		}
		if got := read(t, at(name)); got != want {
			t.Errorf("%q: after undo --hunk %q\n%s", name, got, out)
		}
	}
}

// TestPageOutlives: a page keeps working when the daemon is killed, and when the project is
// unmounted and mounted again. The page does not prevent the unmount. It says what happened. If the
// history is deleted, the page says so and does not start a new one.
func TestPageOutlives(t *testing.T) {
	p := newProject(t, map[string]string{"a.txt": "one\n"})
	p.mount()
	p.apart("echo two > a.txt")
	g := p.ui()
	hear, leave := g.events()
	g.actionsWith("echo two")
	_ = syscall.Kill(p.process("daemon"), syscall.SIGKILL)
	g.actionsWith("echo two")
	p.umount()
	hear("note", "not mounted")
	p.write("a.txt", "three\n")
	eventually(t, time.Minute, "what is changed then is shown", func() bool { return strings.Contains(g.get("file?path=a.txt"), "three") })
	p.mount()
	hear("note", "^$")
	p.apart("echo four > a.txt")
	g.actionsWith("echo four")
	done := g.post("apply", g.form(g.get(g.find(g.get("actions"), `(plan\?action=\d+&amp;kind=undo)"`))))
	if got := read(t, p.path("a.txt")); got != "three\n" {
		t.Errorf("an undo in the mount that came later: %q\n%s", got, done)
	}
	p.umount()
	leave()
	state := p.state()
	if err := os.Rename(state, p.base+"/gone"); err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"", "storage", "actions", "hits?q=x", "diff?to=1", "plan?kind=undo"} {
		if got := g.get(page); !strings.Contains(got, "the history of this project no longer exists") || (page == "" || page == "storage") != strings.Contains(got, "<nav") {
			t.Errorf("%q:\n%s", page, got)
		}
	}
	if _, err := os.Stat(state); err == nil {
		t.Error("a new history was begun")
	}
	hear, _ = g.events()
	hear("", "hello")
	if err := syscall.Kill(g.pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	hear("ended", "cachebro ui was ended")
}

// umount removes the mount, even if another mount namespace of this machine has a copy.
func (p *project) umount() {
	p.t.Helper()
	out, err := p.try("umount", p.dir)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 3 {
		out, err = p.try("umount", "--force", p.dir)
	}
	if err != nil {
		p.t.Fatalf("umount: %v\n%s", err, out)
	}
}

// events listens as a page does. hear waits for an event whose data matches an expression ("" for
// a comment); leave closes the page.
func (g *pages) events() (hear func(event, data string) string, leave func()) {
	g.t.Helper()
	ctx, leave := context.WithCancel(g.t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", g.base+"events", nil)
	if err != nil {
		g.t.Fatal(err)
	}
	req.AddCookie(&http.Cookie{Name: g.cookie.Name, Value: g.cookie.Value})
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	lines := make(chan string, 1000) // closed when the stream ends
	go func() {
		defer r.Body.Close()
		for sc := bufio.NewScanner(r.Body); sc.Scan(); {
			lines <- sc.Text()
		}
		close(lines)
	}()
	return func(event, data string) string {
		g.t.Helper()
		late := time.After(time.Minute)
		for now := ""; ; {
			select {
			case l, ok := <-lines:
				if !ok {
					g.t.Fatalf("the stream ended without %s: %s", event, data)
				}
				if e, is := strings.CutPrefix(l, "event: "); is {
					now = e
				}
				if kind, d, is := strings.Cut(l, ": "); is && kind != "event" && now == event && regexp.MustCompile(data).MatchString(d) {
					return d
				}
			case <-late:
				g.t.Fatalf("no %s: %s", event, data)
				return ""
			}
		}
	}, leave
}

// TestPrunePage shows what a prune would drop, and drops only that.
func TestPrunePage(t *testing.T) {
	odd := "odd\n\xff"
	p := newProject(t, map[string]string{odd: "0\n"})
	p.env = append(p.env, "CACHEBRO_KEEP=1000", "CACHEBRO_KEEP_AGE=1s") // nothing is dropped automatically
	p.mount()
	for i := range 4 {
		p.write(odd, strconv.Itoa(i+1)+"\n")
	}
	g := p.ui()
	var plan string
	eventually(t, time.Minute, "three are old", func() bool {
		plan = g.get("prune?keep=2")
		return strings.Contains(plan, "3 versions of 1 file")
	})
	if !strings.Contains(plan, `&#34;odd\n\377&#34;: 3 versions`) || !strings.Contains(g.get("stored"), `&#34;odd\n\377&#34;`) {
		t.Errorf("the plan:\n%s", plan)
	}
	form := url.Values{"keep": {"2"}, "digest": {g.find(plan, `name="digest" value="([^"]+)"`)}}
	p.write(odd, "5\n")
	eventually(t, time.Minute, "one more is old", func() bool { return strings.Contains(g.get("prune?keep=2"), "4 versions") })
	again := g.post("prune", form)
	if !strings.Contains(again, "Something changed meanwhile") || !strings.Contains(again, "4 versions") {
		t.Fatalf("a plan that is not the one shown:\n%s", again)
	}
	form.Set("digest", g.find(again, `name="digest" value="([^"]+)"`))
	if done := g.post("prune", form); !strings.Contains(done, "of 4 versions") {
		t.Errorf("after it:\n%s", done)
	}
	if none := g.get("prune?keep=2"); !strings.Contains(none, "nothing to drop: no version is older than 1s and followed by 2 newer ones") {
		t.Errorf("again:\n%s", none)
	}
}

// apart runs a shell command in the project as a job of its own.
func (p *project) apart(script string) {
	p.t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = p.dir, p.env, &syscall.SysProcAttr{Setsid: true}
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
