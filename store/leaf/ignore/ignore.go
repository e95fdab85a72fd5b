// Package ignore determines which paths of a project are tracked, ignored or excluded. This
// decides what is captured and what is indexed.
//
// The rules are git's: .gitignore at every level, .git/info/exclude, the user's global file, and
// negation. A path in git's index is tracked even if a rule matches it. .gitignore files also apply
// without a repository.
//
// cachebro's own rules come first. .git is excluded at every level. A .cachebroignore (same syntax)
// excludes even paths that git tracks. A short built-in list excludes directories that any build
// can create again, but only where git ignores them.
//
// This package matches the patterns itself, because the available libraries disagree with git on
// escapes, classes and double stars. A test compares it with git check-ignore on random trees and
// patterns.
//
// All files are read relative to the descriptor of the source directory, never through a
// mountpoint. A Matcher may be used concurrently. It works on an immutable snapshot, which a reload
// replaces. Only the snapshot's cache of directories is filled on demand.
package ignore

import (
	"runtime"
	"strings"

	"cachebro/store/leaf/event"
)

// Class is the class of a path. It decides what is captured and indexed.
type Class = event.Class

// The classes.
const (
	Tracked  = event.Tracked
	Ignored  = event.Ignored
	Excluded = event.Excluded
)

// builtIn lists directories that tools create again by themselves. One of the files in the value
// must be next to the directory. nil means that none is needed.
var builtIn = map[string][]string{
	"node_modules":     {"package.json"},
	"bower_components": {"bower.json"},
	"target":           {"Cargo.toml", "pom.xml", "build.sbt", "project.clj"},
	"__pycache__":      nil,
	".venv":            nil,
	".tox":             nil,
	".nox":             nil,
	".mypy_cache":      nil,
	".pytest_cache":    nil,
	".ruff_cache":      nil,
	".gradle":          nil,
	".next":            nil,
	".nuxt":            nil,
	".svelte-kit":      nil,
	".turbo":           nil,
	".parcel-cache":    nil,
	".terraform":       nil,
	".dart_tool":       nil,
	"_build":           {"mix.exs", "dune-project", "rebar.config"},
	"deps":             {"mix.exs"},
	"vendor":           {"composer.json"},
	"Pods":             {"Podfile"},
	"DerivedData":      nil,
	".ccache":          nil,
	".pnpm-store":      nil,
}

// CanBeRebuilt reports whether any directory of this name holds only files that tools can create
// again. It returns false for names that need a certain file next to the directory, unless
// builtInAnywhere lists them.
func CanBeRebuilt(name string) bool {
	beside, ok := builtIn[name]
	return ok && beside == nil || builtInAnywhere[name]
}

// builtInAnywhere lists built-in directories that are excluded outside a repository even without an
// ignore rule, because nobody stores their own work in them.
var builtInAnywhere = map[string]bool{"node_modules": true, "__pycache__": true}

// createdUnasked lists directories that tools create unasked. They are excluded without an ignore
// rule, because nobody writes a rule for an unexpected directory. pnpm puts its store on the
// project's file system. The mount is a separate file system, so the store is created in the
// project.
var createdUnasked = map[string]bool{".pnpm-store": true}

// mac is true on macOS, which creates its own files in every directory that it displays.
var mac = runtime.GOOS == "darwin" // a variable for the tests

// ofMacOS reports whether macOS itself creates files of this name, such as the Finder's window
// settings, Spotlight's index, and attributes on volumes that cannot store them. Such files change
// each time a directory is displayed.
func ofMacOS(name string) bool {
	switch name {
	case ".DS_Store", ".Spotlight-V100", ".fseventsd", ".Trashes", ".TemporaryItems", ".DocumentRevisions-V100", ".apdisk", ".VolumeIcon.icns":
		return true
	}
	return len(name) > 2 && strings.HasPrefix(name, "._")
}

// marks are files that mark their directory as one that can be created again
// (https://bford.info/cachedir/ and Python's PEP 405).
var marks = []string{"CACHEDIR.TAG", "pyvenv.cfg"}

// IsRuleFile reports whether a change of this file may change the classes of paths. If so, the
// caller has to call Reload.
func IsRuleFile(path string) bool {
	base := path[strings.LastIndexByte(path, '/')+1:]
	switch base {
	case ".gitignore", ".cachebroignore", "CACHEDIR.TAG", "pyvenv.cfg":
		return true
	case "exclude":
		return strings.HasSuffix(path, "info/exclude")
	case ".git": // a repository, worktree or submodule begins or ends
		return true
	case "HEAD":
		return strings.HasSuffix("/"+path, "/.git/HEAD")
	}
	for _, beside := range builtIn {
		for _, name := range beside {
			if name == base {
				return true
			}
		}
	}
	return false
}
