package hooks

import (
	"os"
	"path/filepath"
	"strings"

	"cachebro/hooks/clients"
)

// findRoot finds the project that an event is about: by the file that its call names,
// else by the event's working directory, else by CLAUDE_PROJECT_DIR, which stays where
// the session began when the session moves to a worktree. Our own directory comes last
// because a process that was started before the mount stays on what is below it.
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

// file is the file or directory that the event's call names, "" for none. Relative names
// that the tools of our own server are given are of the project that the session works in.
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

// relative makes a tool's path project-relative and slash-separated; ok is
// false outside the project. cwd is the tool's working directory.
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
	// The project may have been named through a symlink above it; the file's
	// own name is not resolved, only the directory that it lies in.
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

// stepsBack reports whether the plugin's hook leaves the event to the hook that init or "run"
// has registered. run says so in the environment, because its settings are a command line.
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
