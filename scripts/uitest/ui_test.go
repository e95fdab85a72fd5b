//go:build uitest

package uitest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// project is a mounted project with a session of two prompts.
type project struct {
	t         *testing.T
	bin, base string
	dir       string
	env       []string
	pages     *os.Process
}

const session = "5f6e7d8c-1111-4222-8333-444455556666"

const goFile = `package shop

import "fmt"

// Get fetches the item of a key.
func Get(key string) (string, error) {
	if key == "" {
		return "", fmt.Errorf("no key")
	}
	return lookup("NAME", key)
}

func lookup(where, key string) (string, error) {
	for i := 0; i < 3; i++ {
		if v, ok := table[where+key]; ok {
			return v, nil
		}
	}
	return "", fmt.Errorf("not found: %s", key)
}

var table = map[string]string{}

// Close ends it.
func Close() error {
	return nil
}
`

func newProject(t *testing.T) *project {
	t.Helper()
	bin := os.Getenv("CACHEBRO_BIN")
	if bin == "" {
		t.Fatal("CACHEBRO_BIN is not set: make ui-test sets it")
	}
	base, err := os.MkdirTemp("", "cachebro-ui")
	if err != nil {
		t.Fatal(err)
	}
	base, _ = filepath.EvalSymlinks(base)
	p := &project{t: t, bin: bin, base: base, dir: filepath.Join(base, "shop")}
	for _, d := range []string{"shop/src", "shop/web", "state", "home", "run"} {
		if err := os.MkdirAll(filepath.Join(base, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); !strings.HasPrefix(name, "XDG_") && !strings.HasPrefix(name, "CACHEBRO_") && !strings.HasPrefix(name, "CLAUDE") {
			p.env = append(p.env, kv)
		}
	}
	p.env = append(p.env, "XDG_STATE_HOME="+base+"/state", "XDG_RUNTIME_DIR="+base+"/run", "HOME="+base+"/home")
	for _, n := range []string{"client", "server", "cache"} {
		p.write("src/"+n+".go", strings.ReplaceAll(goFile, "NAME", n))
	}
	p.write("web/index.html", "<!doctype html>\n<title>Shop</title>\n<p>Hello</p>\n")
	p.write("web/cart.py", "def total(items):\n    return sum(i.price for i in items)\n")
	p.write("README.md", "# Shop\n")
	p.cb("", "mount", p.dir)
	t.Cleanup(func() {
		p.t = t // p.t belonged to a subtest
		p.cb("", "umount", p.dir)
		p.daemonEnds()
		if err := os.RemoveAll(base); err != nil {
			t.Error(err)
		}
	})
	other := filepath.Join(base, "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	p.cb("", "mount", other)
	p.apart("echo other > ../other/o.txt")
	p.cb("", "umount", other)
	p.event("session-start", "SessionStart", map[string]any{"source": "startup"})
	p.prompt("p1", "Rename Get to Fetch everywhere, and drop the cache")
	p.tool("p1", "toolu_01", "sed -i s/Get/Fetch/ src/*.go")
	p.tool("p1", "toolu_02", "rm src/cache.go; mv README.md docs.md")
	p.prompt("p2", "Make the web page friendlier, and round the total of the cart")
	p.tool("p2", "toolu_03", `sed -i 's/Hello/Hello, dear customer/' web/index.html; sed -i 's/return sum(/return round(sum(/; s/in items)/in items), 2)/' web/cart.py`)
	p.tool("p2", "toolu_04", `sed -i 's/not found/missing/; s/Close ends it/Close ends the client/; s/no key/no key given/' src/client.go`)
	return p
}

// daemonEnds ends the project's daemon, which outlives the mount.
func (p *project) daemonEnds() {
	mark := []byte("XDG_RUNTIME_DIR=" + p.base + "/run\x00")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		left := 0
		dirs, _ := filepath.Glob("/proc/[0-9]*")
		for _, d := range dirs {
			exe, _ := os.Readlink(d + "/exe")
			env, _ := os.ReadFile(d + "/environ")
			if exe == p.bin && strings.Contains(string(env), string(mark)) {
				var pid int
				fmt.Sscan(filepath.Base(d), &pid)
				_ = syscall.Kill(pid, syscall.SIGTERM)
				left++
			}
		}
		if left == 0 || time.Now().After(deadline) {
			return
		}
	}
}

func (p *project) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p *project) read(name string) string {
	b, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// cb runs cachebro in the project and returns the output.
func (p *project) cb(stdin string, args ...string) string {
	p.t.Helper()
	cmd := exec.Command(p.bin, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = p.dir, p.env, strings.NewReader(stdin)
	if args[0] == "umount" {
		cmd.Dir = p.base
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("cachebro %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// event runs a client's hook for an event.
func (p *project) event(hook, name string, more map[string]any) string {
	p.t.Helper()
	m := map[string]any{"session_id": session, "hook_event_name": name, "cwd": p.dir, "transcript_path": p.base + "/transcript.jsonl"}
	for k, v := range more {
		m[k] = v
	}
	b, err := json.Marshal(m)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.cb(string(b), "hook", hook)
}

func (p *project) prompt(id, text string) string {
	return p.event("user-prompt-submit", "UserPromptSubmit", map[string]any{"prompt_id": id, "prompt": text})
}

// tool reports a Bash call of the client to the hooks, and runs its command.
func (p *project) tool(prompt, id, command string) {
	p.t.Helper()
	more := map[string]any{"prompt_id": prompt, "tool_name": "Bash", "tool_use_id": id, "tool_input": map[string]any{"command": command}}
	p.event("pre-tool-use", "PreToolUse", more)
	p.apart(command)
	more["tool_response"] = map[string]any{"stdout": ""}
	p.event("post-tool-use", "PostToolUse", more)
}

// apart runs a shell command in the project as a separate job.
func (p *project) apart(script string) {
	p.t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = p.dir, p.env, &syscall.SysProcAttr{Setsid: true}
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// ui starts "cachebro ui" and returns the address that it prints.
func (p *project) ui() string {
	p.t.Helper()
	cmd := exec.Command(p.bin, "ui", "--no-open", "--dir", p.dir)
	cmd.Env = p.env
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.pages = cmd.Process
	p.t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// tab is a page in the browser.
type tab struct {
	t   *testing.T
	ctx context.Context
}

func newTab(t *testing.T) *tab {
	t.Helper()
	opts := append([]chromedp.ExecAllocatorOption{}, chromedp.DefaultExecAllocatorOptions[:]...)
	opts = append(opts, chromedp.WindowSize(1180, 820))
	if os.Getuid() == 0 {
		opts = append(opts, chromedp.NoSandbox)
	}
	all, end := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(end)
	ctx, cancel := chromedp.NewContext(all)
	t.Cleanup(cancel)
	return &tab{t, ctx}
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// eval returns the value of an expression in the page.
func eval[T any](b *tab, js string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", js, err)
	}
	return v
}

// until waits for an expression to be true.
func (b *tab) until(what, js string) {
	b.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		v, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("Boolean("+js+")"))
		if err == nil && v {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("still not: %s (%v)\n%s", what, err, eval[string](b, "document.body.innerText"))
		}
	}
}

// key presses keys one after the other.
func (b *tab) key(keys ...string) {
	b.t.Helper()
	for _, k := range keys {
		b.do(chromedp.KeyEvent(k))
	}
}

// shot saves a picture.
func (b *tab) shot(name string) {
	b.t.Helper()
	if os.Getenv("SHOTS") == "" {
		return
	}
	shot, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(os.Getenv("SHOTS"), name+".png"), shot, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// scheme makes the page light or dark.
func (b *tab) scheme(name string) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}}); err != nil {
		b.t.Fatal(err)
	}
}

// accessible runs axe on the page. Serious and critical findings are failures.
func (b *tab) accessible(where string) {
	b.t.Helper()
	script, err := os.ReadFile(os.Getenv("AXE"))
	if err != nil {
		b.t.Fatalf("AXE is not axe-core's script: %v", err)
	}
	if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[any](string(script)+"\n;0")); err != nil {
		b.t.Fatal(err)
	}
	found := eval[[]string](b, `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.filter(v => v.impact == "serious" || v.impact == "critical").map(v => v.id + ": " + v.help + ": " + v.nodes.map(n => n.html + " " + (n.any[0] ? n.any[0].message : "")).join(" | ")))`)
	for _, f := range found {
		b.t.Errorf("%s: %s", where, f)
	}
}

// watchPolicy collects the violations of the pages' own content security policy.
func (b *tab) watchPolicy() {
	b.t.Helper()
	const watch = `addEventListener("securitypolicyviolation", (e) => sessionStorage.setItem("refused", (sessionStorage.getItem("refused") || "") + e.violatedDirective + " " + e.blockedURI + " " + e.sample + "\n"))`
	if _, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watch}); err != nil {
		b.t.Fatal(err)
	}
}

