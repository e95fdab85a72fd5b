//go:build linux && (amd64 || arm64)

package outside

import (
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"cachebro/store/leaf/event"
	"cachebro/store/wire"
)

// TestNoRecorderWithoutNeed: a recorder is started by the first call that needs a record. That call
// is recorded as well, although another process has received it.
func TestNoRecorderWithoutNeed(t *testing.T) {
	for _, c := range []struct {
		name, script string
		recorded     told // nil if no recorder is needed
	}{
		{"nothing", ":", nil},
		{"a lock of git, as git status makes it", `: >/dev/null; set -C; : >.git/index.lock; rm "$PWD/.git/index.lock"`, nil},
		{"no lock", ": >/dev/null; rm .git/index.lock", nil},
		{"a file", ": >/dev/null; rm file", told{{event.OpUnlink, "file by nobody"}}},
		{"a name like a lock's in another directory", "set -C; : >linked/.git/x.lock", told{{event.OpCreate, "x.lock by nobody"}}},
		{"a lock with another name", "rm .git/two.lock", told{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			p := &place{t: t, dir: filepath.Join(home, "work"), root: wire.OutsideRoot, paths: wire.Paths{Home: home, StateHome: filepath.Join(home, "state"), RuntimeDir: filepath.Join(home, "run")}}
			for _, dir := range []string{"work/.git", "work/linked", "work/data"} {
				if err := os.MkdirAll(filepath.Join(home, dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			p.write("file", "what it was")
			p.write(".git/two.lock", "with two names")
			if err := os.Link(p.path(".git/two.lock"), p.path("two")); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("../data", p.path("linked/.git")); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			started := false
			cmd := exec.Command("sh", "-c", c.script)
			cmd.Dir = p.dir
			w, failed, err := Begin(Runner{
				Paths: p.paths, First: func() {}, Gap: func() { t.Error("a recorder has died") }, Trouble: func(err error) { t.Error(err) },
				Start: func() error { started = true; return p.serve(ended) },
			}, cmd.Start)
			if err != nil || failed != nil {
				t.Fatal(err, failed)
			}
			_ = cmd.Wait()
			if unseen, err := w.End("/proc/self/exe"); unseen > 0 || err != nil {
				t.Errorf("%d calls were not looked at: %v", unseen, err)
			}
			if started != (c.recorded != nil) {
				t.Fatalf("a recorder was started: %v", started)
			}
			if !started {
				return
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if changes, _ := p.told(); !slices.Equal(changes, c.recorded) {
				t.Errorf("recorded %v, want %v", changes, c.recorded)
			}
		})
	}
}

// serve begins a recorder, which ends by itself.
func (p *place) serve(ended chan<- error) error {
	socket, err := p.paths.NetSocket()
	if err != nil {
		return err
	}
	r, err := New(Options{Paths: p.paths, Places: NewPlaces(p.paths.Home, func(string) string { return "" }), Logger: slog.New(slog.DiscardHandler), OnRecord: func(string) {}})
	if err != nil {
		return err
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: socket, Net: "unixpacket"})
	if err != nil {
		return err
	}
	go func() { ended <- Serve(r, l) }()
	return nil
}
