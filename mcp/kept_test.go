package mcp

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cachebro/store/wire"
)

func gitIn(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

// write_file used to write .git/config and hooks, which the next git command would run.
func TestNeverIntoGitDirectories(t *testing.T) {
	l := liveProject(t, files{"a.txt": "a\n", "sub/b.txt": "b\n"})
	gitIn(t, l.dir, "init", "-q")
	gitIn(t, l.dir, "init", "-q", "nested")
	gitIn(t, l.dir, "init", "-q", "--bare", "bare.git")
	gitIn(t, l.dir, "init", "-q", "--separate-git-dir", l.dir+"/apart", "tree")
	for link, to := range map[string]string{"link": ".git", "hooks": "bare.git/hooks", "conf": ".git/config"} {
		if err := os.Symlink(to, filepath.Join(l.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	config := read(t, l.dir+"/.git/config")
	p := l.connect(ProfileAll)
	for _, path := range []string{".git/config", ".git/hooks/post-checkout", "nested/.git/config", "tree/.git", "bare.git/config", "bare.git/hooks/update", "bare.git/new/deep", "apart/config",
		".GIT/config", "git~1/config", "sub/.git", "link/config", "link/hooks/x", "hooks/update", "conf", l.dir + "/.git/config", "sub//.git/config", "./.git/./config", "new/.git/config"} {
		for _, c := range []struct {
			tool string
			args map[string]any
		}{
			{"write_file", map[string]any{"path": path, "content": "[core]\n\tfsmonitor = evil\n"}},
			{"write_file", map[string]any{"path": path, "content": "x", "overwrite_unkept": true}},
			{"edit_file", map[string]any{"path": path, "old_string": "[core]", "new_string": "[evil]"}},
			{"revert_file", map[string]any{"path": path}},
		} {
			if text := p.bad(c.tool, c.args); c.tool != "revert_file" && !strings.Contains(text, "belongs to git") {
				t.Errorf("%s %s: %s", c.tool, path, text)
			}
		}
	}
	if read(t, l.dir+"/.git/config") != config {
		t.Error(".git/config was changed")
	}
	for _, gone := range []string{".git/hooks/post-checkout", "bare.git/hooks/update", ".GIT", "git~1", "sub/.git", "new", "bare.git/new"} {
		if _, err := os.Lstat(filepath.Join(l.dir, gone)); err == nil {
			t.Errorf("%s was made", gone)
		}
	}
	p.ok("write_file", map[string]any{"path": ".gitignore", "content": "x\n"})
	p.ok("write_file", map[string]any{"path": ".github/workflows/x.yml", "content": "x\n"})
}

// An excluded file used to be overwritten although nothing could restore it. An ignored file used
// to be overwritten without being saved if nothing was mounted.
func TestUnkeptIsNotOverwritten(t *testing.T) {
	l := liveProject(t, files{".gitignore": "*.ign\n", ".cachebroignore": "secret\n", "a.ign": "mine\n", "secret": "mine\n", "tracked": "mine\n"})
	gitIn(t, l.dir, "init", "-q")
	p := l.connect(ProfileAll)
	kept := func(path string) string {
		t.Helper()
		c, err := l.dial(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer c.(*wire.Client).Close()
		var log wire.LogAnswer
		if _, err := c.Call(t.Context(), wire.MLog, wire.LogQuery{Path: []byte(path), Baselines: true, Limit: 10}, nil, &log); err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, v := range log.Versions {
			out = append(out, fmt.Sprintf("%s %d", v.Op, v.Size))
		}
		return strings.Join(out, ", ")
	}
	for _, path := range []string{"a.ign", "tracked"} {
		p.ok("write_file", map[string]any{"path": path, "content": "the agent's\n"})
		if got := kept(path); !strings.Contains(got, "baseline 5") {
			t.Errorf("%s: %q", path, got)
		}
	}
	for tool, args := range map[string]map[string]any{
		"write_file": {"path": "secret", "content": "the agent's\n"},
		"edit_file":  {"path": "secret", "old_string": "mine", "new_string": "the agent's"},
	} {
		if text := p.bad(tool, args); !strings.Contains(text, "overwrite_unkept") || !strings.Contains(text, "excluded") {
			t.Errorf("%s: %s", tool, text)
		}
		if read(t, l.dir+"/secret") != "mine\n" {
			t.Fatalf("%s has written", tool)
		}
	}
	p.ok("edit_file", map[string]any{"path": "secret", "old_string": "mine", "new_string": "the agent's", "overwrite_unkept": true})
	if got := kept("secret"); got != "" || read(t, l.dir+"/secret") != "the agent's\n" {
		t.Errorf("%q, %q", got, read(t, l.dir+"/secret"))
	}
	p.ok("write_file", map[string]any{"path": "new.secret", "content": "new\n"})
}

// A recursive listing used to call git in a way that ran the programs named in the repository's
// configuration.
func TestListingRunsNothingOfARepository(t *testing.T) {
	l := liveProject(t, files{"a.txt": "a\n", "b.txt": "b\n"})
	gitIn(t, l.dir, "init", "-q")
	gitIn(t, l.dir, "add", "a.txt")
	ran := filepath.Join(t.TempDir(), "ran")
	script := filepath.Join(l.dir, ".git", "evil")
	if err := os.WriteFile(script, []byte("#!/bin/sh\ntouch '"+ran+"'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"core.fsmonitor", "core.sshCommand", "filter.x.process", "core.pager", "core.askPass", "diff.external"} {
		gitIn(t, l.dir, "config", key, script)
	}
	gitIn(t, l.dir, "config", "core.hooksPath", filepath.Join(l.dir, ".git"))
	if err := os.WriteFile(filepath.Join(l.dir, ".gitattributes"), []byte("* filter=x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := l.connect(ProfileAll)
	if text := p.ok("ls", map[string]any{"path": "."}); !strings.Contains(text, "b.txt") {
		t.Errorf("%s", text)
	}
	p.ok("write_file", map[string]any{"path": "a.txt", "content": "x\n"})
	p.ok("ls", map[string]any{"path": "."})
	if _, err := os.Lstat(ran); err == nil {
		t.Error("a program of the repository was run")
	}
}
