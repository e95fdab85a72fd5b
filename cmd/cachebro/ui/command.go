package ui

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"cachebro/cmd/cachebro/cli"

	"github.com/spf13/cobra"
)

// Command returns the command cachebro ui.
func Command(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "ui", Short: "browse the history in a web browser, and undo changes there",
		Long: `Serves web pages on 127.0.0.1 until ^C ends it. They show live who changed what and for
which prompt, with diffs, and each file with all its versions. Changes can be undone from
the pages, which first show what would happen. The browser is opened; over SSH or without
a desktop, the address is printed instead. The address contains a token, which keeps other
users of this machine out, so do not share it.

Over SSH:
  ssh -L 4747:127.0.0.1:4747 HOST, and there: cachebro ui --port 4747`,
		Example: `  cachebro ui
  cachebro ui --no-open --port 4747`,
		Args: e.Args(0, 0),
	}

	fs := cmd.Flags()
	port := fs.Int("port", 0, "the port to listen on (default: any free port)")
	noOpen := fs.Bool("no-open", false, "print the address, but do not open a browser")
	return cli.Does(cmd, func(ctx context.Context, _ []string) error {
		if *port < 0 || *port > 65535 {
			return e.Usagef("ui: --port %d: want 1 to 65535", *port)
		}
		t, c, err := e.Open(ctx, ".")
		if err != nil {
			return err
		}
		defer c.Close()
		state, err := e.Paths().State(t.Root)
		if err != nil {
			return err
		}
		l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: *port})
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		defer l.Close()
		g := newGuard(l.Addr().(*net.TCPAddr))
		// A process whose working directory is in the project would prevent unmounting it.
		if err := os.Chdir("/"); err != nil {
			return fmt.Errorf("leave the project: %w", err)
		}
		// The pages' event streams use this context. When it is cancelled, each stream sends the
		// reason that was passed to live.end.
		serving, stop := context.WithCancel(context.WithoutCancel(ctx))
		defer stop()
		s, err := newServer(serving, e, t, c, g, state)
		if err != nil {
			return err
		}
		defer os.Remove(openFile(state, g))
		srv := &http.Server{Handler: g.wrap(s.routes()), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10,
			BaseContext: func(net.Listener) context.Context { return serving }}
		served := make(chan error, 1) // never closed: it gets one value
		go func() { served <- srv.Serve(l) }()
		fmt.Fprintf(e.Stdout, "%s\n", g.first())
		if note := openNote(e, g, state, *noOpen); note != "" {
			fmt.Fprintln(e.Stderr, note)
		}
		for {
			select {
			case err := <-served:
				return fmt.Errorf("serve: %w", err)
			case <-time.After(goneEvery):
				err := s.checkExists()
				if err == nil {
					continue
				}
				fmt.Fprintln(e.Stderr, cli.OneLine(err.Error()))
				s.live.end(err.Error() + ": cachebro ui has ended")
			case <-ctx.Done():
				s.live.end("cachebro ui was ended; start it again and open the new address")
			}
			stop() // ends the streams
			end, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			if err := srv.Shutdown(end); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			return nil
		}
	})
}

// goneEvery is how often the process checks whether its project still exists.
const goneEvery = 10 * time.Second

// openNote opens the browser, if there is one, and returns a note on what to do next.
func openNote(e *cli.Env, g *guard, state string, not bool) string {
	const end = "^C ends it"
	if ok, _ := e.Terminal(); not || !ok {
		return ""
	}
	opener := ""
	switch {
	case e.Getenv("SSH_CONNECTION") != "":
		return fmt.Sprintf("over SSH: ssh -L %s:%s … forwards the port to your machine; %s", portOf(g), g.hosts[0], end)
	case runtime.GOOS == "darwin":
		opener = "open"
	case e.Getenv("DISPLAY") != "" || e.Getenv("WAYLAND_DISPLAY") != "":
		opener = "xdg-open"
	}
	path, err := exec.LookPath(opener)
	if opener == "" || err != nil {
		return "open the address in a browser; " + end
	}
	// Every user can read the arguments of a process, so the token is passed in a file.
	file := openFile(state, g)
	page := "<!doctype html><title>cachebro</title><meta http-equiv=refresh content=\"0; url=" + html.EscapeString(g.first()) + "\">\n"
	_ = os.Remove(file)
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		return "open the address in a browser; " + end
	}
	cmd := exec.Command(path, file)
	cmd.Env = e.Vars
	if err := cmd.Start(); err != nil {
		return "open the address in a browser; " + end
	}
	go func() { _ = cmd.Wait() }()
	return end
}

// openFile returns the file that the browser opens. It is removed when the process
// ends.
func openFile(state string, g *guard) string {
	return filepath.Join(state, "ui-"+portOf(g)+".html")
}

func portOf(g *guard) string {
	_, port, _ := net.SplitHostPort(g.hosts[0])
	return port
}
