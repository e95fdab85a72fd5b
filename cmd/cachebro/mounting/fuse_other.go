//go:build !linux

package mounting

import "cachebro/fusefs"

// FuseProblem says why nothing can be mounted here, and how to fix that. Both are "" if
// macFUSE is installed; only a mount shows whether its kernel extension may run.
func FuseProblem() (why, fix string) {
	if fusefs.MacFUSE() == "" {
		return "macFUSE is not installed", "brew install --cask macfuse   (or https://macfuse.github.io); then allow its kernel extension in System Settings, Privacy & Security"
	}
	return "", ""
}

// HasHelper returns true, because macFUSE's own helper mounts for every user.
func HasHelper() bool { return true }
