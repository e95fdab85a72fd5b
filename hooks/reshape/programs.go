package reshape

import "slices"

// This file lists what known programs print. It recognises a program by its name, and some also by
// their first operand.

// builders print progress, warnings and results for people.
var builders = []string{
	"make", "gmake", "ninja", "cmake", "meson", "bazel", "mvn", "mvnw", "gradle", "gradlew", "sbt", "cargo", "rustc", "gcc", "g++", "cc", "c++", "clang", "clang++", "javac", "dotnet", "swift", "tsc", "vue-tsc", "eslint", "prettier", "stylelint", "biome", "webpack", "vite", "rollup", "esbuild", "next", "turbo", "nx", "lerna",
	"pytest", "py.test", "unittest", "tox", "nox", "ruff", "mypy", "pyright", "flake8", "pylint", "black", "isort", "jest", "vitest", "mocha", "ava", "playwright", "cypress", "rspec", "phpunit", "ctest", "golangci-lint", "staticcheck", "gotestsum", "ginkgo",
	"npm", "pnpm", "yarn", "bun", "pip", "pip3", "uv", "poetry", "apt", "apt-get", "brew", "dnf", "apk", "composer", "gem", "bundle", "terraform", "pre-commit", "mise", "just",
}

// forPeople lists programs that print for people only with certain first operands. With others they
// print data or run other programs.
var forPeople = map[string][]string{
	"go":     {"build", "test", "vet", "install", "get", "mod", "generate"},
	"docker": {"build", "pull", "push", "compose", "buildx"},
	"podman": {"build", "pull", "push"},
	"mise":   {"run", "r"},
	"git":    {"clone", "commit", "fetch", "pull", "push", "status", "gc", "submodule", "checkout", "switch", "merge", "rebase", "lfs"},
}

// notForPeople lists, by builder, the first operands and options with which it does not print for
// people.
var notForPeople = map[string][]string{
	"npm": {"view", "v", "info", "show", "config", "ls", "list", "pack", "query", "explain", "exec", "x", "search"}, "pnpm": {"exec", "dlx", "list", "ls", "why", "view"}, "yarn": {"info", "list", "config", "exec", "dlx"},
	"pip": {"freeze", "show", "inspect", "list", "config", "download"}, "pip3": {"freeze", "show", "inspect", "list", "config", "download"}, "cargo": {"metadata", "tree", "run", "r", "read-manifest"}, "terraform": {"output", "show", "console", "state"},
	"apt": {"list", "show", "search"}, "brew": {"info", "list"}, "composer": {"show"}, "bazel": {"query", "cquery", "run"}, "dotnet": {"run"}, "swift": {"run"}, "uv": {"export", "tree"}, "poetry": {"export", "show"}, "bun": {"x", "repl"},
	"make": {"-p", "--print-data-base", "-n", "--dry-run"}, "prettier": {"--write"}, "black": {"-"},
	"just": {"--dump", "--evaluate", "--show", "-s", "--list", "-l", "--summary", "--variables"},
}

// runsPrograms reports whether a command builds, tests or installs.
func runsPrograms(words []string) bool {
	first := firstOperand(words)
	if only, ok := forPeople[words[0]]; ok {
		return slices.Contains(only, first) && !printsFile(words)
	}
	if !slices.Contains(builders, words[0]) {
		return false
	}
	no := notForPeople[words[0]]
	return !slices.ContainsFunc(words[1:], func(w string) bool {
		return slices.Contains(no, w) && (w == first || w[0] == '-')
	}) && !printsFile(words)
}

// firstOperand returns the first word after the program's name that is not an option.
func firstOperand(words []string) string {
	for _, w := range words[1:] {
		if w != "" && w[0] != '-' {
			return w
		}
	}
	return ""
}

func hasAny(operands []string, words ...string) bool {
	return slices.ContainsFunc(operands, func(w string) bool { return slices.Contains(words, w) })
}

// printsFile reports whether a command prints the content of a file, as formatters do, or code, as
// some compilers do.
func printsFile(words []string) bool {
	switch words[0] {
	case "prettier", "black", "isort", "ruff", "biome":
		return !hasAny(words[1:], "--check", "-c", "-l", "--list-different", "check", "lint")
	case "gcc", "g++", "cc", "c++", "clang", "clang++":
		return hasAny(words[1:], "-E", "-S", "-M", "-MM", "-")
	case "go":
		return slices.Contains(words, "edit") // go mod edit -print
	case "esbuild", "rollup":
		return true
	}
	return false
}

// lists holds, by program, the first operands with which it prints a list or a log for people. nil
// means any operand.
var lists = map[string][]string{
	"git": {"add", "blame", "branch", "log", "ls-files", "ls-tree", "merge", "mv", "pull", "rm", "stash", "tag", "worktree"},
	"gh":  {"run", "pr", "issue", "release", "workflow"}, "docker": {"ps", "images", "logs"}, "podman": {"ps", "images", "logs"}, "kubectl": {"get", "logs", "top"},
	"go": {"list"}, "apt": {"list"}, "dpkg": nil, "journalctl": nil, "systemctl": {"status", "list-units", "list-timers"},
	"ls": nil, "pwd": nil, "date": nil, "which": nil, "wc": nil, "du": nil,
}

// printsLists reports whether a command prints a list or a log for people and never a file's
// content.
func printsLists(words []string) bool {
	if listsPaths(words) {
		return true
	}
	only, ok := lists[words[0]]
	first := firstOperand(words)
	if words[0] == "git" && (first == "diff" || first == "show") {
		return slices.Contains(words, "--stat")
	}
	return ok && (only == nil || slices.Contains(only, first))
}

// blames reports whether the printed lines end in source code.
func blames(words []string) bool { return words[0] == "git" && slices.Contains(words[1:], "blame") }

// printsForPeople reports whether a command prints for people, so that only the text that a terminal
// would show matters.
func printsForPeople(words []string) bool {
	return runsPrograms(words) || searches(words) || printsLists(words)
}

// printsGitHints reports whether a command is a git command that prints hints.
func printsGitHints(words []string) bool {
	return words[0] == "git" && len(words) > 1 && slices.Contains([]string{"status", "pull", "push", "merge", "rebase", "checkout", "switch", "stash", "cherry-pick", "revert", "fetch", "clone", "init", "add"}, words[1])
}
