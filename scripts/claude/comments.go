package main

import (
	"bufio"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// commented checks that a comment on a line, which a person makes in the browser, reaches the model
// exactly once, with the session's next prompt, whatever is killed in between.
func commented(b *bench, c *checks) {
	page, err := b.openPage()
	if err != nil {
		c.that(false, "cachebro ui: %v", err)
		return
	}
	defer page.close()
	write := call{Name: "Write", Input: map[string]any{"file_path": filepath.Join(b.project, "note.txt"), "content": "one\nthe second line\nthree\n"}}
	said := func(text string) func() {
		return func() {
			err := page.comment("note.txt", 2, text)
			c.that(err == nil, "the page takes %q %v", text, err)
		}
	}
	first, second, third, fourth := b.conv("one"), b.conv("two"), b.conv("three"), b.conv("four")
	first.do(write)
	first.say("one")
	first.steps[1].act = said("Call it the other line, please.")
	second.say("two")
	third.say("three")
	third.steps[0].act = said("And end it with a dot.")
	fourth.say("four")
	r := b.converse(first.ready(), second.ready(), third.ready())
	ended(c, r, "three prompts")
	with := func(v *conv, text string) int {
		es := b.api.of(v.name)
		if len(es) == 0 {
			return -1
		}
		return strings.Count(es[len(es)-1].body.words(), text)
	}
	c.that(with(first, "the other line") == 0, "before the next prompt the model has nothing of it")
	c.that(with(second, "the other line") == 1, "the next prompt brings it: %d", with(second, "the other line"))
	c.that(with(third, "the other line") == 1, "the one after it does not bring it again: %d", with(third, "the other line"))
	words := ""
	if es := b.api.of("two"); len(es) > 0 {
		words = es[0].body.words()
	}
	c.that(strings.Contains(words, "note.txt:2 (as of version") && strings.Contains(words, `the line "the second line"`), "it names the line: %s", head(after(words, "The user commented")))

	// A hook of another client process receives the comment but is killed before it has printed it.
	id := r.session()
	c.that(b.lostHook(id) == nil, "a hook that cannot print takes the second comment")
	r = b.with(fourth.ready(), "--resume", id)
	ended(c, r, "--resume")
	c.that(with(fourth, "with a dot") == 0, "while that hook may live, nobody else tells it")
	time.Sleep(time.Minute + time.Second)
	fifth, sixth := b.conv("five"), b.conv("six")
	fifth.say("five")
	sixth.say("six")
	r = b.with(fifth.ready(), "--resume", id)
	ended(c, r, "--resume, later")
	c.that(with(fifth, "with a dot") == 1, "then it comes: %d", with(fifth, "with a dot"))
	c.that(with(fifth, "the other line") == 1, "and the first is not told again: %d", with(fifth, "the other line"))
	files, _ := filepath.Glob(filepath.Join(b.dir, "home/.claude/projects/*", id+".jsonl"))
	ids := 0
	for _, f := range files {
		text, _ := os.ReadFile(f)
		ids += len(regexp.MustCompile(`com-[0-9a-f]{16}`).FindAll(text, -1))
	}
	c.that(ids >= 2, "the client's transcript shows which comments came: %d", ids)

	// The daemon is killed just after it has stored the comment.
	err = page.comment("note.txt", 3, "Three is right.")
	c.that(err == nil, "a third comment %v", err)
	if pid, err := b.daemonPID(); err == nil {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	r = b.with(sixth.ready(), "--resume", id)
	ended(c, r, "--resume after kill -9 of the daemon")
	c.that(with(sixth, "Three is right") == 1 && with(sixth, "with a dot") == 1, "it comes once: %d, the others are not told again: %d", with(sixth, "Three is right"), with(sixth, "with a dot"))
	list, err := page.get("comments")
	c.that(err == nil && strings.Count(list, ">delivered ") == 3, "the page shows three as delivered: %d %v", strings.Count(list, ">delivered "), err)
}

// lostHook runs the hook for a prompt in such a way that its output cannot be written.
func (b *bench) lostHook(session string) error {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer full.Close()
	cmd := exec.Command(b.cachebro, "hook", "user-prompt-submit")
	cmd.Dir, cmd.Env, cmd.Stdout = b.project, append(b.env(), "CACHEBRO_HOOK_WAIT=20s"), full
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"session_id":%q,"hook_event_name":"UserPromptSubmit","cwd":%q,"transcript_path":"/dev/null","prompt_id":"lost","prompt":"x"}`, session, b.project))
	return cmd.Run()
}

// page is a session with "cachebro ui", like that of a browser.
type page struct {
	cmd    *exec.Cmd
	c      http.Client
	base   string
	origin string
	csrf   string
}

// openPage mounts the project and requests the address that "cachebro ui" prints.
func (b *bench) openPage() (*page, error) {
	if out, err := b.tool("mount", b.project); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	p := &page{cmd: exec.Command(b.cachebro, "ui", "--no-open", "--dir", b.project)}
	p.cmd.Dir, p.cmd.Env = b.dir, b.env()
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.close()
		return nil, err
	}
	first := strings.TrimSpace(line)
	p.origin, _, _ = strings.Cut(first, "/?token=")
	p.c.Jar, _ = cookiejar.New(nil)
	r, err := p.c.Get(first)
	if err != nil {
		p.close()
		return nil, err
	}
	r.Body.Close()
	p.base = p.origin + strings.TrimPrefix(r.Header.Get("Refresh"), "0; url=")
	top, err := p.get("")
	m := regexp.MustCompile(`"X-Cachebro":"([^"]+)"`).FindStringSubmatch(html.UnescapeString(top))
	if err != nil || m == nil {
		p.close()
		return nil, errors.Join(err, errors.New("the page holds no secret"))
	}
	p.csrf = m[1]
	return p, nil
}

func (p *page) close() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Wait()
}

func (p *page) get(part string) (string, error) { return p.ask("GET", part, nil) }

func (p *page) ask(method, part string, form url.Values) (string, error) {
	req, err := http.NewRequest(method, p.base+part, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	if method == "POST" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", p.origin)
		req.Header.Set("X-Cachebro", p.csrf)
	}
	r, err := p.c.Do(req)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err == nil && (r.StatusCode != http.StatusOK || strings.Contains(string(body), `class="problem"`)) {
		err = fmt.Errorf("%s: %s", r.Status, body)
	}
	return string(body), err
}

// comment finds the file's diff in the timeline and comments on the line.
func (p *page) comment(file string, line int, text string) error {
	var actions string
	link := regexp.MustCompile(regexp.QuoteMeta(file) + `[\s\S]*?hx-get="(diff\?[^"]+)"`)
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		var err error
		actions, err = p.get("actions")
		if err != nil {
			return err
		}
		if link.MatchString(actions) {
			break
		}
		if time.Now().After(end) {
			return errors.New("the timeline does not show " + file)
		}
	}
	diff, err := p.get(html.UnescapeString(link.FindStringSubmatch(actions)[1]))
	if err != nil {
		return err
	}
	m := regexp.MustCompile(fmt.Sprintf(`hx-get="(comment\?line=%d&amp;seq=\d+)"`, line)).FindStringSubmatch(diff)
	if m == nil {
		return errors.New("the line takes no comment:\n" + diff)
	}
	_, err = p.ask("POST", html.UnescapeString(m[1]), url.Values{"text": {text}})
	return err
}
