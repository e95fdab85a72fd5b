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
	machine              // what the kernel tells of itself and of devices
)

// Places knows which paths are what.
type Places struct {
	Root string // the project, as the command sees it; symlinks resolved
	home string
	free []cache
	know []string
}

// cache is a directory of which a few programs know what it is worth.
type cache struct {
	dir string
	by  []string // a star at the end stands for any ending
}

var (
	goTools = []string{"go", "gofmt", "compile", "asm", "link", "vet", "cgo", "buildid", "pack", "golangci-lint", "staticcheck"}
	pythons = []string{"python*", "pip*", "mypy*", "ruff", "pytest*"}
	nodes   = []string{"node", "npm*", "npx", "tsc", "eslint"}
)

// NewPlaces reads the places of caches and toolchains from the environment.
func NewPlaces(root, home string, getenv func(string) string) *Places {
	p := &Places{Root: root, home: home}
	for name, by := range map[string][]string{"GOCACHE": goTools, "GOLANGCI_LINT_CACHE": goTools, "STATICCHECK_CACHE": goTools, "npm_config_cache": nodes,
		"PIP_CACHE_DIR": pythons, "RUFF_CACHE_DIR": pythons, "MYPY_CACHE_DIR": pythons, "CCACHE_DIR": {"ccache"}, "SCCACHE_DIR": {"sccache"}} {
		if d := getenv(name); filepath.IsAbs(d) && d != "/" {
			p.free = append(p.free, cache{filepath.Clean(d), by})
		}
	}
	p.know = []string{"/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/etc", "/opt", "/nix", "/snap", "/gnu", "/var/lib", "/run/current-system", "/Library", "/System"}
	for _, d := range []string{getenv("GOROOT"), getenv("GOMODCACHE"), getenv("GOPATH"), getenv("CARGO_HOME"), getenv("RUSTUP_HOME"), getenv("NVM_DIR"), getenv("PYENV_ROOT"), getenv("JAVA_HOME"), getenv("VIRTUAL_ENV")} {
		if filepath.IsAbs(d) && d != "/" {
			p.know = append(p.know, filepath.Clean(d))
		}
	}
	if filepath.IsAbs(home) && home != "/" {
		p.free = append(p.free, cache{home + "/.cache/go-build", goTools}, cache{home + "/.config/go/telemetry", goTools}, cache{home + "/Library/Caches/go-build", goTools},
			cache{home + "/.npm", nodes}, cache{home + "/.cache/pip", pythons})
		p.know = append(p.know, home+"/go", home+"/sdk", home+"/.local/lib", home+"/.local/bin", home+"/.local/share")
	}
	return p
}

func under(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir) && (dir == "/" || path[len(dir)] == '/')
}

// freeNames are caches within a project, by the name of a directory or file.
var freeNames = map[string][]string{"__pycache__": pythons, ".mypy_cache": pythons, ".ruff_cache": pythons, ".pytest_cache": pythons, ".eslintcache": nodes}

// cacheOf says who knows what a path in a cache is worth.
func (p *Places) cacheOf(path string) (by []string, ok bool) {
	if under(path, p.Root) {
		rel := path[len(p.Root):]
		for part := range strings.SplitSeq(rel, "/") {
			if by, ok := freeNames[part]; ok {
				return by, true
			}
			if strings.HasSuffix(part, ".tsbuildinfo") {
				return nodes, true
			}
		}
		if strings.Contains(rel, "/node_modules/.cache/") {
			return nodes, true
		}
	}
	for _, c := range p.free {
		if under(path, c.dir) && (under(c.dir, p.Root) || !under(path, p.Root)) {
			return c.by, true
		}
	}
	return nil, false
}

// of says what a path is. It is absolute, without symlinks and clean. Whether it
// is in a cache depends on who looks: see cacheOf.
func (p *Places) of(path string) place {
	switch {
	case under(path, p.Root): // wherever it lies, be it in /dev/shm
		return inside
	case under(path, "/dev/shm"):
		return outside
	case under(path, "/proc") || under(path, "/sys") || under(path, "/dev"):
		return machine
	}
	for _, d := range p.know {
		if under(path, d) {
			return known
		}
	}
	for _, c := range p.free {
		if under(path, c.dir) {
			return known
		}
	}
	// What the user has set up lies in dot files.
	if rest, ok := strings.CutPrefix(path, p.home+"/."); ok && p.home != "" && rest != "" {
		return known
	}
	return outside
}

// towardsFree: a directory on the way to a cache of a program, which whoever fills it makes.
func (p *Places) towardsFree(path string, owns func([]string) bool) bool {
	for _, c := range p.free {
		if under(c.dir, path) && path != p.home && !under(p.home, path) && !p.above(path) && owns(c.by) {
			return true
		}
	}
	return false
}

// above: the path is a directory on the way to the project.
func (p *Places) above(path string) bool { return under(p.Root, path) && path != p.Root }
