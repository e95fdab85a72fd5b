package hooks

import (
	"os"
	"path/filepath"
	"strings"

	"cachebro/hooks/clients"
)

// findRoot finds the project of an event by the first of these that is known:
//
//   - the file that the event's call names
//   - the event's working directory
//   - CLAUDE_PROJECT_DIR, where the session began, even after it moves to a worktree
//   - our own working directory, which may be the covered directory if this process is older
//     than the mount
func findRoot(env Env, ev event) (string, bool) {
	for _, dir := range []string{ev.file(), ev.cwd, env.Getenv("CLAUDE_PROJECT_DIR"), ev.home, env.Dir} {
		if !filepath.IsAbs(dir) {
			continue
		}
		if root, ok := env.Paths.Find(filepath.Clean(dir)); ok {
			return root, true
		}
		if real, err := filepath.EvalSymlinks(dir); err == nil && real != filepath.Clean(dir) {
			if root, ok := env.Paths.Find(real); ok {
				return root, true
			}
		}
	}
	return "", false
}

// pathFields are the fields of a tool's input that name its file.
var pathFields = []string{"file_path", "notebook_path", "path"}

// file returns the file or directory that the event's call names, or "". It ignores a relative name
// in a call to our own server, because that belongs to the session's project.
func (e event) file() string {
	for _, name := range pathFields {
		switch path := e.input.str(name); {
		case path == "":
		case filepath.IsAbs(path):
			return path
		case filepath.IsAbs(e.cwd) && !isOurs(e.tool):
			return filepath.Join(e.cwd, path)
		}
	}
	return ""
}

// relative returns a tool's path relative to the project and slash-separated, or false if it is not
// in the project.
func (c *scene) relative(path string) (string, bool) {
	if path == "" || strings.ContainsRune(path, 0) {
		return "", false
	}
	if !filepath.IsAbs(path) {
		if !filepath.IsAbs(c.cwd) {
			return "", false
		}
		path = filepath.Join(c.cwd, path)
	}
	if rel, ok := below(c.root, filepath.Clean(path)); ok {
		return rel, true
	}
	// The path may reach the project through a symlink. So the file's directory is resolved, but
	// not its name.
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", false
	}
	return below(c.root, filepath.Join(dir, filepath.Base(path)))
}

func below(root, path string) (string, bool) {
	if root == string(os.PathSeparator) {
		return strings.TrimPrefix(path, root), path != root
	}
	rel, ok := strings.CutPrefix(path, root+string(os.PathSeparator))
	return filepath.ToSlash(rel), ok && rel != ""
}

// defersToInit reports whether the plugin's hook ignores the event because "cachebro init" or
// "cachebro run" registered a hook for it. run passes its settings on the command line, so it
// announces its hook in the environment.
func defersToInit(env Env, opt options, ev event) bool {
	if !opt.plugin {
		return false
	}
	if env.Getenv("CACHEBRO_HOOKS") == "run" {
		return true
	}
	p := clients.Places{Client: opt.client, Home: env.Getenv("HOME"), Project: ev.cwd}
	switch opt.client {
	case "":
		p.Config = env.Getenv("CLAUDE_CONFIG_DIR")
		if project := env.Getenv("CLAUDE_PROJECT_DIR"); project != "" {
			p.Project = project
		}
	case "codex":
		p.Config = env.Getenv("CODEX_HOME")
	}
	return p.HooksRegistered() != ""
}
