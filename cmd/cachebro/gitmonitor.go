package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cachebro/hooks"
)

// gitGlobalConfig is the file that git config --global writes to.
func (e *env) gitGlobalConfig(s hooks.Setup) string {
	if name := e.absVar("GIT_CONFIG_GLOBAL"); name != "" {
		return name
	}
	usual := filepath.Join(s.Home, ".gitconfig")
	other := filepath.Join(s.Home, ".config", "git", "config")
	if s.ConfigHome != "" {
		other = filepath.Join(s.ConfigHome, "git", "config")
	}
	if !s.PathExists(usual) && s.PathExists(other) {
		return other
	}
	return usual
}

// gitSetup adds the repository in root to those whose git asks us.
func (e *env) gitSetup(s hooks.Setup, root string) (hooks.GitSetup, error) {
	dir, err := e.askGit(root, "rev-parse", "--absolute-git-dir")
	if err != nil || !filepath.IsAbs(dir) {
		return hooks.GitSetup{}, hintf("git init "+arg(root), "%s is not a git work tree", quote(root))
	}
	if strings.ContainsAny(dir, "\n") {
		return hooks.GitSetup{}, fmt.Errorf("git's configuration cannot name %s", quote(dir))
	}
	g := hooks.GitSetup{Config: e.gitGlobalConfig(s), Include: filepath.Join(s.Backups, "git-fsmonitor.conf"), Dirs: []string{dir}}
	if b, err := os.ReadFile(g.Config); err == nil {
		g.Dirs = append(g.Dirs, hooks.GitDirs(b)...)
	}
	slices.Sort(g.Dirs)
	g.Dirs = slices.Compact(g.Dirs)
	return g, nil
}

// gitSetupBack is what uninit takes back; nothing where nothing was written.
func (e *env) gitSetupBack(s hooks.Setup) hooks.GitSetup {
	g := hooks.GitSetup{Config: e.gitGlobalConfig(s), Include: filepath.Join(s.Backups, "git-fsmonitor.conf")}
	if b, err := os.ReadFile(g.Config); (err != nil || len(hooks.GitDirs(b)) == 0) && !s.PathExists(g.Include) {
		return hooks.GitSetup{}
	}
	return g
}

// gitAsks reports whether init was told that the git of a project asks us.
func (e *env) gitAsks(root string) bool {
	s, err := e.setup(initFlags{}, "")
	if err != nil {
		return false
	}
	b, err := os.ReadFile(e.gitGlobalConfig(s))
	return err == nil && slices.Contains(hooks.GitDirs(b), filepath.Join(root, ".git"))
}

// askGit runs git in a directory.
func (e *env) askGit(dir string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = dir, e.vars
	out, err := cmd.Output()
	return strings.TrimSuffix(string(out), "\n"), err
}

// doctorGit says how git finds out what changed, and whether we answer.
func (e *env) doctorGit(ctx context.Context, t target) []finding {
	const what = "git"
	if _, err := e.askGit(t.point, "rev-parse", "--absolute-git-dir"); err != nil {
		return nil
	}
	set, err := e.askGit(t.point, "config", "--show-scope", "--get", "core.fsmonitor")
	scope, command, _ := strings.Cut(set, "\t")
	if err != nil || command == "" {
		f := good(what, "looks at every file for each status")
		f.Fix = "cachebro init --git-fsmonitor " + arg(t.root) + " lets it ask the mount instead"
		return []finding{f}
	}
	// What the repository itself names is not tried out, whatever its name.
	if !strings.HasSuffix(command, " fsmonitor") || scope != "global" && scope != "system" {
		return []finding{good(what, "asks another program what changed: core.fsmonitor=%s", command)}
	}
	if version, _ := e.askGit(t.point, "config", "--get", "core.fsmonitorHookVersion"); version != "2" {
		return []finding{wrong(what, "cachebro init --git-fsmonitor "+arg(t.root), "core.fsmonitor is cachebro's, but core.fsmonitorHookVersion is %s, not 2", quote(version))}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, "sh", "-c", command+` "$@"`, "cachebro", "2", "")
	cmd.Dir, cmd.Env, cmd.Stderr = t.point, e.vars, &errs
	if out, err := cmd.Output(); err != nil || !bytes.HasPrefix(out, []byte("cachebro:")) {
		return []finding{wrong(what, "cachebro init --git-fsmonitor "+arg(t.root), "is to ask cachebro what changed and gets no answer from: %s (it looks at every file then)", command)}
	}
	return []finding{good(what, "asks the mount what changed")}
}
