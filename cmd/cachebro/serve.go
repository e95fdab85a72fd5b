package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"

	"cachebro/hooks"
	"cachebro/mcp"
	"cachebro/store/tokens"
	"cachebro/store/wire"
)

func serveCommand() command {
	return command{
		name: "serve", group: groupPlumbing, args: "[DIR]", short: "the MCP server for an agent, on standard input and output",
		long: `The project is CLAUDE_PROJECT_DIR, DIR, or the working directory.

Examples:
  cachebro serve
  cachebro serve --tools=safety
  cachebro serve --http 127.0.0.1:7777    needs CACHEBRO_TOKEN`,
		run: runServe,
	}
}

func runServe(ctx context.Context, e *env) error {
	fs := e.flags()
	tools := fs.String("tools", mcp.ProfileDefault, "read (read_file alone), safety, default or all")
	reader := fs.String("reader", "", "connection: this connection is one context window (texts up to 8 KiB count as shown)")
	session := fs.String("session", "", "the client's session id, as a label for edits")
	reindex := fs.Bool("auto-reindex", true, "without a mount: look for changed files before each search, for 2 s at most")
	plugin := fs.Bool("plugin", false, "started by the plugin: leave it to the server that init or run has registered")
	addr := fs.String("http", "", "serve HTTP on this loopback address instead")
	args, err := e.parse(fs, 0, 1)
	if err != nil {
		return err
	}
	dir := first(args, ".")
	if p := e.getenv("CLAUDE_PROJECT_DIR"); len(args) == 0 && filepath.IsAbs(p) {
		dir = p
	}
	t, err := e.locateOrTop(dir)
	if err != nil {
		return err
	}
	if *plugin {
		where := hooks.Places{Home: e.getenv("HOME"), Config: e.getenv("CLAUDE_CONFIG_DIR"), Project: t.root}.ServerRegistered()
		if e.getenv("CACHEBRO_HOOKS") == "run" {
			where = "the command line"
		}
		if where != "" {
			return hintf("cachebro uninit --client claude leaves it to the plugin", "cachebro is registered in %s as well: that one serves", quote(where))
		}
	}
	if *session == "" {
		for _, name := range []string{"CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "CACHEBRO_SESSION"} {
			if *session = e.getenv(name); *session != "" {
				break
			}
		}
	}
	o := mcp.Options{
		In: e.stdin, Out: e.stdout, Root: t.root, Profile: *tools, Reader: *reader, Session: *session, NoReindex: !*reindex, Version: version, Tokens: tokens.Estimate,
		Logger: slog.New(slog.NewTextHandler(e.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Dial: func(ctx context.Context) (mcp.Caller, error) {
			c, err := e.connectAs(ctx, t.root, "mcp", wire.Timeouts{})
			if err != nil {
				return nil, err
			}
			return c, nil
		},
	}
	if t.point != t.root {
		o.Mountpoint = t.point
	}
	if given, err := e.abs(dir); err == nil && given != t.root && len(t.rel) == 0 {
		o.Aliases = append(o.Aliases, given)
	}
	if *addr != "" {
		l, token, err := e.listen(*addr)
		if err != nil {
			return err
		}
		defer l.Close()
		o.Listener, o.Token = l, token
		fmt.Fprintf(e.stderr, "serving %s on http://%s\n", quote(t.root), l.Addr())
	}
	return mcp.Serve(ctx, o)
}

// listen opens the HTTP listener: loopback only, and only with a token.
func (e *env) listen(addr string) (net.Listener, string, error) {
	token := e.getenv("CACHEBRO_TOKEN")
	if len(token) < 16 {
		return nil, "", hintf("export CACHEBRO_TOKEN=$(openssl rand -hex 16)", "--http needs a bearer token of 16 characters or more in CACHEBRO_TOKEN")
	}
	host, _, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err != nil || !strings.EqualFold(host, "localhost") && (ip == nil || !ip.IsLoopback()) {
		return nil, "", e.usagef("serve: --http %s: want a loopback address such as 127.0.0.1:7777", quote(addr))
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, "", fmt.Errorf("listen: %w", err)
	}
	return l, token, nil
}
