package hooks

import (
	"slices"
	"strconv"
	"strings"
)

// clientName turns AI_AGENT ("claude-code_2-1-197_harness") into "claude-code/2.1.197", or
// "claude-code" if it is empty.
func clientName(agent string) string {
	name, v, ok := clientVersion(agent)
	if !ok {
		return "claude-code"
	}
	parts := make([]string, len(v))
	for i, n := range v {
		parts[i] = strconv.Itoa(n)
	}
	return name + "/" + strings.Join(parts, ".")
}

func clientVersion(agent string) (name string, v []int, ok bool) {
	f := strings.Split(agent, "_")
	if len(f) < 2 {
		return "", nil, false
	}
	for _, p := range strings.Split(f[1], "-") {
		n, err := strconv.Atoi(p)
		if err != nil || n < 0 {
			return "", nil, false
		}
		v = append(v, n)
	}
	return f[0], v, true
}

// atLeast reports whether the client is Claude Code of this version or later.
func atLeast(agent string, version ...int) bool {
	name, v, ok := clientVersion(agent)
	return ok && name == "claude-code" && slices.Compare(v, version) >= 0
}
