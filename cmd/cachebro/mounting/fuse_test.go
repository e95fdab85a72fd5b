package mounting

import "testing"

func TestInstallFuse(t *testing.T) {
	for release, want := range map[string]string{
		"NAME=\"Debian GNU/Linux\"\nID=debian\n":    "apt-get install fuse3",
		"ID_LIKE=\"ubuntu debian\"\nID=linuxmint\n": "apt-get install fuse3",
		"ID=fedora\n": "dnf install fuse3",
		"ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n": "dnf install fuse3",
		"ID=alpine\n":                "apk add fuse3",
		"ID=manjaro\nID_LIKE=arch\n": "pacman -S fuse3",
		"ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n": "zypper install fuse3",
		"ID=other\n": "YOUR-PACKAGE-MANAGER install fuse3",
		"":           "YOUR-PACKAGE-MANAGER install fuse3",
	} {
		if got := installFuse(release); got != want {
			t.Errorf("%q: %s, want %s", release, got, want)
		}
	}
}
