package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cachebro/fusefs/mounts"
)

// binary is the cachebro built by TestMain, or $CACHEBRO_BIN.
var binary string

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == workerArg {
		workerMain()
		return
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	if binary = os.Getenv("CACHEBRO_BIN"); binary != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "cachebro-e2e-bin")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // some tests run it as another user
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binary = filepath.Join(dir, "cachebro")
	build := exec.Command("go", "build", "-o", binary, "cachebro/cmd/cachebro")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// project is a directory with its own cachebro state.
type project struct {
	t    *testing.T
	dir  string // the root; after a mount also the mountpoint (in place)
	base string // holds everything of this test
	env  []string
}

func newProject(t *testing.T, files map[string]string) *project {
	t.Helper()
	needFuse(t)
	// Not t.TempDir: its removal would walk into a mount that a failed test left. Our cleanup
	// unmounts first.
	base, err := os.MkdirTemp("", "cachebro-e2e")
	if err != nil {
		t.Fatal(err)
	}
	base, _ = filepath.EvalSymlinks(base)
	p := &project{t: t, base: base, dir: filepath.Join(base, "project")}
	for _, d := range []string{p.dir, filepath.Join(base, "state"), filepath.Join(base, "home")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run := filepath.Join(base, "run")
	if err := os.MkdirAll(run, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "XDG_") || strings.HasPrefix(name, "CACHEBRO_") || strings.HasPrefix(name, "CLAUDE") {
			continue
		}
		p.env = append(p.env, kv)
	}
	p.env = append(p.env, "XDG_STATE_HOME="+filepath.Join(base, "state"), "XDG_RUNTIME_DIR="+run,
		"HOME="+filepath.Join(base, "home"), "GOCACHE="+goEnv("GOCACHE"), "GOMODCACHE="+goEnv("GOMODCACHE"), "NO_COLOR=1")
	for name, text := range files {
		p.write(name, text)
	}
	t.Cleanup(p.cleanup)
	return p
}

func needFuse(t *testing.T) {
	t.Helper()
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err == nil {
		f.Close()
		return
	}
	if os.Getenv("CACHEBRO_NEED_FUSE") == "1" {
		t.Fatal("CACHEBRO_NEED_FUSE=1 and /dev/fuse cannot be opened")
	}
	t.Skip("no /dev/fuse")
}

func goEnv(name string) string {
	out, _ := exec.Command("go", "env", name).Output()
	return strings.TrimSpace(string(out))
}

