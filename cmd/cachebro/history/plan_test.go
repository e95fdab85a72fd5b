package history

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/wire"
)

// An undo right after many renames used to wait half a minute for the log without a message. A
// later version printed a message, but only after the wait, because the request for the number in
// the message waited for the log too.
func TestWaitingIsSaid(t *testing.T) {
	dir, err := os.MkdirTemp("", "w") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	paths, root := wire.Paths{RuntimeDir: dir, StateHome: dir, Home: dir}, filepath.Join(dir, "project")
	state := filepath.Join(dir, "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	l, _, err := wire.Listen(paths, root, state)
	if err != nil {
		t.Fatal(err)
	}
	srv := wire.NewServer(wire.ServerOptions{
		Hello: func(h wire.Hello, _ wire.Peer) (wire.HelloAnswer, error) {
			return wire.HelloAnswer{Version: h.Version, Root: h.Root}, nil
		},
		Handler: func(ctx context.Context, r *wire.Request) (any, []byte, error) {
			if r.Method == wire.MStatus {
				return wire.Status{Store: wire.StoreState{Lag: 7}}, nil, nil
			}
			<-ctx.Done()
			return nil, nil, ctx.Err()
		},
	})
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(srv.Close)
	c, err := wire.Dial(t.Context(), paths, wire.Hello{Client: "cli", PID: os.Getpid(), Root: root}, wire.Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f := planFlags{merge: new(bool), force: new(bool), dryRun: new(bool)}
		_ = runPlanWith(ctx, &cli.Env{Stderr: w}, cli.Target{}, c, wire.PlanRequest{Kind: "undo"}, nil, f)
	}()
	said, err := bufio.NewReader(r).ReadString('\n')
	if want := "note: waiting until the history has stored about 7 records of newer changes\n"; err != nil || said != want {
		t.Errorf("%v: %q, want %q", err, said, want)
	}
	cancel()
	<-ended
}

// If a file cannot be moved, the list of failures shows its old and its new path. It used to show only
// the old path.
func TestFailedMoveNamesItsDestination(t *testing.T) {
	var b strings.Builder
	printFailures(&cli.Env{Stderr: &b}, []wire.Conflict{
		{Path: []byte("cache/x"), To: []byte("src/x.js"), Why: "is gone"},
		{Path: []byte("src/y.js"), Why: "is gone"},
	}, nil)
	if want := "not done: cache/x -> src/x.js: is gone\nnot done: src/y.js: is gone\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
