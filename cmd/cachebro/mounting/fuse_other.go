//go:build !linux

package mounting

import "cachebro/fusefs"

// FuseProblem returns why nothing can be mounted, and a fix. Both are "" if macFUSE is installed.
// Only an attempt to mount shows whether macOS lets the kernel extension run.
func FuseProblem() (why, fix string) {
	if fusefs.MacFUSE() == "" {
		return "macFUSE is not installed", "brew install --cask macfuse   (or https://macfuse.github.io); then allow its kernel extension in System Settings, Privacy & Security"
	}
	return "", ""
}

// HasHelper returns true, because macFUSE's own helper mounts for every user.
func HasHelper() bool { return true }
