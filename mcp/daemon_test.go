package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cachebro/cmd/cachebro/daemon"
	"cachebro/store/wire"
)

// TestMain also runs this binary as the store daemon of the tests below. The daemon is a process of
// its own, as in reality, so that it can be killed.
func TestMain(m *testing.M) {
	if root := os.Getenv("CACHEBRO_TEST_DAEMON"); root != "" {
		base := os.Getenv("CACHEBRO_TEST_BASE")
		err := daemon.Run(context.Background(), daemon.Options{Root: root, Paths: testPaths(base), Version: "test"})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func testPaths(base string) wire.Paths {
	return wire.Paths{RuntimeDir: filepath.Join(base, "run"), StateHome: filepath.Join(base, "state"), TempDir: base}
}

// live is a project with a store daemon.
type live struct {
	t    testing.TB
	dir  string
	base string
	cmd  *exec.Cmd
}

func liveProject(t testing.TB, fs files) *live {
	t.Helper()
	base, err := os.MkdirTemp("", "cachebro-mcp") // short, because it contains sockets
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(base, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	l := &live{t: t, dir: project(t, fs), base: base}
	l.start()
	t.Cleanup(func() {
		l.stop(syscall.SIGTERM)
		if t.Failed() {
			if log, err := filepath.Glob(base + "/state/cachebro/*/daemon.log"); err == nil && len(log) > 0 {
				t.Logf("daemon: %s", read(t, log[0]))
			}
		}
		os.RemoveAll(base)
	})
	return l
}

func (l *live) start() {
	l.t.Helper()
	l.cmd = exec.Command(os.Args[0])
	l.cmd.Env = append(os.Environ(), "CACHEBRO_TEST_DAEMON="+l.dir, "CACHEBRO_TEST_BASE="+l.base)
	l.cmd.Stderr = os.Stderr
	if err := l.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	for range 200 {
		if c, err := l.dial(context.Background()); err == nil {
			_ = c.(*wire.Client).Close()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	l.t.Fatal("the daemon does not answer")
}

func (l *live) stop(sig syscall.Signal) {
	_ = l.cmd.Process.Signal(sig)
	_ = l.cmd.Wait()
}

func (l *live) dial(ctx context.Context) (Caller, error) {
	c, err := wire.Dial(ctx, testPaths(l.base), wire.Hello{Version: "test", Client: "mcp", Root: l.dir}, wire.Timeouts{})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// connect opens a new connection that has this profile and counts as a reader.
func (l *live) connect(profile string) *peer {
	return connect(l.t, Options{Root: l.dir, Profile: profile, Reader: ReaderConnection, Small: 1 << 30, Dial: l.dial})
}

func numbered(n int, word string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s %d: some text that is long enough to be worth a stub\n", word, i+1)
	}
	return b.String()
}

func at(path string) map[string]any { return map[string]any{"path": path} }

func has(t *testing.T, got, want string) {
	t.Helper()
	if !strings.HasPrefix(got, want) {
		t.Errorf("got %.120q, want it to begin with %q", got, want)
	}
}

// patched applies a unified diff with the real patch(1).
func patched(t *testing.T, base, hunks string) string {
	t.Helper()
	f := filepath.Join(t.TempDir(), "f")
	write(t, f, base)
	cmd := exec.Command("patch", "-s", "--no-backup-if-mismatch", f)
	cmd.Stdin = strings.NewReader(hunks)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("patch: %v\n%s\n%s", err, out, hunks)
	}
	return read(t, f)
}

func TestReadDecision(t *testing.T) {
	text := numbered(245, "line")
	l := liveProject(t, files{"a.txt": text, "part.txt": numbered(200, "part"), "bin": "\x00\x01", "empty": "", "tiny": "x\n"})
	p := l.connect(ProfileDefault)
	if got := p.ok("read_file", at("a.txt")); got != text {
		t.Fatalf("first read: %.100q", got)
	}
	has(t, p.ok("read_file", at("a.txt")), "[unchanged · 245 lines · ~")
	if got := p.ok("read_file", at("a.txt")); got != text {
		t.Errorf("asked twice: %.100q", got)
	}
	now := strings.Replace(text, "line 50: some", "line 50: other", 1)
	write(t, l.dir+"/a.txt", now)
	got := p.ok("read_file", at("a.txt"))
	label, hunks, _ := strings.Cut(got, "\n")
	if label != "[changed · +1 -1 since your read · 245 -> 245 lines]" || patched(t, text, hunks) != now {
		t.Errorf("diff: %s", got)
	}
	has(t, p.ok("read_file", map[string]any{"path": "a.txt", "offset": 100, "limit": 11}), "[unchanged · lines 100-110 of 245 · ~")
	// Nothing was shown to any other reader.
	if got := l.connect(ProfileDefault).ok("read_file", at("a.txt")); got != now {
		t.Errorf("another connection: %.100q", got)
	}
	// A partial read shows nothing of the rest.
	part := numbered(200, "part")
	if got := p.ok("read_file", map[string]any{"path": "part.txt", "offset": 50, "limit": 11}); got != strings.Join(strings.SplitAfter(part, "\n")[49:60], "") {
		t.Errorf("range: %q", got)
	}
	if got := p.ok("read_file", at("part.txt")); got != part {
		t.Errorf("full after partial: %.100q", got)
	}
	// A stub that would not be smaller than the text is not sent.
	for range 2 {
		if got := p.ok("read_file", at("tiny")); got != "x\n" {
			t.Errorf("tiny: %q", got)
		}
	}
	if err := os.Symlink("gone", filepath.Join(l.dir, "link")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"bin": "is binary", "gone": "no such file", ".": "is a directory", "link": "link is a symlink whose target does not exist"} {
		if got := p.bad("read_file", at(path)); !strings.Contains(got, want) {
			t.Errorf("%s: %q", path, got)
		}
	}
	if got := p.ok("read_file", at("empty")); got != "" {
		t.Errorf("empty: %q", got)
	}
	has(t, p.ok("read_file", map[string]any{"path": "a.txt", "force": true}), "line 1: ")
}

// A reader that cannot be identified has seen nothing. A text whose delivery no hook confirms does not
// count as seen either.
func TestUnknownReaders(t *testing.T) {
	text := numbered(100, "line")
	l := liveProject(t, files{"a.txt": text})
	unknown := connect(t, Options{Root: l.dir, Dial: l.dial})
	for range 3 {
		if got := unknown.ok("read_file", at("a.txt")); got != text {
			t.Errorf("unknown reader: %.100q", got)
		}
	}
	p := l.connect(ProfileDefault)
	for i := range 3 {
		r := p.toolMeta("read_file", at("a.txt"), map[string]any{toolUseKey: fmt.Sprintf("toolu_%d", i)})
		if r.Content[0].Text != text {
			t.Errorf("call with a tool-use id: %.100q", r.Content[0].Text)
		}
	}
	// Those calls showed nothing to the connection itself.
	if got := p.ok("read_file", at("a.txt")); got != text {
		t.Errorf("connection: %.100q", got)
	}
}

func TestEditHistoryRevert(t *testing.T) {
	text := numbered(100, "line")
	l := liveProject(t, files{"src/a.txt": text})
	if err := os.Chmod(l.dir+"/src/a.txt", 0o755); err != nil {
		t.Fatal(err)
	}
	p := l.connect(ProfileAll)
	p.ok("read_file", at("src/a.txt"))
	said := p.ok("edit_file", map[string]any{"path": "src/a.txt", "old_string": "line 7: some", "new_string": "line 7: other"})
	if said != "edited src/a.txt at line 7 · 100 -> 100 lines" {
		t.Errorf("edit says %q", said)
	}
	now := strings.Replace(text, "line 7: some", "line 7: other", 1)
	// The agent supplied the new line and had seen the other lines.
	if got := p.ok("read_file", at("src/a.txt")); got == now {
		t.Errorf("after its own edit the whole file was sent again")
	} else if !strings.HasPrefix(got, "[unchanged") && !strings.HasPrefix(got, "[changed") {
		t.Errorf("after its own edit: %.100q", got)
	}
	log := p.ok("search_history", map[string]any{"path_filter": "src"})
	if !strings.Contains(log, "src/a.txt") || !strings.Contains(log, "cachebro") || strings.Contains(log, "outside") {
		t.Errorf("history: %q", log)
	}
	set := p.ok("get_working_set", nil)
	has(t, set, "M src/a.txt (1 edit)")
	p.ok("revert_file", at("src/a.txt"))
	if read(t, l.dir+"/src/a.txt") != text {
		t.Error("reverted content differs")
	}
	if fi, _ := os.Stat(l.dir + "/src/a.txt"); fi.Mode().Perm() != 0o755 {
		t.Errorf("mode %v", fi.Mode())
	}
	// A revert is a version too, so the content before the revert can be restored by its number. A
	// step back counts from the version that the revert restored. That was the first version, so
	// there is no earlier one.
	if said := p.bad("revert_file", at("src/a.txt")); !strings.Contains(said, "that many steps back") {
		t.Errorf("a step further back: %q", said)
	}
	p.ok("revert_file", map[string]any{"path": "src/a.txt", "version": "@-1"})
	if read(t, l.dir+"/src/a.txt") != now {
		t.Error("reverting the revert does not bring the edit back")
	}
	if err := os.Remove(l.dir + "/src/a.txt"); err != nil {
		t.Fatal(err)
	}
	p.ok("revert_file", map[string]any{"path": "src/a.txt", "version": "@-1"})
	if got := read(t, l.dir+"/src/a.txt"); got != now && got != text {
		t.Errorf("a deleted file came back as %.100q", got)
	}
	if got := p.bad("revert_file", map[string]any{"path": "never.txt"}); !strings.Contains(got, "hint: ") {
		t.Errorf("revert of an unknown file: %q", got)
	}
}

func TestStatusAndMetrics(t *testing.T) {
	l := liveProject(t, files{"a.txt": numbered(300, "line")})
	p := l.connect(ProfileAll)
	p.ok("read_file", at("a.txt"))
	p.ok("read_file", at("a.txt"))
	st := p.tool("cache_status", nil)
	if st.IsError || st.Structured["mounted"] != false || !strings.Contains(st.Content[0].Text, "not mounted") {
		t.Errorf("status: %+v", st)
	}
	m := p.tool("get_delta_metrics", nil)
	if saved, _ := m.Structured["saved_tokens"].(float64); saved < 1000 || !strings.Contains(m.Content[0].Text, "1 unchanged") {
		t.Errorf("metrics: %+v", m)
	}
	if m = p.tool("get_delta_metrics", nil); m.Structured["full_tokens"] != 0.0 {
		t.Errorf("not reset: %+v", m)
	}
	if got := p.ok("summarize_session", nil); !strings.Contains(got, "a.txt") {
		t.Errorf("summary: %q", got)
	}
	if got := p.ok("git_lost", nil); got != "no lost commits, branches or stashes are known" {
		t.Errorf("git_lost: %q", got)
	}
	p.ok("cache_clear", nil)
	if got := p.ok("read_file", at("a.txt")); got != numbered(300, "line") {
		t.Errorf("after cache_clear: %.100q", got)
	}
	for uri, want := range map[string]string{"cachebro://status": "tokens saved", "cachebro://working-set": "a.txt", "cachebro://metrics": "read_file", "cachebro://history/a.txt": "a.txt"} {
		r := p.call("resources/read", map[string]any{"uri": uri})
		if r.Error != nil || !strings.Contains(string(r.Result), want) {
			t.Errorf("%s: %s %+v", uri, r.Result, r.Error)
		}
	}
}

// After cache_clear, a read of one line used to make the next read of the whole file "unchanged",
// although the reader had lost the other lines.
func TestClearedTextIsNotUnchanged(t *testing.T) {
	l := liveProject(t, files{"a.txt": numbered(300, "line")})
	p := l.connect(ProfileAll)
	has(t, p.ok("read_file", at("a.txt")), "line 1:")
	p.ok("cache_clear", nil)
	p.ok("read_file", map[string]any{"path": "a.txt", "limit": 1})
	if got := p.ok("read_file", at("a.txt")); got != numbered(300, "line") {
		t.Errorf("after cache_clear and a read of one line: %.100q", got)
	}
}

// The text of an absolute symlink used to count as shown under the name of its target, so a reader
// that had never read the target was told that it had not changed.
func TestReadOfAbsoluteLinkIsNoReadOfItsTarget(t *testing.T) {
	l := liveProject(t, files{"a.txt": numbered(300, "line")})
	if err := os.Symlink(l.dir+"/a.txt", l.dir+"/link"); err != nil {
		t.Fatal(err)
	}
	p := l.connect(ProfileAll)
	for _, path := range []string{"link", "a.txt", "link"} {
		if got := p.ok("read_file", at(path)); got != numbered(300, "line") {
			t.Errorf("first read of %s: %.100q", path, got)
		}
	}
	has(t, p.ok("read_file", at("a.txt")), "[unchanged")
}

// A client may cut a result of more than 8 KiB. So the texts of read_files must not count as shown if
// they are larger together, and neither must a large listing.
func TestLargeResultIsNotShown(t *testing.T) {
	fs := files{}
	for i := range 200 {
		fs[fmt.Sprintf("dir/a-file-with-a-very-long-name-that-fills-the-listing-%d.txt", i)] = numbered(90, "line")
	}
	l := liveProject(t, fs)
	p := connect(t, Options{Root: l.dir, Profile: ProfileAll, Reader: ReaderConnection, Dial: l.dial})
	names := slices.Sorted(maps.Keys(fs))[:4]
	p.ok("read_files", map[string]any{"paths": names})
	for _, name := range names {
		if got := p.ok("read_file", at(name)); got != fs[name] {
			t.Errorf("%s after read_files: %.100q", name, got)
		}
		has(t, p.ok("read_file", at(name)), "[unchanged")
	}
	whole := p.ok("ls", at("dir"))
	if got := p.ok("ls", at("dir")); got != whole {
		t.Errorf("a second listing: %.100q", got)
	}
}

// Parts of a long line are sent without the daemon. A reader that was given them believes the text
// that they belong to, so the text before it is not "unchanged" when it comes back.
func TestPartsOfALongLineAreRemembered(t *testing.T) {
	before := numbered(100, "line")
	l := liveProject(t, files{"a.txt": before})
	p := l.connect(ProfileAll)
	has(t, p.ok("read_file", at("a.txt")), "line 1:")
	for _, text := range []string{strings.Repeat("a long line ", 20_000), before} {
		if err := os.WriteFile(l.dir+"/a.txt", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := p.ok("read_file", at("a.txt")); !strings.HasPrefix(text, got) {
			t.Errorf("the text %.20q is given as %.100q", text, got)
		}
	}
}

// A search in a symlink used to find nothing.
func TestSearchInSymlink(t *testing.T) {
	l := liveProject(t, files{"dir/a.txt": "the needle\n", "b.txt": "hay\n"})
	for link, to := range map[string]string{"rel": "dir", "abs": l.dir + "/dir", "file": "dir/a.txt"} {
		if err := os.Symlink(to, filepath.Join(l.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	p := l.connect(ProfileAll)
	for _, path := range []string{"rel", "abs", "file", l.dir + "/rel"} {
		if got := p.ok("search", map[string]any{"pattern": "needle", "path": path}); !strings.Contains(got, "dir/a.txt:1: the needle") {
			t.Errorf("in %s: %q", path, got)
		}
	}
}

// A recursive listing of a directory that git ignores used to say that it is empty.
func TestListingOfIgnoredDirectory(t *testing.T) {
	l := liveProject(t, files{".gitignore": "node_modules/\nbuild/\n", "node_modules/x/index.js": "x\n", "build/o.txt": "o\n", "a.txt": "a\n"})
	gitIn(t, l.dir, "init", "-q")
	if err := os.MkdirAll(l.dir+"/none/below", 0o755); err != nil {
		t.Fatal(err)
	}
	p := l.connect(ProfileAll)
	for path, want := range map[string]string{"node_modules": "x/index.js\n", "build": "o.txt\n", ".": ".gitignore\na.txt\n", "none": "none contains no files"} {
		if got := p.ok("ls", at(path)); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// growingCaller lets a file grow before the daemon reads a page of it.
type growingCaller struct {
	Caller
	grow func()
}

func (c growingCaller) Call(ctx context.Context, method string, params any, body []byte, result any) ([]byte, error) {
	if q, ok := params.(wire.ReadRequest); ok && q.Limit > 0 {
		c.grow()
	}
	return c.Caller.Call(ctx, method, params, body, result)
}

// The note after a page used to give the number of lines that the file had when it was measured, not
// when the page was read.
func TestPageOfGrowingFile(t *testing.T) {
	l := liveProject(t, files{"a.txt": numbered(5000, "line")})
	p := connect(t, Options{Root: l.dir, Profile: ProfileAll, Reader: ReaderConnection, Dial: func(ctx context.Context) (Caller, error) {
		c, err := l.dial(ctx)
		return growingCaller{c, func() {
			if err := os.WriteFile(l.dir+"/a.txt", []byte(numbered(6000, "line")), 0o644); err != nil {
				t.Error(err)
			}
		}}, err
	}})
	r := p.tool("read_file", at("a.txt"))
	if len(r.Content) != 2 || !strings.Contains(r.Content[1].Text, " of 6000. next: ") {
		t.Errorf("notes: %+v", r.Content[1:])
	}
}

// lateCaller is a connection to the daemon whose answers to reads arrive when the caller has given up.
type lateCaller struct {
	Caller
	answered chan struct{}
}

func (c lateCaller) Call(ctx context.Context, method string, params any, body []byte, result any) ([]byte, error) {
	if method != wire.MRead {
		return c.Caller.Call(ctx, method, params, body, result)
	}
	out, err := c.Caller.Call(context.WithoutCancel(ctx), method, params, body, result)
	select {
	case c.answered <- struct{}{}:
		<-ctx.Done()
	default:
	}
	return out, err
}

// If a client cancelled a read when the daemon had already recorded the text as shown, the next read
// used to be answered by "unchanged".
func TestCancelledTextIsNotUnchanged(t *testing.T) {
	l := liveProject(t, files{"a.txt": numbered(100, "line")})
	answered := make(chan struct{})
	p := connect(t, Options{Root: l.dir, Profile: ProfileAll, Reader: ReaderConnection, Dial: func(ctx context.Context) (Caller, error) {
		c, err := l.dial(ctx)
		return lateCaller{c, answered}, err
	}})
	p.send(map[string]any{"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": map[string]any{"name": "read_file", "arguments": at("a.txt")}})
	<-answered
	p.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": map[string]any{"requestId": 77}})
	if got := p.ok("read_file", at("a.txt")); got != numbered(100, "line") {
		t.Errorf("after a cancelled read: %.100q", got)
	}
}

func TestListings(t *testing.T) {
	fs := files{}
	for i := range 60 {
		fs[fmt.Sprintf("src/package%d/file.go", i)] = "package x\n"
	}
	l := liveProject(t, fs)
	p := l.connect(ProfileAll)
	full := p.ok("ls", nil)
	if strings.Count(full, "\n") != 60 {
		t.Fatalf("listing: %q", full)
	}
	has(t, p.ok("ls", nil), "[unchanged · 60 items · ~")
	write(t, l.dir+"/src/new.go", "x\n")
	if err := os.Remove(l.dir + "/src/package7/file.go"); err != nil {
		t.Fatal(err)
	}
	got := p.ok("ls", nil)
	if !strings.Contains(got, "+src/new.go") || !strings.Contains(got, "-src/package7/file.go") || len(got) > len(full)/2 {
		t.Errorf("tree diff: %q", got)
	}
	if got := p.ok("ls", map[string]any{"path": "src", "recursive": false}); !strings.Contains(got, "new.go") || !strings.Contains(got, "package0/") {
		t.Errorf("plain listing: %q", got)
	}
	if got := l.connect(ProfileAll).ok("ls", nil); strings.Count(got, "\n") != 60 || strings.HasPrefix(got, "[") {
		t.Errorf("another connection: %.100q", got)
	}
}

func TestSubscription(t *testing.T) {
	l := liveProject(t, files{"a.txt": "x\n"})
	p := l.connect(ProfileAll)
	if m := p.call("resources/subscribe", map[string]any{"uri": "cachebro://history/a.txt"}); m.Error != nil {
		t.Fatalf("%+v", m.Error)
	}
	time.Sleep(watchEvery + 500*time.Millisecond)
	p.ok("write_file", map[string]any{"path": "a.txt", "content": "y\n"})
	n := p.note("notifications/resources/updated")
	if !strings.Contains(string(n.Params), "cachebro://history/a.txt") {
		t.Errorf("%s", n.Params)
	}
}

// The daemon may die at any moment. No read or edit fails because of that, and a new daemon does
// not claim anything false.
func TestDaemonKilled(t *testing.T) {
	text := numbered(100, "line")
	l := liveProject(t, files{"a.txt": text})
	p := l.connect(ProfileAll)
	p.ok("read_file", at("a.txt"))
	l.stop(syscall.SIGKILL)
	for range 3 {
		if got := p.ok("read_file", at("a.txt")); got != text {
			t.Errorf("without a daemon: %.100q", got)
		}
	}
	now := strings.Replace(text, "line 9:", "line nine:", 1)
	p.ok("edit_file", map[string]any{"path": "a.txt", "old_string": "line 9:", "new_string": "line nine:"})
	l.start()
	deadline := time.Now().Add(retryAfter + 10*time.Second)
	for time.Now().Before(deadline) {
		got := p.ok("read_file", at("a.txt"))
		if strings.HasPrefix(got, "[unchanged") {
			return
		}
		// A diff from what the reader was shown before the crash is also right.
		if _, hunks, _ := strings.Cut(got, "\n"); strings.HasPrefix(got, "[changed") {
			if patched(t, text, hunks) != now {
				t.Fatalf("false diff: %q", got)
			}
		} else if got != now {
			t.Fatalf("read %.100q", got)
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Error("no stub again after the restart")
}

func TestUndo(t *testing.T) {
	l := liveProject(t, files{"a.txt": "a\n", "b.txt": "b\n"})
	c, err := l.dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Call(context.Background(), wire.MPlan, wire.PlanRequest{Kind: "undo", Last: true, DryRun: true}, nil, nil); errors.Is(err, wire.ErrUnsupported) {
		// If the daemon does not support plans, the tool must say so, in the daemon's words.
		if got := l.connect(ProfileAll).bad("undo", nil); !strings.Contains(got, err.Error()) {
			t.Errorf("undo: %q", got)
		}
		return
	}
	p := l.connect(ProfileAll)
	p.ok("edit_file", map[string]any{"path": "a.txt", "old_string": "a", "new_string": "A"})
	got := p.ok("undo", map[string]any{"since": "1h", "dry_run": true})
	has(t, got, "would undo")
	if read(t, l.dir+"/a.txt") != "A\n" {
		t.Error("a preview changed the file")
	}
	p.ok("undo", nil)
	if read(t, l.dir+"/a.txt") != "a\n" {
		t.Errorf("after undo: %q", read(t, l.dir+"/a.txt"))
	}
}

// Old versions are read and restored at moments that the history records. A reader of an old version
// does not count as having been shown the present file.
func TestPast(t *testing.T) {
	l := liveProject(t, files{"a.txt": numbered(20000, "old"), "b.txt": "b\n"})
	p := l.connect(ProfileAll)
	p.ok("read_file", map[string]any{"path": "b.txt"})
	p.ok("edit_file", map[string]any{"path": "b.txt", "old_string": "b", "new_string": "B"})
	past := func(args map[string]any) (text, notes string) {
		r := p.tool("read_file", args)
		for _, c := range r.Content[1:] {
			notes += c.Text
		}
		if r.IsError {
			t.Fatalf("%v: %s", args, r.Content[0].Text)
		}
		return r.Content[0].Text, notes
	}
	if text, notes := past(map[string]any{"path": "b.txt", "at": "@1"}); text != "b\n" || !strings.Contains(notes, "[version ") {
		t.Errorf("the first version: %q %q", text, notes)
	}
	first := p.ok("read_file", map[string]any{"path": "a.txt"})
	if err := os.WriteFile(l.dir+"/a.txt", []byte("new\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p.ok("read_file", map[string]any{"path": "a.txt", "force": true})
	text, notes := past(map[string]any{"path": "a.txt", "at": "@1"})
	if text != first {
		t.Errorf("%.50q of %d bytes, want %.50q of %d", text, len(text), first, len(first))
	}
	if !strings.Contains(notes, " at=") {
		t.Errorf("how to read on: %q", notes)
	}
	all := numbered(20000, "old")
	if text, _ := past(map[string]any{"path": "a.txt", "at": "@1", "offset": 19999}); text == "" || !strings.HasSuffix(all, text) || strings.Count(text, "\n") != 2 {
		t.Errorf("its end: %.200q", text)
	}
	if got := p.ok("read_file", map[string]any{"path": "a.txt"}); strings.HasPrefix(got, "[changed") {
		t.Errorf("a read of the past counted: %q", got)
	}
	for what, args := range map[string]map[string]any{
		"tomorrow": {"path": "b.txt", "at": "tomorrow"}, "far version": {"path": "b.txt", "at": "@99"}, "bare number": {"path": "b.txt", "at": "x1"},
		"outline": {"path": "b.txt", "at": "@1", "outline": true}, "unknown": {"path": "never", "at": "@1"}, "outside": {"path": "../b.txt", "at": "@1"},
	} {
		if got := p.bad("read_file", args); !strings.Contains(got, "hint: ") && what != "outside" {
			t.Errorf("%s: %q", what, got)
		}
	}
	if err := os.Remove(l.dir + "/b.txt"); err != nil {
		t.Fatal(err)
	}
	seq := notes[strings.LastIndex(notes, " at=")+4:]
	seq = seq[:strings.Index(seq, "]")]
	has(t, p.ok("restore", map[string]any{"at": seq}), "would restore")
	if _, err := os.Stat(l.dir + "/b.txt"); err == nil {
		t.Error("a preview changed the tree")
	}
	for range 2 {
		if got := p.ok("restore", map[string]any{"at": seq, "dry_run": false}); !strings.Contains(got, "redo reverses this") {
			t.Errorf("restore: %q", got)
		}
		has(t, p.ok("redo", map[string]any{"dry_run": false}), "redone")
		if _, err := os.Stat(l.dir + "/b.txt"); err == nil {
			t.Error("redo did not reverse the restore")
		}
	}
	p.ok("restore", map[string]any{"at": seq, "dry_run": false})
	if got := read(t, l.dir+"/a.txt"); got != all {
		t.Errorf("a.txt: %.50q", got)
	}
	if got := read(t, l.dir+"/b.txt"); got != "b\n" && got != "B\n" {
		t.Errorf("b.txt: %q", got)
	}
	if got := p.bad("restore", map[string]any{"at": seq}); !strings.Contains(got, "nothing to restore") {
		t.Errorf("again: %q", got)
	}
	if got := p.bad("restore", map[string]any{"at": "@1"}); !strings.Contains(got, "hint: ") {
		t.Errorf("a file's version: %q", got)
	}
}
