package outside

import (
	"path/filepath"
	"slices"
	"strings"
)

// Places decides which paths are not recorded: caches, package stores, private files of agents'
// clients, the kernel's files, and cachebro's own files.
type Places struct {
	home    string
	skipped []string // absolute paths of directories and files
	clients []string // directories of clients
	temp    []string // directories for temporary files; see Temporary
}

// cachesOfHome are the skipped paths, relative to the home directory.
var cachesOfHome = []string{
	".cache", "Library/Caches", ".npm", ".pnpm-store", ".local/share/pnpm", ".yarn/berry/cache", ".bun/install/cache", "go/pkg/mod", ".cargo/registry", ".cargo/git",
	".rustup/toolchains", ".m2/repository", ".gradle/caches", ".gradle/daemon", ".ivy2/cache", ".nuget/packages", ".gem", ".rbenv/versions", ".pyenv/versions",
	".conda/pkgs", ".local/share/Trash", ".local/share/uv", ".config/go/telemetry", ".mozilla", ".config/google-chrome", ".config/chromium", ".vscode-server",
	".claude.json", ".local/share/opencode", ".local/state/opencode",
}

// clientHomes are the directories of agents' clients in the home directory. A client keeps private
// files there (conversations, databases, locks, ids). The names of these files differ between
// versions of the client, and undoing changes of them would confuse the client. Files that people
// write in these directories are recorded.
var clientHomes = []string{".claude", ".codex", ".copilot", ".gemini", ".qwen"}

// writtenByPeople are the names of files that people write in a client's directory.
var writtenByPeople = []string{
	"*.md", "settings.json", "settings.local.json", "config.toml", "keybindings.json", "mcp.json", "mcp-config.json",
	"agents", "commands", "hooks", "output-styles", "prompts", "rules", "skills",
}

// cachesOfSystem are directories outside the home directory that are always skipped.
var cachesOfSystem = []string{"/proc", "/sys", "/dev", "/run/lock", "/run/user", "/var/cache", "/var/lib/apt/lists", "/var/lib/docker", "/nix/store"}

// NewPlaces returns the Places for a home directory and an environment. own are cachebro's own
// directories.
func NewPlaces(home string, getenv func(string) string, own ...string) *Places {
	p := &Places{home: home, skipped: append(own, cachesOfSystem...), temp: []string{"/tmp", "/var/tmp"}}
	if filepath.IsAbs(home) && home != "/" {
		for _, d := range cachesOfHome {
			p.skipped = append(p.skipped, filepath.Join(home, d))
		}
		for _, d := range clientHomes {
			p.clients = append(p.clients, filepath.Join(home, d))
		}
	}
	for _, name := range []string{"CLAUDE_CONFIG_DIR", "CODEX_HOME"} {
		if d := getenv(name); filepath.IsAbs(d) && d != "/" && d != home {
			p.clients = append(p.clients, filepath.Clean(d))
		}
	}
	for _, name := range []string{"XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "GOCACHE", "GOMODCACHE", "npm_config_cache", "PIP_CACHE_DIR", "CARGO_TARGET_DIR"} {
		if d := getenv(name); filepath.IsAbs(d) && d != "/" {
			p.skipped = append(p.skipped, filepath.Clean(d))
		}
	}
	if d := getenv("TMPDIR"); filepath.IsAbs(d) && d != "/" {
		p.temp = append(p.temp, filepath.Clean(d))
	}
	return p
}

// Skipped reports whether changes of a path, absolute and clean, are not recorded.
func (p *Places) Skipped(path string) bool {
	for _, d := range p.skipped {
		if within(path, d) {
			return true
		}
	}
	for _, d := range p.clients {
		if within(path, d) && !byPeople(strings.TrimPrefix(path, d)) {
			return true
		}
	}
	// Claude Code writes its state to a temporary file next to ~/.claude.json and then renames the
	// temporary file.
	return p.home != "" && strings.HasPrefix(path, p.home+"/.claude.json")
}

// byPeople reports whether people write the file at path rel in a client's directory.
func byPeople(rel string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(rel, "/"), "/")
	return slices.ContainsFunc(writtenByPeople, func(pattern string) bool {
		ok, err := filepath.Match(pattern, name)
		return ok && err == nil
	})
}

// Temporary reports whether a path is in a directory for temporary files. Files that a command
// itself creates there are not recorded. Files that existed before the command are recorded. A home
// directory inside such a directory is not temporary.
func (p *Places) Temporary(path string) bool {
	for _, d := range p.temp {
		home := within(p.home, d) && within(path, p.home)
		if within(path, d) && path != d && !home {
			return true
		}
	}
	return false
}

func within(path, dir string) bool {
	return strings.HasPrefix(path, dir) && (len(path) == len(dir) || path[len(dir)] == '/')
}
