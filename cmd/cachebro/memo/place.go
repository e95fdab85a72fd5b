package memo

import (
	"path/filepath"
	"strings"
)

// Place says what a path is to the question whether a result may be replayed.
type place uint8

const (
	inside  place = iota // the project
	known                // system and toolchain, configuration: checked like the project
	outside              // anything else: refused, unless allowed
	free                 // caches: may be read and written, nothing follows from it
	machine              // what the kernel tells of itself and of devices
)

// Places knows which paths are what.
type Places struct {
	Root string // the project, as the command sees it; symlinks resolved
	home string
	free []string // directories
	know []string
}

// NewPlaces reads the places of caches and toolchains from the environment.
func NewPlaces(root, home string, getenv func(string) string) *Places {
	p := &Places{Root: root, home: home}
	for _, d := range []string{getenv("GOCACHE"), getenv("GOLANGCI_LINT_CACHE"), getenv("STATICCHECK_CACHE"), getenv("XDG_CACHE_HOME"),
		getenv("npm_config_cache"), getenv("PIP_CACHE_DIR"), getenv("RUFF_CACHE_DIR"), getenv("MYPY_CACHE_DIR"), getenv("CCACHE_DIR"), getenv("SCCACHE_DIR")} {
		if filepath.IsAbs(d) && d != "/" {
			p.free = append(p.free, filepath.Clean(d))
		}
	}
	p.know = []string{"/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/etc", "/opt", "/nix", "/snap", "/gnu", "/var/lib", "/run/current-system", "/Library", "/System"}
	for _, d := range []string{getenv("GOROOT"), getenv("GOMODCACHE"), getenv("GOPATH"), getenv("CARGO_HOME"), getenv("RUSTUP_HOME"), getenv("NVM_DIR"), getenv("PYENV_ROOT"), getenv("JAVA_HOME"), getenv("VIRTUAL_ENV")} {
		if filepath.IsAbs(d) && d != "/" {
			p.know = append(p.know, filepath.Clean(d))
		}
	}
	if filepath.IsAbs(home) && home != "/" {
		p.free = append(p.free, home+"/.cache", home+"/.npm", home+"/.config/go/telemetry", home+"/Library/Caches")
		p.know = append(p.know, home+"/go", home+"/sdk", home+"/.local/lib", home+"/.local/bin", home+"/.local/share")
	}
	return p
}

func under(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir) && (dir == "/" || path[len(dir)] == '/')
}

// freeNames are caches within a project, by the name of a directory or file.
var freeNames = map[string]bool{"__pycache__": true, ".mypy_cache": true, ".ruff_cache": true, ".pytest_cache": true, ".eslintcache": true}

// of says what a path is. It is absolute, without symlinks and clean.
func (p *Places) of(path string) place {
	switch {
	case under(path, "/proc") || under(path, "/sys") || under(path, "/dev"):
		return machine
	case under(path, p.Root):
		rel := path[len(p.Root):]
		for part := range strings.SplitSeq(rel, "/") {
			if freeNames[part] || strings.HasSuffix(part, ".tsbuildinfo") {
				return free
			}
		}
		if strings.Contains(rel, "/node_modules/.cache/") {
			return free
		}
		for _, d := range p.free {
			if under(d, p.Root) && under(path, d) {
				return free
			}
		}
		return inside
	}
	for _, d := range p.free {
		if under(path, d) {
			return free
		}
	}
	for _, d := range p.know {
		if under(path, d) {
			return known
		}
	}
	// What the user has set up lies in dot files.
	if rest, ok := strings.CutPrefix(path, p.home+"/."); ok && p.home != "" && rest != "" {
		return known
	}
	return outside
}

// towardsFree: a directory on the way to a cache, which whoever fills it makes.
func (p *Places) towardsFree(path string) bool {
	for _, d := range p.free {
		if under(d, path) {
			return true
		}
	}
	return false
}

// above: the path is a directory on the way to the project.
func (p *Places) above(path string) bool { return under(p.Root, path) && path != p.Root }
