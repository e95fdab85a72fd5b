package commands

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/fusefs/mounts/supervisor"
	"cachebro/hooks/clients"
	"cachebro/mcp"
	"cachebro/store/leaf/event"
	"cachebro/store/undo/apply"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
)

func serveCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "serve [DIR]", Short: "the MCP server for an agent, on standard input and output",
		Long: `The project is DIR, else the project of the working directory, else CLAUDE_PROJECT_DIR.
If the client's session moves to another project, its calls are answered for that project.`,
		Example: `  cachebro serve
  cachebro serve --tools=safety
  cachebro serve --http 127.0.0.1:7777    needs CACHEBRO_TOKEN`,
		Args:       e.Args(0, 1),
		SuggestFor: []string{"mcp"},
	}

	fs := cmd.Flags()
	tools := fs.String("tools", mcp.ProfileDefault, "read (read_file alone), safety, default or all")
	reader := fs.String("reader", "", "\"connection\" if this connection serves a single context window; then texts up to 8 KiB count as shown to it")
	session := fs.String("session", "", "the client's session id, as a label for edits")
	plugin := fs.Bool("plugin", false, "started by the plugin; exit if init or run has registered a server already")
	addr := fs.String("http", "", "serve HTTP on this loopback address instead of standard input and output")
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		dir, t, err := served(e, args)
		if err != nil {
			return err
		}
		if *plugin {
			where := clients.Places{Home: e.Getenv("HOME"), Config: e.Getenv("CLAUDE_CONFIG_DIR"), Project: t.Root}.ServerRegistered()
			if e.Getenv("CACHEBRO_HOOKS") == "run" {
				where = "the command line"
			}
			if where != "" {
				return cli.Hintf("cachebro uninit --client claude lets the plugin serve instead", "cachebro is registered in %s as well, and that server is used", cli.Quote(where))
			}
		}
		if *session == "" {
			// The client's own variable comes first, because the client's hooks use the session id
			// in it.
			for _, name := range append(slices.Clone(event.ClientSessions), event.RunSession) {
				*session = e.Getenv(name)
				if *session != "" {
					break
				}
			}
		}
		common := mcp.Options{
			In: e.Stdin, Out: e.Stdout, Profile: *tools, Reader: *reader, Session: *session, Version: cli.Version,
			Logger: slog.New(slog.NewTextHandler(e.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		}
		common.Open = func(path string) (mcp.Options, bool) {
			if root, ok := e.Paths().Find(path); ok && root == t.Root {
				return ofProject(e, common, t), true // saves reading the mount table, which takes 0.2 ms
			}
			other, err := e.Locate(path)
			return ofProject(e, common, other), err == nil && other.Root != wire.OutsideRoot
		}
		o := ofProject(e, common, t)
		if given, err := e.Abs(dir); err == nil && given != t.Root && len(t.Rel) == 0 {
			o.Aliases = append(o.Aliases, given)
		}
		if *addr != "" {
			l, token, err := listen(e, *addr)
			if err != nil {
				return err
			}
			defer l.Close()
			o.Listener, o.Token = l, token
			fmt.Fprintf(e.Stderr, "serving %s on http://%s\n", cli.Quote(t.Root), l.Addr())
		}
		return mcp.Serve(ctx, o)
	})
}

// ofProject returns the options of a server, completed for one project.
func ofProject(e *cli.Env, o mcp.Options, t cli.Target) mcp.Options {
	o.Root = t.Root
	if t.Point != t.Root {
		o.Mountpoint = t.Point
	}
	o.Dial = func(ctx context.Context) (mcp.Caller, error) {
		c, err := e.ConnectAs(ctx, t.Root, "mcp", wire.Timeouts{})
		if err != nil {
			return nil, err
		}
		return c, nil
	}
	o.Stopped = func() error {
		state, err := e.Paths().State(t.Root)
		if err != nil {
			return err
		}
		return supervisor.StoppedMount(state)
	}
	o.Others = func(ctx context.Context, session, prompt string) []string {
		return apply.ChangedElsewhere(ctx, e.Paths(), t.Root, session, prompt, func(ctx context.Context, root string) (apply.Ask, func() error, error) {
			c, err := e.ConnectAs(ctx, root, "mcp", wire.Timeouts{})
			if err != nil {
				c.Close()
				return nil, nil, err
			}
			return c.Call, c.Close, nil
		})
	}
	return o
}

// served returns the project to serve. That is DIR, else the project of the working directory, else
// CLAUDE_PROJECT_DIR. The variable comes last because it always names the directory where the
// session began, even if the server is started in one of the session's worktrees.
func served(e *cli.Env, args []string) (dir string, t cli.Target, err error) {
	dir = cli.First(args, ".")
	if p := e.Getenv("CLAUDE_PROJECT_DIR"); len(args) == 0 && filepath.IsAbs(p) && !e.Known(dir) {
		dir = p
	}
	t, err = e.LocateOrTop(dir)
	return dir, t, err
}

// listen opens the HTTP listener. It requires a loopback address and a token.
func listen(e *cli.Env, addr string) (net.Listener, string, error) {
	token := e.Getenv("CACHEBRO_TOKEN")
	if len(token) < 16 {
		return nil, "", cli.Hintf("export CACHEBRO_TOKEN=$(openssl rand -hex 16)", "--http needs a bearer token of 16 characters or more in CACHEBRO_TOKEN")
	}
	host, _, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err != nil || !strings.EqualFold(host, "localhost") && (ip == nil || !ip.IsLoopback()) {
		return nil, "", e.Usagef("serve: --http %s: want a loopback address such as 127.0.0.1:7777", cli.Quote(addr))
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, "", fmt.Errorf("listen: %w", err)
	}
	return l, token, nil
}
