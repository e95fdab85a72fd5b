package hooks

import (
	"context"
	"errors"
	"io"
	"time"

	"cachebro/hooks/clients"
	"cachebro/store/wire"
)

// Limits of one hook process.
const (
	maxInput    = 64 << 20               // bytes of an event; a larger one is ignored
	readWithin  = 2 * time.Second        // until the event is read
	workWithin  = 350 * time.Millisecond // for an ordinary event, with the connection and all answers
	endWithin   = time.Second            // for SessionEnd, which the client kills after 1.5 s
	wakeWithin  = time.Second            // additional time to start the daemon of a mount
	startWithin = 8 * time.Second        // for SessionStart, which may have to mount the project
)

// Env holds what a hook process gets from the command that runs it.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer
	// Args are the arguments after "hook": the options that init registered, then the event's name
	// if the input lacks it.
	Args   []string
	Getenv func(string) string
	Now    func() time.Time
	Dir    string     // working directory, the last resort for finding the project
	Paths  wire.Paths // where sockets and state are
	// Dial connects to the running daemon of a project with wire.HookTimeouts.
	Dial func(ctx context.Context, root string) (*wire.Client, error)
	// Start, called by SessionStart if no daemon runs, starts a daemon. It also mounts the project if
	// the user has set it up to be mounted. If nil, no daemon is started.
	Start func(ctx context.Context, root string) (*wire.Client, error)
	// Wake, called at every event if no daemon runs, starts the daemon of a mounted project, which
	// exits when it is idle. It reports whether a daemon runs now. If nil, no daemon is started.
	Wake func(ctx context.Context, root string) bool
	// Mount, called by SessionStart if the project is not mounted, mounts it if the user has set it
	// up to be mounted. It reports whether there is a mount now. A project that is not set up is no
	// error. If nil, nothing is mounted.
	Mount func(ctx context.Context, root string) (bool, error)
	// NoCommands means that the daemon gets no prompts and commands.
	NoCommands bool
	// Secret reports whether a text for the model must not name a path. If nil, no path is secret.
	Secret func(path string) bool
	// Limit, if not 0, replaces the events' time limits. Tests on a busy machine would rather wait
	// than miss an answer.
	Limit time.Duration
}

func (e Env) limit(d time.Duration) time.Duration {
	if e.Limit > 0 {
		return e.Limit
	}
	return d
}

// answer is the outcome of one event. Nothing is written before it is complete.
type answer struct {
	out  output
	sent func() // called after printing
	// asleep, if set, is the project whose daemon Wake must start before the event can be handled.
	asleep string
}

// Run handles one event. It never panics and never fails, so that the exit status is always 0.
func Run(ctx context.Context, env Env) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	opt := parseOptions(env.Args)
	raw, ok := within(ctx, env.limit(readWithin), func(context.Context) []byte { return readAll(env.Stdin) })
	if !ok || raw == nil {
		return
	}
	ev, ok := parseEvent(raw, opt)
	if !ok || defersToInit(env, opt, ev) {
		return
	}
	ev.typedMeanwhile(env, opt)
	limit := workWithin
	switch ev.name {
	case "SessionStart":
		limit = startWithin
	case "SessionEnd":
		limit = endWithin
	}
	waitForOthers := tellOthers(ctx, env, opt, ev)
	defer waitForOthers()
	a, ok := within(ctx, env.limit(limit), func(ctx context.Context) answer { return handle(ctx, env, opt, ev) })
	if ok && a.asleep != "" {
		// Ignore the result: a daemon that is starting serves the next event.
		_, _ = within(ctx, env.limit(wakeWithin), func(ctx context.Context) bool { return env.Wake(ctx, a.asleep) })
		env.Wake = nil
		a, ok = within(ctx, env.limit(limit), func(ctx context.Context) answer { return handle(ctx, env, opt, ev) })
	}
	if !ok {
		abandoned(ctx, env, ev)
		return
	}
	if opt.client != "" {
		a.out.updated = nil
		if clients.TakesNoText(opt.client) && !a.out.deny {
			a.out = output{result: a.out.result}
		}
		a.out.block = opt.dialect().Record
		a.out.quiet = a.out.quiet || opt.dialect().Requests
	}
	b := a.out.encode(ev.clientName)
	if b == nil {
		return
	}
	if _, err := env.Stdout.Write(append(b, '\n')); err == nil && a.sent != nil {
		a.sent()
	}
}