// keepsPolicy fails the test if the policy was violated since the last call of keepsPolicy.
func (b *tab) keepsPolicy(where string) {
	b.t.Helper()
	if said := eval[string](b, `sessionStorage.getItem("refused") || ""`); said != "" {
		b.t.Errorf("%s: the content security policy refused: %s", where, said)
		eval[any](b, `sessionStorage.removeItem("refused")`)
	}
}

// targets fails the test if something that can be clicked is smaller than 24 pixels. The line
// numbers in a table, which lead to a comment or a version, are exempt, because they are only as
// high as their line.
func (b *tab) targets(where string) {
	b.t.Helper()
	small := eval[[]string](b, `[...document.querySelectorAll("button, summary, select, input:not([type=hidden]), nav.bar a, .bar nav a, a.page, a.no, table.lanes svg")].filter((e) => e.offsetParent !== null || e.tagName === "svg").filter((e) => !e.closest(".diff td:not([colspan])")).map((e) => [e, e.getBoundingClientRect()]).filter(([e, r]) => r.width > 0 && (r.width < 23.5 || r.height < 23.5)).map(([e, r]) => e.outerHTML.slice(0, 120) + " is " + Math.round(r.width) + "×" + Math.round(r.height))`)
	for _, s := range small {
		b.t.Errorf("%s: %s", where, s)
	}
}

