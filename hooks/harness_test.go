package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cachebro/store/wire"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares got with testdata/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s:\n--- got\n%s\n--- want\n%s", name, got, want)
	}
}

// asked is one request that reached the socket.
type asked struct {
	method string
	params json.RawMessage
	body   string
}

// project is a root with a state directory. After serve, it also has a server on its real socket
// that gives the test's answers.
type project struct {
	t     *testing.T
	root  string
	paths wire.Paths
	now   time.Time
	envs  map[string]string
	args  []string
	// patient makes hooks wait longer, so that none times out on a busy machine. hang sets it to
	// false.
	patient bool

	// mu guards log and accepted.
	mu       sync.Mutex
	log      []asked
	accepted int // number of connections since hang
}

const testVersion = "0.0.0-test"

func newProject(t *testing.T) *project {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// The path of a socket must be short, and the path of the test's own directory may be too long.
	run, err := os.MkdirTemp("", "hk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	p := &project{t: t, root: filepath.Join(dir, "proj"), now: time.Now(), patient: true,
		paths: wire.Paths{TempDir: run, StateHome: filepath.Join(dir, "state"), Home: dir}}
	if err := os.Mkdir(p.root, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := p.paths.MakeState(p.root); err != nil {
		t.Fatal(err)
	}
	p.envs = map[string]string{"CLAUDE_PROJECT_DIR": p.root, "AI_AGENT": "claude-code_2-1-197_harness"}
	return p
}

type answers map[string]func(r *wire.Request) (any, []byte, error)

func (p *project) serve(a answers) {
	p.t.Helper()
	state, err := p.paths.State(p.root)
	if err != nil {
		p.t.Fatal(err)
	}
	l, _, err := wire.Listen(p.paths, p.root, state)
	if err != nil {
		p.t.Fatal(err)
	}
	s := wire.NewServer(wire.ServerOptions{
		Hello: func(h wire.Hello, _ wire.Peer) (wire.HelloAnswer, error) {
			return wire.HelloAnswer{Version: h.Version, Root: h.Root}, nil
		},
		Handler: func(_ context.Context, r *wire.Request) (any, []byte, error) {
			p.mu.Lock()
			p.log = append(p.log, asked{r.Method, bytes.Clone(r.Params), string(r.Body)})
			p.mu.Unlock()
			if f := a[r.Method]; f != nil {
				return f(r)
			}
			return wire.Empty{}, nil, nil
		},
	})
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	p.t.Cleanup(func() {
		s.Close()
		if err := <-done; err != nil {
			p.t.Errorf("server: %v", err)
		}
	})
}

// hang listens and never answers, like a stopped daemon.
func (p *project) hang() {
	p.t.Helper()
	p.patient = false
	state, _ := p.paths.State(p.root)
	l, _, err := wire.Listen(p.paths, p.root, state)
	if err != nil {
		p.t.Fatal(err)
	}
	var conns []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns = append(conns, c)
			p.mu.Lock()
			p.accepted++
			p.mu.Unlock()
		}
	}()
	p.t.Cleanup(func() {
		l.Close()
		<-done
		for _, c := range conns {
			c.Close()
		}
	})
}

type result struct{ stdout string }

// run sends one event, in which PROJ stands for the root.
func (p *project) run(event string) result {
	p.t.Helper()
	var out bytes.Buffer
	event = strings.ReplaceAll(event, "PROJ", p.root)
	Run(context.Background(), p.env(event, &out))
	return result{out.String()}
}

func (p *project) env(input string, out io.Writer) Env {
	limits := wire.HookTimeouts
	if p.patient {
		limits = wire.Timeouts{Connect: time.Minute, Answer: time.Minute}
	}
	return Env{
		Stdin: strings.NewReader(input), Stdout: out, Args: p.args,
		Getenv: func(k string) string { return p.envs[k] },
		Now:    func() time.Time { return p.now },
		Dir:    "/", Paths: p.paths,
		Dial: func(ctx context.Context, root string) (*wire.Client, error) {
			return wire.Dial(ctx, p.paths, wire.Hello{Version: testVersion, Client: "hook", Root: root}, limits)
		},
		Limit: 2 * time.Minute,
	}
}

// methods lists the requested methods, in order.
func (p *project) methods() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for _, a := range p.log {
		names = append(names, a.method)
	}
	return strings.Join(names, " ")
}

// asked returns the newest request of a method, decoded into v, and its body.
func (p *project) asked(method string, v any) string {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.log) - 1; i >= 0; i-- {
		if p.log[i].method == method {
			if err := json.Unmarshal(p.log[i].params, v); err != nil {
				p.t.Fatal(err)
			}
			return p.log[i].body
		}
	}
	p.t.Fatalf("%s was not asked; only %v", method, p.log)
	return ""
}

func silent(t *testing.T, r result) {
	t.Helper()
	if r.stdout != "" {
		t.Errorf("stdout %q; want silence", r.stdout)
	}
}

func (p *project) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}
