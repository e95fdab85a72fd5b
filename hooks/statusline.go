package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"cachebro/store/wire"
)

// RunStatusLine answers a client's statusLine command. It reads the client's JSON from stdin and
// prints one line, or nothing without a project or a timely answer. A client runs it several times
// a second, so it has a hook's time limits.
func RunStatusLine(ctx context.Context, env Env) int {
	raw, ok := within(ctx, env.limit(readWithin), func(context.Context) []byte { return readAll(env.Stdin) })
	if !ok {
		return 0
	}
	var f fields
	_ = json.Unmarshal(raw, &f) // after an error, our own working directory decides
	where := f.object("workspace")
	ev := event{session: f.str("session_id"), cwd: cmp.Or(where.str("current_dir"), f.str("cwd")), home: where.str("project_dir")}
	line, ok := within(ctx, env.limit(workWithin), func(ctx context.Context) string { return statusLine(ctx, env, ev) })
	if ok && line != "" {
		if _, err := io.WriteString(env.Stdout, line+"\n"); err != nil {
			return 0
		}
	}
	return 0
}

func statusLine(ctx context.Context, env Env, ev event) string {
	root, ok := findRoot(env, ev)
	if !ok {
		return ""
	}
	b := breaker{file: breakerFile(env.Paths, root), now: env.Now}
	if b.open() {
		return statusText(wire.Metrics{}, wire.Status{}, "", "no answer")
	}
	client, err := env.Dial(ctx, root)
	if err != nil {
		if isTimeout(err) {
			b.trip()
		}
		return statusText(wire.Metrics{}, wire.Status{}, "", "not running")
	}
	defer client.Close()
	c := &call{scene: scene{env: env, event: ev, root: root}, client: client, breaker: b}
	var s wire.Status
	if _, err := c.ask(ctx, wire.MStatus, wire.Empty{}, nil, &s); err != nil {
		return statusText(wire.Metrics{}, wire.Status{}, "", "no answer")
	}
	var m wire.Metrics
	var r wire.Recovery
	if ev.session != "" {
		_, err = c.ask(ctx, wire.MMetrics, wire.MetricsQuery{Session: ev.session}, nil, &m)
		if err == nil {
			_, err = c.ask(ctx, wire.MRecovery, wire.SessionQuery{Session: ev.session}, nil, &r)
		}
		if err != nil {
			m, r = wire.Metrics{}, wire.Recovery{}
		}
	}
	return statusText(m, s, r.Branch, "")
}

// statusText returns the status line. If trouble is not empty, the line contains only trouble.
// Otherwise problems that the user should solve come first: capture stopped, not mounted.
func statusText(m wire.Metrics, s wire.Status, branch, trouble string) string {
	if trouble != "" {
		return " cachebro  " + trouble
	}
	parts := []string{}
	switch {
	case s.Capture.State == "stopped":
		parts = append(parts, "capture stopped: "+clean(s.Capture.Reason))
	case !s.Store.Healthy:
		parts = append(parts, "store: "+clean(s.Store.Reason))
	case !s.Mounted:
		parts = append(parts, "not mounted")
	}
	saved := amount(m.Saved) + " tokens saved"
	if m.Full > 0 && m.Saved != 0 {
		saved += fmt.Sprintf(" (%.1f%%)", m.Percent)
	}
	parts = append(parts, saved)
	if s.Baseline.Running && s.Baseline.Total > 0 {
		parts = append(parts, fmt.Sprintf("baseline %d of %d files", s.Baseline.Files, s.Baseline.Total))
	}
	branch = clean(branch)
	if branch != "" {
		parts = append(parts, branch)
	}
	return " cachebro  " + strings.Join(parts, " · ")
}
