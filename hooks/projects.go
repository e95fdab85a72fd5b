package hooks

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"cachebro/hooks/clients"
	"cachebro/store/wire"
)

// A session may work in several projects: after --add-dir, after a move to a worktree, or when a
// command wrote elsewhere. The daemon of the event's project answers the event. The daemons of the
// other projects get it too, so that each knows the session's prompts and calls, and which texts a
// context lost.

// tellOthers reports an event to the daemons of the session's other projects, and adds the event's
// project to the session's projects. wait waits for the daemons; call it after the event's project
// has received the event.
func tellOthers(ctx context.Context, env Env, opt options, ev event) (wait func()) {
	tell := reporters[ev.name]
	if tell == nil {
		tell = handlers[ev.name]
	}
	if tell == nil || ev.session == "" {
		return func() {}
	}
	root, ok := findRoot(env, ev)
	if !ok {
		return func() {}
	}
	_ = env.Paths.JoinSession(ev.session, root) // after an error, the other projects learn of the session later
	if run := env.Getenv("CACHEBRO_SESSION"); run != "" && run != ev.session {
		_ = env.Paths.NestSession(run, ev.session) // after an error, changes belong to run's session and to no prompt
	}
	if ev.file() != "" && !isOurs(ev.tool) {
		return func() {} // a call that names its file concerns only that file's project
	}
	var all sync.WaitGroup
	told := map[string]bool{root: true}
	tellNew := func() {
		for _, other := range env.Paths.SessionProjects(ev.session) {
			if told[other] {
				continue
			}
			told[other] = true
			all.Go(func() {
				c := &call{scene: scene{env: env, opt: opt, event: ev, root: other}}
				if _, ok := within(ctx, env.limit(workWithin), func(ctx context.Context) bool { c.tellOtherProjects(ctx, tell); return true }); !ok {
					c.markLost()
				}
			})
		}
	}
	tellNew()
	// Another project may join the session now. Its daemon may ask the event's project about the
	// session before that project has received the event. So the list is read again afterwards.
	return func() {
		tellNew()
		all.Wait()
	}
}

func (c *call) tellOtherProjects(ctx context.Context, tell func(context.Context, *call) answer) {
	c.breaker = breaker{file: breakerFile(c.env.Paths, c.root), now: c.env.Now}
	if c.breaker.open() {
		c.markLost()
		return
	}
	client, err := c.env.Dial(ctx, c.root)
	if errors.Is(err, wire.ErrNoDaemon) && !changesContext[c.name] {
		return // no daemon runs; when one starts, it asks our project's daemon for what it needs
	}
	if err != nil {
		c.failed(err)
		return
	}
	defer client.Close()
	c.client = client
	if c.tellLost(ctx) {
		tell(ctx, c)
	}
}

// changesContext are the events that may change what a context holds.
var changesContext = map[string]bool{"SessionStart": true, "SessionEnd": true, "PreCompact": true, "PostCompact": true}

// reporters holds the functions that report events to the daemons of the session's other projects. An
// event that is not listed is reported by its handler.
var reporters = map[string]func(context.Context, *call) answer{
	"SessionStart":       func(ctx context.Context, c *call) answer { _, _ = c.reportStart(ctx); return answer{} },
	"UserPromptSubmit":   reportPrompt,
	"PreToolUse":         reportCall,
	"PostToolUse":        reportResult,
	"PostToolUseFailure": reportResult,
	"Stop":               reportStop,
}

func (c *call) reportStart(ctx context.Context) (wire.SessionAnswer, error) {
	known, err := c.tell(ctx, wire.SessionEvent{Event: "start", Source: c.source})
	if c.transcript != "" && c.opt.client == "" {
		c.chain().begin(c.transcript)
		c.contextSize().begin(c.record(), err == nil && c.source == "compact")
	}
	return known, err
}

func reportPrompt(ctx context.Context, c *call) answer {
	_, _ = c.tell(ctx, wire.SessionEvent{Event: "prompt", Text: c.recordable(c.text, 400), Given: tokensOf(len(c.text)), NoNews: true})
	return answer{}
}