// cleanup unmounts, stops the daemon and checks that nothing is left.
func (p *project) cleanup() {
	if mounted(p.dir) {
		out, err := p.try("umount", p.dir)
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == 3 { // another program's mount namespace has a copy
			out, err = p.try("umount", "--force", p.dir)
		}
		if err != nil {
			p.t.Errorf("umount: %v\n%s", err, out)
			detach(p.dir)
		}
	}
	if p.t.Failed() {
		p.dumpLogs()
	}
	deadline := time.Now().Add(time.Minute)
	for {
		left := p.processes()
		if len(left) == 0 {
			break
		}
		for _, pid := range left { // the store daemon outlives the mount on purpose
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
		if time.Now().After(deadline) {
			for _, pid := range left {
				args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				p.t.Errorf("process %d is left: %s", pid, bytes.ReplaceAll(args, []byte{0}, []byte{' '}))
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err := os.RemoveAll(p.base); err != nil {
		p.t.Errorf("remove: %v", err)
	}
}

func (p *project) dumpLogs() {
	logs, _ := filepath.Glob(filepath.Join(p.base, "state/cachebro/*/*.log"))
	for _, name := range logs {
		text, _ := os.ReadFile(name)
		if len(text) > 8000 {
			text = text[len(text)-8000:]
		}
		p.t.Logf("%s:\n%s", filepath.Base(name), text)
	}
}

// processes lists the cachebro processes of this project, which have its runtime directory in
// their environment.
func (p *project) processes() []int {
	mark := []byte("XDG_RUNTIME_DIR=" + filepath.Join(p.base, "run"))
	var pids []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		exe, err := os.Readlink(d + "/exe")
		if err != nil || !strings.HasPrefix(exe, binary) {
			continue
		}
		env, _ := os.ReadFile(d + "/environ")
		if bytes.Contains(env, mark) {
			pid, _ := strconv.Atoi(filepath.Base(d))
			pids = append(pids, pid)
		}
	}
	return pids
}

// process returns the pid of the only process of a sub-command.
func (p *project) process(sub string) int {
	p.t.Helper()
	for _, pid := range p.processes() {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if f := bytes.Split(args, []byte{0}); len(f) > 1 && string(f[1]) == sub {
			return pid
		}
	}
	p.t.Fatalf("no %s process is running", sub)
	return 0
}

func mounted(dir string) bool {
	all, _ := mounts.Overlays()
	return slices.ContainsFunc(all, func(m mounts.Mount) bool { return m.Point == dir })
}

func (p *project) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Dir = p.base
	cmd.Env = p.env
	return cmd
}

func (p *project) try(args ...string) (string, error) {
	out, err := p.command(args...).CombinedOutput()
	return string(out), err
}

// cb runs cachebro, fails the test if it fails, and returns its stdout.
func (p *project) cb(args ...string) string {
	p.t.Helper()
	cmd := p.command(args...)
	var errText bytes.Buffer
	cmd.Stderr = &errText
	out, err := cmd.Output()
	if err != nil {
		p.t.Fatalf("cachebro %q: %v\n%s%s", args, err, out, errText.String())
	}
	return string(out)
}

// refuse runs cachebro, which must fail with the given exit status, and returns its stderr.
func (p *project) refuse(code int, args ...string) string {
	p.t.Helper()
	cmd := p.command(args...)
	var errText bytes.Buffer
	cmd.Stderr = &errText
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != code {
		p.t.Fatalf("cachebro %q: %v, want exit code %d\n%s", args, err, code, errText.String())
	}
	return errText.String()
}

func (p *project) mount(args ...string) {
	p.t.Helper()
	p.cb(append([]string{"mount", p.dir}, args...)...)
	if !mounted(p.dir) {
		p.t.Fatal("mount returned and nothing is mounted")
	}
}

func (p *project) path(name string) string { return filepath.Join(p.dir, name) }

func (p *project) write(name, text string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(p.path(name)), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(p.path(name), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// sh runs a shell command inside the project.
func (p *project) sh(script string) string {
	p.t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = p.dir
	cmd.Env = p.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// entry is one line of `log --json`.
type entry struct {
	Seq     uint64 `json:"seq"`
	Path    string `json:"path"`
	Path64  string `json:"path_base64"`
	From    string `json:"from"`
	Op      string `json:"op"`
	Hash    string `json:"hash"`
	Target  string `json:"target"`
	Deleted bool   `json:"deleted"`
	Size    int64  `json:"size"`
	Mode    uint32 `json:"mode"`
	Actor   struct {
		PID     uint32 `json:"pid"`
		Comm    string `json:"comm"`
		Session string `json:"session"`
	} `json:"actor"`
	NoContent string `json:"no_content"`
}

func (e entry) name() string {
	if e.Path64 != "" {
		raw, _ := base64.StdEncoding.DecodeString(e.Path64)
		return string(raw)
	}
	return e.Path
}

// log returns the history of a path, oldest first; "" is everything.
func (p *project) log(path string, more ...string) []entry {
	p.t.Helper()
	args := []string{"log", "--json", "--limit", "100000"}
	args = append(args, more...)
	if path != "" {
		args = append(args, "--", p.path(path))
	} else {
		args = append(args, "--", p.dir)
	}
	var entries []entry
	dec := json.NewDecoder(strings.NewReader(p.cb(args...)))
	for dec.More() {
		var e entry
		if err := dec.Decode(&e); err != nil {
			p.t.Fatalf("log --json: %v", err)
		}
		entries = append(entries, e)
	}
	for i, j := 0, len(entries)-1; i < j; i, j = i+1, j-1 {
		entries[i], entries[j] = entries[j], entries[i]
	}
	return entries
}

// contents returns the contents of a path's versions, oldest first.
func (p *project) contents(path string) []string {
	p.t.Helper()
	var texts []string
	for _, e := range p.log(path, "--baselines") {
		if e.Hash != "" && e.name() == path {
			texts = append(texts, p.cb("show", "#"+strconv.FormatUint(e.Seq, 10), "--dir", p.dir))
		}
	}
	return texts
}

// wantContents checks that the wanted contents are in the history in order. Other contents
// (captured while the file was idle) may be between them.
func (p *project) wantContents(path string, want ...string) {
	p.t.Helper()
	got := p.contents(path)
	i := 0
	for _, text := range got {
		if i < len(want) && text == want[i] {
			i++
		}
	}
	if i < len(want) {
		p.t.Errorf("%q: version %d of %d is missing: %s\nhistory: %s", path, i+1, len(want), brief(want[i]), briefAll(got))
	}
}

func brief(s string) string {
	if len(s) > 60 {
		return fmt.Sprintf("%q… (%d bytes)", s[:60], len(s))
	}
	return strconv.Quote(s)
}

func briefAll(texts []string) string {
	var b strings.Builder
	for _, s := range texts {
		b.WriteString("\n  " + brief(s))
	}
	return b.String()
}

func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", limit, what)
		}
	}
}
