package hooks

import (
	"os"
	"path/filepath"
	"strings"

	"cachebro/hooks/clients"
)

// findRoot finds the project that an event is about. It uses the first of these that is known:
// the file that the event's call names, the event's working directory, and CLAUDE_PROJECT_DIR,
// which keeps naming the directory in which the session began when the session moves to a
// worktree. Our own working directory comes last, because a process that was started before the
// mount is still in the directory that the mount covers.
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

// pathFields are the fields of a tool's input that name the file it works on.
var pathFields = []string{"file_path", "notebook_path", "path"}

// file returns the file or directory that the event's call names, or "" if it names none. A
// relative name in a call to our own server counts as none, because it belongs to the project
// that the session works in.
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

// relative returns a tool's path relative to the project and slash-separated. It returns false if
// the path is not in the project.
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
	// The path may reach the project through a symlink. So the directory of the file is
	// resolved, but not the file's own name.
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

// stepsBack reports whether the plugin's hook ignores the event because "cachebro init" or
// "cachebro run" has registered a hook that handles it. run announces its hook in the
// environment, because it passes its settings on the command line and not in a file.
func stepsBack(env Env, opt options, ev event) bool {
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
