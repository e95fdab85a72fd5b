//go:build !linux

package mounting

import "cachebro/fusefs"

// FuseProblem says why nothing can be mounted here, and what mends it; "" when macFUSE
// is installed. Whether its kernel extension may run is known when it is asked to mount.
func FuseProblem() (why, fix string) {
	if fusefs.MacFUSE() == "" {
		return "macFUSE is not installed", "brew install --cask macfuse   (or https://macfuse.github.io); then allow its kernel extension in System Settings, Privacy & Security"
	}
	return "", ""
}

// HasHelper: macFUSE's own program mounts for everybody.
func HasHelper() bool { return true }
