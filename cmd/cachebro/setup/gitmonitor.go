package setup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/hooks/clients"
)

// gitGlobalConfig returns the file that git config --global writes to.
func gitGlobalConfig(e *cli.Env, s clients.Setup) string {
	if name := absVar(e, "GIT_CONFIG_GLOBAL"); name != "" {
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

// gitSetup returns git settings that make git ask cachebro which files changed in root's
// repository.
func gitSetup(e *cli.Env, s clients.Setup, root string) (clients.GitSetup, error) {
	dir, err := AskGit(e, root, "rev-parse", "--absolute-git-dir")
	if err != nil || !filepath.IsAbs(dir) {
		return clients.GitSetup{}, cli.Hintf("git init "+cli.Arg(root), "%s is not a git work tree", cli.Quote(root))
	}
	if strings.ContainsAny(dir, "\n") {
		return clients.GitSetup{}, fmt.Errorf("git's configuration cannot name %s", cli.Quote(dir))
	}
	g := clients.GitSetup{Config: gitGlobalConfig(e, s), Include: filepath.Join(s.Backups, "git-fsmonitor.conf"), Dirs: []string{dir}}
	if b, err := os.ReadFile(g.Config); err == nil {
		g.Dirs = append(g.Dirs, clients.GitDirs(b)...)
	}
	slices.Sort(g.Dirs)
	g.Dirs = slices.Compact(g.Dirs)
	return g, nil
}

// gitSetupBack returns the git settings that uninit removes. The result is empty if none were
// written.
func gitSetupBack(e *cli.Env, s clients.Setup) clients.GitSetup {
	g := clients.GitSetup{Config: gitGlobalConfig(e, s), Include: filepath.Join(s.Backups, "git-fsmonitor.conf")}
	if b, err := os.ReadFile(g.Config); (err != nil || len(clients.GitDirs(b)) == 0) && !s.PathExists(g.Include) {
		return clients.GitSetup{}
	}
	return g
}

// GitAsks reports whether init --git-fsmonitor was run for a project.
func GitAsks(e *cli.Env, root string) bool {
	s, err := Setup(e, InitFlags{}, "")
	if err != nil {
		return false
	}
	b, err := os.ReadFile(gitGlobalConfig(e, s))
	return err == nil && slices.Contains(clients.GitDirs(b), filepath.Join(root, ".git"))
}

// AskGit runs git in a directory.
func AskGit(e *cli.Env, dir string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = dir, e.Vars
	out, err := cmd.Output()
	return strings.TrimSuffix(string(out), "\n"), err
}