func reportStop(ctx context.Context, c *call) answer {
	_, _ = c.tell(ctx, wire.SessionEvent{Event: "stop", Given: tokensOf(len(c.reply))})
	return answer{}
}

func reportCall(ctx context.Context, c *call) answer {
	c.tellQueued(ctx)
	if isOurs(c.tool) && !c.checkChain(ctx) {
		return answer{}
	}
	t := c.toolCall()
	if isOurs(c.tool) {
		t.Context = c.readLosses()
	}
	_, _ = c.ask(ctx, wire.MToolBegin, t, nil, nil)
	return answer{}
}

func reportResult(ctx context.Context, c *call) answer {
	if c.tool != "Bash" {
		return answer{}
	}
	t := c.toolCall()
	t.Background = c.response.str("backgroundTaskId") != ""
	t.Failed = c.name == "PostToolUseFailure"
	_, _ = c.ask(ctx, wire.MToolEnd, t, nil, nil)
	return answer{}
}

// findRoot finds the project of an event by the first of these that is known:
//
//   - the file that the event's call names
//   - the event's working directory
//   - CLAUDE_PROJECT_DIR, where the session began, even after it moves to a worktree
//   - our own working directory, which may be the covered directory if this process is older
//     than the mount
func findRoot(env Env, ev event) (string, bool) {
	for _, dir := range []string{ev.file(), ev.cwd, env.Getenv("CLAUDE_PROJECT_DIR"), ev.home, env.Dir} {
		if !filepath.IsAbs(dir) {
			continue
		}
		if root, ok := env.Paths.Find(filepath.Clean(dir)); ok {
			return root, true
		}
		if real, err := filepath.EvalSymlinks(dir); err == nil && real != filepath.Clean(dir) {
			if root, ok := env.Paths.Find(real); ok {
				return root, true
			}
		}
	}
	return "", false
}

// pathFields are the fields of a tool's input that name its file.
var pathFields = []string{"file_path", "notebook_path", "path"}

// file returns the file or directory that the event's call names, or "". It ignores a relative name
// in a call to our own server, because such a name is relative to the session's project.
func (e event) file() string {
	for _, name := range pathFields {
		switch path := e.input.str(name); {
		case path == "":
		case filepath.IsAbs(path):
			return path
		case filepath.IsAbs(e.cwd) && !isOurs(e.tool):
			return filepath.Join(e.cwd, path)
		}
	}
	return ""
}

// relative returns a tool's path relative to the project and slash-separated, or false if it is not
// in the project.
func (c *scene) relative(path string) (string, bool) {
	if path == "" || strings.ContainsRune(path, 0) {
		return "", false
	}
	if !filepath.IsAbs(path) {
		if !filepath.IsAbs(c.cwd) {
			return "", false
		}
		path = filepath.Join(c.cwd, path)
	}
	if rel, ok := below(c.root, filepath.Clean(path)); ok {
		return rel, true
	}
	// The path may reach the project through a symlink. So the file's directory is resolved, but
	// not its name.
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", false
	}
	return below(c.root, filepath.Join(dir, filepath.Base(path)))
}

func below(root, path string) (string, bool) {
	if root == string(os.PathSeparator) {
		return strings.TrimPrefix(path, root), path != root
	}
	rel, ok := strings.CutPrefix(path, root+string(os.PathSeparator))
	return filepath.ToSlash(rel), ok && rel != ""
}

// defersToInit reports whether the plugin's hook ignores the event because "cachebro init" or
// "cachebro run" registered a hook for it. "cachebro run" passes its settings on the client's
// command line, so it announces its hook in the environment.
func defersToInit(env Env, opt options, ev event) bool {
	if !opt.plugin {
		return false
	}
	if env.Getenv("CACHEBRO_HOOKS") == "run" {
		return true
	}
	p := clients.Places{Client: opt.client, Home: env.Getenv("HOME"), Project: ev.cwd}
	switch opt.client {
	case "":
		p.Config = env.Getenv("CLAUDE_CONFIG_DIR")
		if project := env.Getenv("CLAUDE_PROJECT_DIR"); project != "" {
			p.Project = project
		}
	case "codex":
		p.Config = env.Getenv("CODEX_HOME")
	}
	return p.HooksRegistered() != ""
}