// picture returns a small image in one shade of grey.
func picture(t *testing.T, shade uint8) string {
	t.Helper()
	m := image.NewGray(image.Rect(0, 0, 20, 20))
	for i := range m.Pix {
		m.Pix[i] = shade
	}
	var out bytes.Buffer
	if err := png.Encode(&out, m); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// rendered writes two versions of a text and of a notebook.
func (p *project) rendered() {
	p.t.Helper()
	const guide = "# Guide\n\nRead the [client](src/client.go), *then* `run` it. ![logo](https://example.org/x.png)\n\n<script>document.title = \"evil\"</script>\n\n| part | size |\n|---|--:|\n| client | 3 |\n\n```go\nfunc main() {}\n```\n\n> Quoted.\n\n- one\n- two\n"
	p.write("guide.md", guide)
	p.write("guide.md", strings.Replace(guide, "*then*", "**now**", 1))
	cells := func(shade uint8) string {
		b, err := json.Marshal(map[string]any{"nbformat": 4, "metadata": map[string]any{"language_info": map[string]any{"file_extension": ".py"}}, "cells": []any{
			map[string]any{"cell_type": "markdown", "source": []string{"# Sums\n", "of all"}},
			map[string]any{"cell_type": "code", "source": "import shop\nprint(1)", "outputs": []any{map[string]any{"output_type": "stream", "name": "stdout", "text": "1\n"}}},
			map[string]any{"cell_type": "code", "source": fmt.Sprintf("plot(%d)", shade), "outputs": []any{map[string]any{"output_type": "display_data", "data": map[string]any{"image/png": []byte(picture(p.t, shade))}}}},
		}})
		if err != nil {
			p.t.Fatal(err)
		}
		return string(b)
	}
	p.write("sums.ipynb", cells(200))
	p.write("sums.ipynb", cells(90))
}

// TestPages uses the pages as a person does.
func TestPages(t *testing.T) {
	p := newProject(t)
	first := p.ui()
	b := newTab(t)
	b.watchPolicy()
	var long strings.Builder

	b.do(chromedp.Navigate(first))
	b.until("the timeline is there", `document.querySelectorAll(".action").length >= 4`)
	if at := eval[string](b, "location.href"); strings.Contains(at, "token") {
		t.Errorf("the token stays in the address: %s", at)
	}
	base := eval[string](b, `location.href.replace(/[^\/]*$/, "")`)

	t.Run("live", func(t *testing.T) {
		b.t, p.t = t, t
		p.apart("echo now > live.txt")
		b.until("the page shows what is written", `document.querySelector(".action.new")?.innerText.includes("live.txt")`)
	})

	t.Run("a hunk by the mouse", func(t *testing.T) {
		b.t, p.t = t, t
		before := p.read("src/client.go")
		b.until("the diff opens", `(() => { const d = [...document.querySelectorAll(".action")].find(a => a.textContent.includes("no key given"))?.querySelector("details"); if (d) d.open = true; return document.querySelectorAll("tr.hunk .take").length >= 2 })()`)
		b.shot("diff-light")
		eval[any](b, `document.querySelectorAll("tr.hunk .take")[1].click()`)
		b.until("the plan is shown", `document.querySelector("#plan[open] form")`)
		if p.read("src/client.go") != before {
			t.Fatal("something was done before it was agreed to")
		}
		b.until("it shows the lines", `[...document.querySelectorAll("#plan tr.del")].some(r => r.innerText.includes("missing")) && [...document.querySelectorAll("#plan tr.add")].some(r => r.innerText.includes("not found"))`)
		b.shot("plan-light")
		b.accessible("plan")
		eval[any](b, `document.querySelector("#plan form .go").click()`)
		b.until("it is done", `document.querySelector("#plan")?.innerText.includes("done:")`)
		want := strings.Replace(strings.Replace(before, "missing", "not found", 1), "ends the client", "ends it", 1)
		if got := p.read("src/client.go"); got != want {
			t.Errorf("after the hunk:\n%s", got)
		}
		b.until("the action is marked at once", `[...document.querySelectorAll(".action")].find(a => a.querySelector(".cmd").textContent.includes("no key given")).querySelector(".back")?.textContent.startsWith("partly reversed by")`)
		if n := eval[int](b, `[...document.querySelectorAll(".action:not(.seen)")].filter(a => a.querySelector(".cmd").textContent.startsWith("undo")).length`); n != 0 {
			t.Error("one's own undo is reported as news")
		}
		eval[any](b, `document.querySelector("#plan [data-redo]").click()`)
		b.until("the redo is shown", `document.querySelector("#plan form .go")`)
		eval[any](b, `document.querySelector("#plan form .go").click()`)
		b.until("the redo is done", `document.querySelector("#plan")?.innerText.includes("done:")`)
		if got := p.read("src/client.go"); got != before {
			t.Errorf("after the redo:\n%s", got)
		}
		b.until("the mark goes", `![...document.querySelectorAll(".action")].find(a => a.querySelector(".cmd").textContent.includes("no key given")).querySelector(".back")`)
		eval[any](b, `document.querySelector("#plan [data-close]").click()`)
	})

	t.Run("a file is left out of the plan", func(t *testing.T) {
		b.t, p.t = t, t
		b.do(chromedp.Navigate(base))
		b.until("the timeline is there", `document.querySelectorAll(".action").length >= 4`)
		page, cart := p.read("web/index.html"), p.read("web/cart.py")
		eval[any](b, `[...document.querySelectorAll(".action")].find(a => a.querySelector(".cmd").textContent.startsWith("sed -i 's/Hello")).querySelector("header .take").click()`)
		b.until("both files can be chosen", `document.querySelectorAll("#plan [name=file]").length == 2 && document.querySelectorAll("#plan .diff tr.add").length == 2`)
		b.shot("plan-files-light")
		b.accessible("plan of two files")
		eval[any](b, `document.querySelector("#plan [name=file][aria-label='web/cart.py']").click()`)
		eval[any](b, `document.querySelector("#plan form .go").click()`)
		b.until("it is done", `document.querySelector("#plan")?.innerText.includes("done: 1 file")`)
		if p.read("web/cart.py") != cart || p.read("web/index.html") == page {
			t.Errorf("after it: %q, %q", p.read("web/cart.py"), p.read("web/index.html"))
		}
		eval[any](b, `document.querySelector("#plan [data-redo]").click()`)
		b.until("the redo is shown", `document.querySelector("#plan form .go")`)
		eval[any](b, `document.querySelector("#plan form .go").click()`)
		b.until("the redo is done", `document.querySelector("#plan")?.innerText.includes("done:")`)
		if p.read("web/index.html") != page {
			t.Errorf("after the redo: %q", p.read("web/index.html"))
		}
		eval[any](b, `document.querySelector("#plan [data-close]").click()`)
	})

	t.Run("lines are left out of the plan, by keys only", func(t *testing.T) {
		b.t, p.t = t, t
		b.do(chromedp.Navigate(base))
		b.until("the timeline is there", `document.querySelectorAll(".action").length >= 4`)
		before := p.read("src/client.go")
		b.until("j reaches the change", `(() => { document.dispatchEvent(new KeyboardEvent("keydown", {key: "j", bubbles: true})); return document.activeElement.matches(".action") && document.activeElement.innerText.includes("no key given") || document.activeElement.closest(".action")?.querySelector(".cmd").textContent.includes("no key/no key given") && document.activeElement.matches(".action") })()`)
		b.key("u")
		b.until("the lines can be chosen", `document.querySelectorAll("#plan [data-pick=line]").length == 6 && document.querySelectorAll("#plan [data-pick=hunk]").length == 2`)
		b.targets("plan")
		b.accessible("plan with lines to choose")
		eval[any](b, `document.querySelector("#plan [data-pick=hunk]").focus()`)
		b.key(" ")
		b.until("a hunk takes its lines along", `document.querySelectorAll("#plan [data-pick=line]:checked").length == 4 && !document.querySelector("#plan [data-pick=hunk]").checked`)
		b.key("\u0301", "\u0301", "\u0301", "\u0301")
		b.until("the arrows go on to the next hunk's line", `document.activeElement.dataset.pick == "line" && document.activeElement.closest("tr").innerText.includes("missing")`)
		b.key(" ")
		b.until("a hunk of which a line is left is marked so", `[...document.querySelectorAll("#plan [data-pick=hunk]")].map(h => h.checked + " " + h.indeterminate).join() == "false false,true true"`)
		b.shot("plan-lines-light")
		b.accessible("plan with lines left out")
		b.key("\r")
		b.until("it is done", `document.querySelector("#plan")?.innerText.includes("done: 1 file")`)
		want := strings.Replace(before, "missing: %s\", key)\n", "missing: %s\", key)\n\treturn \"\", fmt.Errorf(\"not found: %s\", key)\n", 1)
		want = strings.Replace(want, "ends the client", "ends it", 1)
		if got := p.read("src/client.go"); got != want {
			t.Errorf("after it:\n%s\nwant\n%s", got, want)
		}
		b.until("the action is marked", `[...document.querySelectorAll(".action")].find(a => a.querySelector(".cmd").textContent.startsWith("sed -i 's/not found")).querySelector(".back")?.textContent.startsWith("partly reversed by")`)
		eval[any](b, `document.querySelector("#plan [data-redo]").click()`)
		b.until("the redo is shown", `document.querySelector("#plan form .go")`)
		b.key("\r")
		b.until("the redo is done", `document.querySelector("#plan")?.innerText.includes("done:")`)
		if got := p.read("src/client.go"); got != before {
			t.Errorf("after the redo:\n%s", got)
		}
		b.key("\r")
		b.keepsPolicy("plan with lines to choose")
	})

	t.Run("a tree beside a set of changes, by keys only", func(t *testing.T) {
		b.t, p.t = t, t
		p.apart("mkdir -p deep/down/here other; for i in 1 2 3; do echo $i > deep/down/here/n$i.txt; done; echo x > other/x.txt; echo top > top.txt")
		b.do(chromedp.Navigate(base))
		b.until("the timeline is there", `document.querySelector(".action .cmd")?.textContent.startsWith("mkdir")`)
		eval[any](b, `document.querySelector(".action a.no").click()`)
		b.until("the tree is there, directories of one directory in one", `[...document.querySelectorAll("#tree summary, #tree a")].map(e => e.innerText.replace(/\s+/g, " ").trim()).join() == "5 files,deep/down/here/ 3 +3 −0,A n1.txt +1 −0,A n2.txt +1 −0,A n3.txt +1 −0,other/ 1 +1 −0,A x.txt +1 −0,A top.txt +1 −0"`)
		b.until("and all lines", `document.querySelectorAll("#timeline .diff tr.add").length == 5`)
		b.key("t", "\u0301")
		b.until("an arrow goes to the first directory", `document.activeElement.innerText.startsWith("deep/down/here")`)
		b.key("\u0302")
		b.until("left closes it", `!document.activeElement.parentElement.open`)
		b.key("\u0301", "\u0301")
		b.until("down passes over what is closed", `document.activeElement.innerText.includes("x.txt")`)
		b.key("\r")
		b.until("Enter goes to the lines", `location.hash && document.activeElement.closest("li")?.id == location.hash.slice(1) && document.activeElement.innerText.includes("other/x.txt")`)
		b.do(chromedp.NavigateBack())
		b.until("back is the set", `location.search.includes("action=") && !location.hash`)
		b.do(chromedp.NavigateForward())
		b.until("forward the file", `location.hash && document.querySelector("#tree a[aria-current=true]")?.innerText.includes("x.txt")`)
		b.do(chromedp.Reload())
		b.until("a reload shows it too", `document.querySelector("#tree a[aria-current=true]")?.innerText.includes("x.txt")`)
		b.shot("tree-light")
		b.do(chromedp.Navigate(base))
		b.until("the timeline is there", `document.querySelectorAll(".action").length >= 4`)
		eval[any](b, `[...document.querySelectorAll(".prompt")].find(g => g.querySelector("h2")?.innerText.includes("Rename Get")).querySelector(".about a").click()`)
		b.until("a prompt has a tree of all that its actions changed", `document.querySelectorAll("#tree a").length == 4 && document.querySelectorAll(".action").length == 2 && document.querySelector("#tree a[title], #tree").innerText.includes("docs.md")`)
		p.apart("rm -r deep other top.txt")
		b.keepsPolicy("tree")
		b.do(chromedp.Navigate(base))
		b.until("the timeline is there", `document.querySelectorAll(".action").length >= 4`)
	})

	t.Run("overwriting is apart", func(t *testing.T) {
		b.t, p.t = t, t
		before := p.read("web/cart.py")
		p.apart("sed -i 's/round(sum/int(sum/' web/cart.py")
		eval[any](b, `[...document.querySelectorAll(".action")].find(a => a.querySelector(".cmd").textContent.startsWith("sed -i 's/Hello")).querySelector("header .take").click()`)
		b.until("what is left alone is named", `document.querySelector("#plan .bad li")?.innerText.includes("web/cart.py")`)
		if n := eval[int](b, `document.querySelectorAll("#plan .buttons button.danger").length`); n != 0 || !eval[bool](b, `Boolean(document.querySelector("#plan details.danger:not([open]) button"))`) {
			t.Error("overwriting stands among the ordinary choices")
		}
		b.shot("plan-conflict-light")
		b.accessible("plan with a conflict")
		eval[any](b, `document.querySelector("#plan details.danger").open = true; document.querySelector("#plan details.danger button").click()`)
		b.until("the dangerous plan is marked, and not what Enter does", `document.querySelector("#plan .go.danger") && document.activeElement.matches("[data-close]")`)
		b.shot("plan-danger-light")
		b.accessible("dangerous plan")
		eval[any](b, `document.querySelector("#plan").close()`)
		p.apart("sed -i 's/int(sum/round(sum/' web/cart.py")
		if got := p.read("web/cart.py"); got != before {
			t.Errorf("it is %q", got)
		}
	})

	t.Run("a comment reaches the next prompt once", func(t *testing.T) {
		b.t, p.t = t, t
		b.do(chromedp.Navigate(base))
		b.until("the diff opens", `(() => { const d = [...document.querySelectorAll(".action")].find(a => a.querySelector(".cmd").textContent.startsWith("sed -i 's/not found"))?.querySelector("details"); if (d) d.open = true; return document.querySelector("tr.add .no button") })()`)
		eval[any](b, `document.querySelector("tr.add .no button").click()`)
		b.until("the form is shown", `document.querySelector("#plan[open] textarea")`)
		eval[any](b, `document.querySelector("#plan textarea").value = "Say which key, please."`)
		b.shot("comment-light")
		eval[any](b, `document.querySelector("#plan form .go").click()`)
		b.until("it is saved", `document.querySelector("#plan")?.innerText.includes("will be sent with the next prompt")`)
		said := p.prompt("p3", "Go on")
		if !strings.Contains(said, "Say which key, please.") || !strings.Contains(said, "src/client.go:8") {
			t.Errorf("the next prompt got %q", said)
		}
		if again := p.prompt("p4", "And on"); strings.Contains(again, "which key") {
			t.Errorf("the prompt after it got %q", again)
		}
		b.do(chromedp.Navigate(base + "comments"))
		b.until("it is shown as delivered", `document.querySelector(".comment")?.innerText.includes("delivered")`)
		if _, err := chromedp.Call(b.ctx, browser.SetPermission, browser.SetPermissionParams{Permission: &browser.PermissionDescriptor{Name: "clipboard-read"}, Setting: browser.PermissionSettingGranted}); err != nil {
			t.Fatal(err)
		}
		b.do(chromedp.Click("[data-copy]"))
		b.until("it is copied", `document.querySelector("[data-copy]").textContent == "copied"`)
		if got := eval[string](b, `navigator.clipboard.readText()`); got != "src/client.go:8: return \"\", fmt.Errorf(\"no key given\")\nSay which key, please." {
			t.Errorf("copied %q", got)
		}
	})

	t.Run("keys only", func(t *testing.T) {
		b.t, p.t = t, t
		b.do(chromedp.Navigate(base))
		b.until("the timeline is there", `document.querySelectorAll(".action").length >= 6`)
		b.until("j reaches the deletion", `(() => { document.dispatchEvent(new KeyboardEvent("keydown", {key: "j", bubbles: true})); return document.activeElement.closest(".action")?.innerText.includes("rm src/cache.go") && document.activeElement.matches(".action") })()`)
		b.key("j", "o")
		b.until("o opens the diff", `document.querySelector("details.chosen[open] .diff, details[open] .diff")`)
		b.key("k", "u")
		b.until("u shows the plan", `document.querySelector("#plan[open] form .go")`)
		b.key("\r")
		b.until("Enter agrees", `document.querySelector("#plan")?.innerText.includes("done:")`)
		if got := p.read("README.md"); got != "# Shop\n" {
			t.Errorf("README.md is %q", got)
		}
		b.until("what was taken back is marked and can be brought back", `(() => { const a = [...document.querySelectorAll(".action")].find(a => a.querySelector(".cmd").textContent.startsWith("rm src/cache.go")); return a.matches(".undone") && a.querySelector("header .take").textContent == "bring back" })()`)
		b.key("\r")
		b.until("Enter closes", `!document.querySelector("dialog[open]")`)
		b.key("?")
		b.until("? shows the keys", `document.querySelector("#keys[open]")`)
		b.key("\x1b")
		b.until("Escape closes", `!document.querySelector("dialog[open]")`)
		b.key("/")
		b.until("/ goes to the search", `location.pathname.endsWith("/search") && document.activeElement.id == "q"`)
		b.key("F", "e", "t", "c", "h")
		b.until("hits", `document.querySelector("#hits")?.innerText.includes("src/client.go")`)
	})

	t.Run("another origin", func(t *testing.T) {
		b.t, p.t = t, t
		evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, `<!doctype html><title>evil</title><iframe id="f" src="%[1]s"></iframe><form id="form" method="post" action="%[1]sapply" target="hidden"><input name="asked" value="kind=undo&prompt=p2&session=%[2]s"></form><iframe name="hidden"></iframe>`, base, session)
		}))
		defer evil.Close()
		before := p.read("web/index.html")
		b.do(chromedp.Navigate(evil.URL))
		got := eval[string](b, fmt.Sprintf(`(async () => { let out = ""; for (const o of [{}, {credentials: "include"}, {method: "POST", mode: "no-cors", credentials: "include", body: "asked=kind%%3Dundo"}]) { try { const r = await fetch(%q + "actions", o); out += await r.text() } catch (e) { out += "refused " } } document.getElementById("form").submit(); return out })()`, base))
		if strings.Contains(got, "client.go") {
			t.Errorf("a page of another origin read %q", got)
		}
		if n := eval[int](b, `document.getElementById("f").contentDocument?.querySelectorAll(".action").length ?? 0`); n > 0 {
			t.Error("the page is shown in a frame")
		}
		if p.read("web/index.html") != before {
			t.Error("a page of another origin changed a file")
		}
		r, err := http.Get(base)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != http.StatusForbidden {
			t.Errorf("without the cookie: %s", r.Status)
		}
	})

	t.Run("every page", func(t *testing.T) {
		b.t, p.t = t, t
		p.apart("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo $i > a-rather-long-name-of-a-file-$i.txt; done; mkdir -p deep/er; mv web/index.html deep/er/index.html")
		p.rendered()
		for _, view := range []struct {
			scheme, name string
			width        int64
		}{{"light", "", 1180}, {"dark", "", 1180}, {"light", "-narrow", 390}, {"dark", "-narrow", 390}, {"light", "-wide", 1800}, {"dark", "-wide", 1800}} {
			b.scheme(view.scheme)
			b.do(chromedp.EmulateViewport(view.width, 800))
			scheme := view.scheme + view.name
			for _, x := range []struct{ name, page, ready string }{
				{"timeline", "", `document.querySelectorAll(".action").length >= 6 && document.querySelector("#lanes rect")`},
				{"tree", "?session=" + session + "&prompt=p1", `document.querySelectorAll("#tree a").length >= 4 && document.querySelector(".set .diff")`},
				{"files", "browse", `document.querySelector(".names a")`},
				{"file", "file?path=src/client.go", `document.querySelector("table.code")`},
				{"markdown", "file?path=guide.md", `document.querySelector(".doc table")`},
				{"notebook", "file?path=sums.ipynb&view=change", `document.querySelector(".doc .add img")?.naturalWidth == 20`},
				{"search", "search?q=Fetch", `document.querySelector("#hits li")`},
				{"comments", "comments", `document.querySelector(".comment")`},
				{"savings", "savings", `document.querySelector("main p")`},
				{"storage", "storage", `document.querySelector("table.bars")`},
				{"projects", "projects", `document.querySelector(".list a") && document.querySelectorAll(".list tbody tr").length >= 2 && !document.querySelector(".list .wait")`},
				{"health", "health", `document.querySelector("table.findings")`},
			} {
				b.do(chromedp.Navigate(base + x.page))
				b.until(x.name, x.ready)
				if x.name == "timeline" {
					b.until("two diffs", `(() => { for (const d of [...document.querySelectorAll(".action")].filter(a => a.textContent.includes("dear customer")).flatMap(a => [...a.querySelectorAll("details")])) d.open = true; return document.querySelectorAll(".diff table").length >= 2 })()`)
				}
				if x.name == "file" {
					eval[any](b, `[...document.querySelectorAll("button")].find(b => b.textContent == "blame").click()`)
					b.until("blame", `document.querySelector("td.by button")`)
				}
				if x.name == "storage" {
					eval[any](b, `document.querySelector("[hx-get=prune]").click()`)
					b.until("what prune would drop", `document.querySelector("#plan[open] form")`)
					b.shot("prune-" + scheme)
					b.accessible("prune, " + scheme)
					eval[any](b, `document.querySelector("#plan").close()`)
				}
				b.shot(x.name + "-" + scheme)
				b.targets(x.name + ", " + scheme)
				b.keepsPolicy(x.name + ", " + scheme)
				if view.name != "-wide" {
					b.accessible(x.name + ", " + scheme)
				}
				if wide := eval[int64](b, "document.documentElement.scrollWidth"); wide > view.width {
					t.Errorf("%s, %s: the page is %d wide", x.name, scheme, wide)
				}
			}
		}
	})

	t.Run("addresses", func(t *testing.T) {
		b.t, p.t = t, t
		b.do(chromedp.EmulateViewport(1180, 800))
		for i := range 1500 {
			fmt.Fprintf(&long, "line %d\n", i+1)
		}
		p.write("long.txt", long.String()+"the Needle and a needle\n")

		// A search shows its hit at the right line, with the match marked, and the Back button returns to it.
		b.do(chromedp.Navigate(base + "search"))
		b.until("the search is there", `document.activeElement.id == "q"`)
		b.key(strings.Split("needle", "")...)
		b.until("hits, and the address says what was asked", `document.querySelector("#hits li a")?.textContent == "long.txt" && location.search.includes("q=needle")`)
		b.do(chromedp.Reload())
		b.until("a reload asks again", `document.querySelector("#hits li a")?.textContent == "long.txt" && document.querySelector("#q").value == "needle"`)
		eval[any](b, `document.querySelector("#hits li a").click()`)
		b.until("the hit is in sight, and marked", `(() => { const h = document.querySelector("tr.hit"), r = h?.getBoundingClientRect(); return h && r.top > 0 && r.bottom < innerHeight && [...h.querySelectorAll("mark")].map(m => m.textContent).join() == "Needle,needle" })()`)
		b.shot("hit-light")
		b.accessible("hit")
		b.do(chromedp.NavigateBack())
		b.until("back is the question", `document.querySelector("#q")?.value == "needle" && document.querySelector("#hits li")`)

		// Choosing a version shows that version, and an arrow key that is held down moves by one
		// version at each repetition.
		for i := range 12 {
			p.write("steps.txt", fmt.Sprintf("step %d\n", i+1))
		}
		b.do(chromedp.Navigate(base + "file?path=steps.txt"))
		b.until("the file is there", `document.querySelector("#slider")?.max >= 12`)
		eval[any](b, `[...document.querySelectorAll(".zoom button")].find(b => b.textContent == "change").click()`)
		b.until("the view is in the address", `location.search.includes("view=change") && document.querySelector("tr.add")`)
		last := eval[int](b, `Number(document.querySelector("#slider").value)`)
		eval[any](b, `document.querySelector("#slider").focus()`)
		for range 5 {
			b.key("\u0302")
		}
		if now := eval[int](b, `Number(document.querySelector("#slider").value)`); now != last-5 {
			t.Errorf("five strokes went from version %d to %d", last, now)
		}
		b.until("what is shown follows", fmt.Sprintf(`document.querySelector("#version [data-n]")?.dataset.n == "%d" && location.search.includes("n=%[1]d") && document.querySelector("#of").value == "%[1]d" && document.activeElement.id == "slider" && document.querySelector("tr.add .line").textContent == "step " + (%[1]d - %d)`, last-5, last-12))
		b.do(chromedp.Reload())
		b.until("a reload shows the same", fmt.Sprintf(`document.querySelector("#version [data-n]")?.dataset.n == "%d" && document.querySelector("#version [data-view]").dataset.view == "change" && document.querySelector("tr.add")`, last-5))

		// Any two versions can be compared.
		eval[any](b, `(() => { const w = document.querySelector("[name=with]"); w.value = "2"; w.dispatchEvent(new Event("change", {bubbles: true})) })()`)
		b.until("it is compared with the second", fmt.Sprintf(`location.search.includes("with=2") && document.querySelector("tr.del .line")?.textContent == "step " + (2 - %d)`, last-12))
		b.accessible("two versions")
		b.do(chromedp.NavigateBack())
		b.until("back is the comparison with the one before", `!location.search.includes("with=2") && document.querySelector("tr.del")`)

		// Each action has an address.
		b.do(chromedp.Navigate(base))
		b.until("the timeline is there", `document.querySelectorAll(".action").length >= 6`)
		eval[any](b, `[...document.querySelectorAll(".action")].find(a => a.querySelector(".cmd").textContent.startsWith("rm src/cache.go")).querySelector("a.no").click()`)
		b.until("it is alone", `location.search.includes("action=") && document.querySelectorAll(".action").length == 1 && document.querySelector(".cmd").textContent.startsWith("rm src/cache.go")`)
		b.keepsPolicy("addresses")
	})

	t.Run("moving in time", func(t *testing.T) {
		b.t, p.t = t, t
		b.do(chromedp.Navigate(base + "?author=sed&kind=modified&path=src"))
		b.until("the filter chooses", `document.querySelectorAll(".action").length == 2 && [...document.querySelectorAll(".cmd")].every(c => c.textContent.startsWith("sed")) && document.querySelector(".filter[open]")`)
		b.accessible("filter")
		b.targets("filter")
		b.do(chromedp.Navigate(base))
		b.until("the lanes are there", `document.querySelector("#lanes a rect") && document.querySelector(".action")`)
		newest := eval[string](b, `document.querySelector(".action a.no").textContent`)
		eval[any](b, `document.querySelector("#lanes [data-lane]").focus()`)
		b.key("\u0302", "\u0302")
		b.until("an arrow key marks a time, and says which", `document.querySelector("#lanes .brush").getAttribute("width") > 0 && document.querySelector("#status").textContent != ""`)
		eval[any](b, `(() => { for (let i = 0; i < 130; i++) document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowLeft", shiftKey: i > 30, bubbles: true})) })()`)
		b.shot("lanes-light")
		b.key("\r")
		b.until("Enter goes there", fmt.Sprintf(`location.search.includes("since=") && location.search.includes("until=") && document.querySelector(".action a.no") && document.querySelector(".action a.no").textContent != %q`, newest))
		b.do(chromedp.NavigateBack())
		b.until("the lanes are there", `document.querySelector("#lanes a rect") && document.querySelector(".action")`)
		b.until("nothing comes above them any more", `document.querySelector("#since .since")`)
		box := eval[[]float64](b, `(() => { const r = document.querySelector("#lanes svg").getBoundingClientRect(); return [r.left, r.top, r.width] })()`)
		y := box[1] + 10
		b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMousePressed, box[0]+2, y, chromedp.ButtonLeft), chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, box[0]+box[2]/2, y, chromedp.ButtonLeft), chromedp.MouseEvent(input.DispatchMouseEventTypeMouseReleased, box[0]+box[2]/2, y, chromedp.ButtonLeft))
		b.until("so does a stretch that is drawn", `location.search.includes("since=") && location.search.includes("until=") && document.querySelector(".action")`)
		b.do(chromedp.NavigateBack())
		b.until("the lanes are there", `document.querySelector("#lanes a rect") && document.querySelector(".action")`)
		eval[any](b, `document.querySelector("#lanes svg a").dispatchEvent(new MouseEvent("click", {bubbles: true, cancelable: true}))`)
		b.until("and a bar", `location.search.includes("since=") && document.querySelector(".action")`)
		b.keepsPolicy("lanes")
	})

	t.Run("how a diff is shown", func(t *testing.T) {
		b.t, p.t = t, t
		p.write("review.txt", "one\n  two\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\neleven\ntwelve\n")
		p.apart("sed -i 's/  two/two/; s/four/FOUR/; s/six/SIX/' review.txt")
		p.write("logo.png", picture(t, 200))
		p.write("logo.png", picture(t, 90))
		b.do(chromedp.Navigate(base + "file?path=review.txt&view=change"))
		b.until("the change is there", `document.querySelectorAll("tr.del").length == 3 && document.querySelectorAll("tr.hunk").length == 1`)
		b.accessible("change")
		eval[any](b, `[...document.querySelectorAll(".tools button")].find(b => b.textContent == "ignore white space").click()`)
		b.until("white space is not looked at, and such a diff takes nothing back", `document.querySelectorAll("tr.del").length == 2 && !document.querySelector("tr.hunk .take") && document.querySelector(".tools [aria-pressed=true]")`)
		eval[any](b, `[...document.querySelectorAll(".tools button")].find(b => b.textContent == "ignore white space").click()`)
		b.until("it is again", `document.querySelectorAll("tr.del").length == 3`)
		around := func(n string) {
			eval[any](b, fmt.Sprintf(`(() => { const s = document.querySelector("[name=around]"); s.value = %q; s.dispatchEvent(new Event("change", {bubbles: true})) })()`, n))
		}
		around("1000000")
		b.until("the whole file", `[...document.querySelectorAll("tr.same .line")].some(l => l.textContent == "twelve")`)
		around("0")
		b.until("each change stands alone", `document.querySelectorAll("tr.hunk .take").length == 3 && !document.querySelector("tr.same")`)
		eval[any](b, `document.querySelectorAll("tr.hunk .take")[1].click()`)
		b.until("and is taken back alone", `document.querySelector("#plan[open] form .go")`)
		eval[any](b, `document.querySelector("#plan form .go").click()`)
		b.until("it is done", `document.querySelector("#plan")?.innerText.includes("done:")`)
		if got := p.read("review.txt"); !strings.Contains(got, "\nfour\n") || !strings.Contains(got, "\nSIX\n") || !strings.Contains(got, "one\ntwo\n") {
			t.Errorf("it is %q", got)
		}
		b.do(chromedp.Navigate(base + "file?path=logo.png&view=change"))
		b.until("one picture lies over the other", `document.querySelector(".swipe .over")?.naturalWidth == 20`)
		eval[any](b, `(() => { const s = document.querySelector("[data-swipe]"); s.value = 80; s.dispatchEvent(new Event("input", {bubbles: true})) })()`)
		b.until("and is drawn away", `getComputedStyle(document.querySelector(".swipe .over")).clipPath.includes("80%")`)
		b.shot("swipe-light")
		b.accessible("pictures")
		b.keepsPolicy("diff")
	})

	t.Run("the projects of this machine", func(t *testing.T) {
		b.t, p.t = t, t
		other := filepath.Join(p.base, "other")
		b.do(chromedp.Navigate(base + "projects"))
		b.until("they are listed", `[...document.querySelectorAll(".list tbody tr")].some(r => r.innerText.includes("/other") && r.innerText.includes("not mounted"))`)
		b.until("with what changed since one looked", `[...document.querySelectorAll(".list tbody tr")].find(r => r.querySelector("a")).innerText.includes("Rename Get")`)
		row := `[...document.querySelectorAll(".list tbody tr")].find(r => r.innerText.includes("/other"))`
		eval[any](b, row+`.querySelector("button").focus()`)
		b.key("\r")
		b.until("one at rest is asked when one wants to know", row+`.innerText.includes("1 action, 1 file")`)
		if got := eval[string](b, row+`.querySelector("[data-copy]").dataset.copy`); got != "cachebro ui --dir "+other {
			t.Errorf("its pages: %s", got)
		}
		if got := eval[string](b, `fetch("project?root=/etc").then(r => r.text())`); !strings.Contains(got, "there is no such project") {
			t.Errorf("of what is none: %s", got)
		}
		b.keepsPolicy("projects")
	})

	t.Run("Markdown and notebooks are rendered", func(t *testing.T) {
		b.t, p.t = t, t
		p.rendered()
		b.do(chromedp.Navigate(base + "file?path=guide.md"))
		b.until("the text is rendered", `document.querySelector(".doc h1")?.textContent == "Guide" && document.querySelector(".doc td[align=right]") && document.querySelector(".doc strong")?.textContent == "now"`)
		if eval[bool](b, `Boolean(document.querySelector(".doc img, .doc script")) || document.title.includes("evil") || !document.querySelector(".doc").innerText.includes("<script>")`) {
			t.Error("raw HTML or a remote picture is not shown as text")
		}
		b.do(chromedp.Click(".doc a"))
		b.until("a relative link leads to the file", `location.search.includes("path=src%2Fclient.go") && document.querySelector("table.code")`)
		b.do(chromedp.NavigateBack())
		b.until("back is the text", `document.querySelector(".doc h1")`)
		view := func(name string) {
			eval[any](b, fmt.Sprintf(`[...document.querySelectorAll(".zoom button")].find(b => b.textContent == %q).click()`, name))
		}
		view("content")
		b.until("its raw text is one click away", `document.querySelector("table.code")?.innerText.includes("**now**") && location.search.includes("view=content")`)
		b.do(chromedp.NavigateBack())
		b.until("back is what was rendered", `document.querySelector(".doc h1")`)
		b.do(chromedp.NavigateForward())
		b.until("forward the text", `document.querySelector("table.code")`)
		view("change")
		b.until("a change is shown by lines first", `document.querySelector("tr.add .line")`)
		eval[any](b, `[...document.querySelectorAll(".tools button")].find(b => b.textContent == "rendered").focus()`)
		b.key("\r")
		b.until("and rendered", `document.querySelector(".doc .del em")?.textContent == "then" && document.querySelector(".doc .add strong")?.textContent == "now" && document.querySelectorAll(".doc > .block").length == 5`)
		b.shot("markdown-change-light")
		b.do(chromedp.Navigate(base + "file?path=sums.ipynb"))
		b.until("a notebook is shown by cells", `document.querySelectorAll(".doc .cell").length == 3 && document.querySelector(".doc .k")?.textContent == "import" && document.querySelector(".doc .out img")?.naturalWidth == 20`)
		b.shot("notebook-light")
		view("change")
		b.until("and what changed in them", `document.querySelectorAll(".doc .cell.del").length == 1 && document.querySelectorAll(".doc .cell.add").length == 1`)
		eval[any](b, `[...document.querySelectorAll(".tools button")].find(b => b.textContent == "rendered").click()`)
		b.until("its raw text is one click away", `document.querySelector("tr.add .line")`)
		b.keepsPolicy("rendered")
	})

	t.Run("a label", func(t *testing.T) {
		b.t, p.t = t, t
		p.cb("", "label", "as it should be")
		b.do(chromedp.Navigate(base))
		b.until("the newest action has the name of the moment", `document.querySelector(".action .label")?.textContent == "as it should be" && document.querySelectorAll(".label").length == 1`)
		b.do(chromedp.Navigate(base + "?until=as it should be"))
		b.until("it is a moment to filter by", `document.querySelector(".action .label")`)
		b.accessible("label")
	})

	t.Run("calm", func(t *testing.T) {
		b.t, p.t = t, t
		p.prompt("p5", "Delete all of them:\n- the long names\n- nothing else")
		p.tool("p5", "toolu_09", "rm a-rather-long-name-of-a-file-*.txt")
		b.do(chromedp.Navigate(base))
		b.until("the action is there", `document.querySelector(".action .cmd")?.textContent.startsWith("rm a-rather")`)
		shows := `[...document.querySelectorAll("#timeline .take")].filter((e) => getComputedStyle(e).opacity > 0 && e.offsetParent !== null).length`
		if n := eval[int](b, shows); n != 0 {
			t.Errorf("%d buttons show before anybody looks at an action", n)
		}
		if asked := eval[string](b, `document.querySelector(".asked").innerText`); asked != "“Delete all of them:\n- the long names\n- nothing else”" {
			t.Errorf("the prompt is %q", asked)
		}
		b.key("j")
		b.until("what is chosen shows what can be done", shows+` >= 1 && `+shows+` <= 2`)
		b.shot("calm-light")
		high := eval[float64](b, `Math.max(...[...document.querySelectorAll(".action:not(.chosen) > header")].map((h) => h.getBoundingClientRect().height))`)
		if high > 34 {
			t.Errorf("the head of an action is %v high: more than a line", high)
		}
	})

	t.Run("what ends", func(t *testing.T) {
		b.t, p.t = t, t
		b.do(chromedp.Navigate(base))
		b.until("the timeline is there", `document.querySelectorAll(".action").length >= 6`)
		p.cb("", "umount", p.dir)
		b.until("the page says that nothing is recorded", `document.querySelector("#status").textContent.includes("not mounted")`)
		p.cb("", "mount", p.dir)
		b.until("and when it is again", `document.querySelector("#status").textContent == ""`)
		p.apart("echo again > again.txt")
		b.until("it goes on", `document.querySelector(".action.new")?.innerText.includes("again.txt")`)
		if err := p.pages.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		b.until("the page says that it has ended", `document.querySelector("#status").textContent.includes("cachebro ui was ended")`)
		b.shot("ended")
		eval[any](b, `document.querySelector(".action .take").click()`)
		b.until("and that nothing answers", `document.querySelector("#status").textContent.includes("does not answer")`)
	})
}
