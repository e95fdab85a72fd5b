package cli

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// ExcludesFile returns the user's own ignore file, which git reads for every repository. It is
// core.excludesFile or, if that is not set, git/ignore in the configuration directory.
func (e *Env) ExcludesFile() string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", "config", "--global", "--type=path", "--get", "core.excludesFile")
	cmd.Dir, cmd.Env = "/", e.Vars
	if out, err := cmd.Output(); err == nil {
		if name := strings.TrimSuffix(string(out), "\n"); filepath.IsAbs(name) {
			return name
		}
	}
	if dir := e.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "git", "ignore")
	}
	if home := e.Paths().Home; filepath.IsAbs(home) {
		return filepath.Join(home, ".config", "git", "ignore")
	}
	return ""
}
