package doctor

import (
	"os"
	"os/exec"
	"path/filepath"
)

// tool is a program that needs the setting fix on a FUSE mount. It counts as used if program is in
// PATH or the project contains file. doc/tools.md has more.
type tool struct {
	program, file string
	text, fix     string
}

var tools = []tool{
	{program: "gradle", file: "gradlew",
		text: "Gradle does not watch FUSE mounts by default, so --continuous misses changes",
		fix:  "add org.gradle.vfs.watch=true to gradle.properties"},
	{file: ".idea",
		text: "JetBrains IDEs do not watch FUSE mounts; they look for changes when their window gets the focus",
		fix:  "File > Reload All from Disk shows them at once"},
	{program: "uv", file: "uv.lock",
		text: "uv cannot link from a cache outside the mount, so it copies, with a warning",
		fix:  "export UV_LINK_MODE=copy"},
}

// toolFindings lists the tools in use that need a setting on a mount.
func toolFindings(root string) []Finding {
	var out []Finding
	for _, t := range tools {
		if !t.used(root) {
			continue
		}
		f := good("tools", "%s", t.text)
		f.Fix = t.fix
		out = append(out, f)
	}
	return out
}

func (t tool) used(root string) bool {
	if _, err := os.Lstat(filepath.Join(root, t.file)); err == nil {
		return true
	}
	if t.program == "" {
		return false
	}
	_, err := exec.LookPath(t.program)
	return err == nil
}