// within runs f in a goroutine and gives up if f panics or takes longer than d. The goroutine is
// then abandoned, because it may hang on one of our file systems. The process ends right after.
func within[T any](ctx context.Context, d time.Duration, f func(context.Context) T) (T, bool) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	type result struct {
		v  T
		ok bool
	}
	done := make(chan result, 1) // never closed; one send
	go func() {
		var r result
		defer func() {
			if recover() != nil {
				r.ok = false
			}
			done <- r
		}()
		r.v = f(ctx)
		r.ok = true
	}()
	select {
	case r := <-done:
		return r.v, r.ok
	case <-ctx.Done():
		var zero T
		return zero, false
	}
}

// readAll reads the event. It returns nil if the event is too large or unreadable. An event
// that is too large is still read to its end, because the client would report an EPIPE.
func readAll(r io.Reader) []byte {
	b := make([]byte, 0, 64<<10) // a pipe's capacity
	for {
		if len(b) == cap(b) {
			b = append(make([]byte, 0, 4*cap(b)), b...)
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case errors.Is(err, io.EOF):
			return b
		case err != nil:
			return nil
		case len(b) > maxInput:
			_, _ = io.Copy(io.Discard, r)
			return nil
		}
	}
}

// handle finds the project, connects and runs the event's handler.
func handle(ctx context.Context, env Env, opt options, ev event) answer {
	h := handlers[ev.name]
	if h == nil || ev.session == "" {
		return answer{}
	}
	root, ok := findRoot(env, ev)
	if !ok {
		return answer{}
	}
	c := &call{scene: scene{env: env, opt: opt, event: ev, root: root}}
	c.breaker = breaker{file: breakerFile(env.Paths, root), now: env.Now}
	if c.breaker.open() {
		c.markLost()
		return answer{}
	}
	client, err := env.Dial(ctx, root)
	if env.Wake != nil && errors.Is(err, wire.ErrNoDaemon) {
		return answer{asleep: root}
	}
	if ev.name == "SessionStart" && env.Start != nil && errors.Is(err, wire.ErrNoDaemon) {
		client, err = env.Start(ctx, root)
	}
	if err != nil {
		c.failed(err)
		return answer{}
	}
	defer client.Close()
	c.client = client
	if !c.tellLost(ctx) {
		return answer{}
	}
	return h(ctx, c)
}

func isTimeout(err error) bool {
	return errors.Is(err, wire.ErrTimeout) || errors.Is(err, context.DeadlineExceeded)
}

// scene is an event and what is known without the daemon.
type scene struct {
	env Env
	opt options
	event
	root string // the project's
}

// call is an event being handled. client is nil until there is a connection.
type call struct {
	scene
	client  *wire.Client
	breaker breaker
}

// ask calls the daemon. A timeout opens the circuit breaker.
func (c *call) ask(ctx context.Context, method string, params any, body []byte, result any) ([]byte, error) {
	out, err := c.client.Call(ctx, method, params, body, result)
	if err != nil {
		c.failed(err)
	}
	return out, err
}

// failed records that this event did not reach the daemon, unless the daemon answered with err.
func (c *call) failed(err error) {
	var e *wire.Error
	switch {
	case isTimeout(err):
		c.breaker.trip()
		c.markLost()
	case !errors.As(err, &e), errors.Is(err, wire.ErrNoDaemon), errors.Is(err, wire.ErrVersion), errors.Is(err, wire.ErrInternal), errors.Is(err, wire.ErrCanceled):
		c.markLost()
	}
}

// reader returns the event's context window.
func (c *scene) reader() wire.Reader {
	return wire.Reader{Session: c.session, Agent: c.agent, ToolUse: c.toolUse}
}

// OnFastPath reports whether events of that name never need Start or Mount.
func OnFastPath(name string) bool { return handlers[name] != nil && name != "SessionStart" }

// handlers holds the handler of each event.
var handlers = map[string]func(context.Context, *call) answer{
	"SessionStart":       sessionStart,
	"UserPromptSubmit":   userPromptSubmit,
	"PreToolUse":         preToolUse,
	"PostToolUse":        postToolUse,
	"PostToolUseFailure": postToolUseFailure,
	"PostToolBatch":      postToolBatch,
	"PreCompact":         preCompact,
	"PostCompact":        postCompact,
	"SubagentStart":      subagentStart,
	"SubagentStop":       subagentStop,
	"Stop":               stop,
	"SessionEnd":         sessionEnd,
}
