package mounting

import (
	"os"
	"path/filepath"
	"strings"

	"cachebro/cmd/cachebro/cli"
)

// isWSL reports whether this is the Windows Subsystem for Linux, which names itself in the
// kernel's release.
func isWSL() bool {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	return err == nil && strings.Contains(strings.ToLower(string(b)), "microsoft")
}

// HelperFix returns the command that installs fusermount3, which ordinary users need to mount.
func HelperFix() string {
	b, err := os.ReadFile("/etc/os-release")
	if err != nil {
		b, _ = os.ReadFile("/usr/lib/os-release") // without either file, installFuse returns a general hint
	}
	return "sudo " + installFuse(string(b))
}

// installFuse returns the install command of a distribution. release is the text of its os-release
// file.
func installFuse(release string) string {
	for _, line := range strings.Split(release, "\n") {
		key, value, _ := strings.Cut(line, "=")
		if key != "ID" && key != "ID_LIKE" {
			continue
		}
		for _, id := range strings.Fields(strings.Trim(value, "\"'")) {
			switch id {
			case "debian", "ubuntu":
				return "apt-get install fuse3"
			case "fedora", "rhel", "centos":
				return "dnf install fuse3"
			case "alpine":
				return "apk add fuse3"
			case "arch":
				return "pacman -S fuse3"
			case "suse", "opensuse":
				return "zypper install fuse3"
			}
		}
	}
	return "YOUR-PACKAGE-MANAGER install fuse3"
}

// WithoutHelper is a hint for users without fusermount3. A private mount needs only /dev/fuse.
const WithoutHelper = "; without it: cachebro run --private -- COMMAND"

// RefuseSource refuses directories on a Windows drive in WSL. They can be mounted, but the mount
// would not see changes by Windows programs, and hard links, modes and renames differ from Linux.
func RefuseSource(root string) error {
	if isWSL() && FileSystem(root) == "9p" {
		return cli.Hintf("move the project into the Linux file system: cp -a "+cli.Arg(root)+" ~/ && cd ~/"+cli.Arg(filepath.Base(root)),
			"%s is on a Windows drive (9p), where changes by Windows programs are not seen, and where names and modes differ from those of Linux", cli.Quote(root))
	}
	return nil
}
