package mounting

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/hooks/clients"
)

// pnpmNote returns a note for projects that use pnpm, unless the user has configured the location
// of pnpm's store. By default pnpm puts its store on the file system of the project
// (https://pnpm.io/settings#storedir), and a mount is a separate file system.
func pnpmNote(e *cli.Env, root string) string {
	if _, err := os.Lstat(filepath.Join(root, "pnpm-lock.yaml")); err != nil {
		return ""
	}
	if e.Getenv("npm_config_store_dir") != "" {
		return ""
	}
	home := e.Getenv("HOME")
	config := cmp.Or(e.Getenv("XDG_CONFIG_HOME"), filepath.Join(home, ".config"))
	files := []string{
		filepath.Join(root, ".npmrc"), filepath.Join(root, "pnpm-workspace.yaml"), filepath.Join(home, ".npmrc"),
		filepath.Join(config, "pnpm", "rc"), filepath.Join(config, "pnpm", "config.yaml"),
	}
	for _, f := range files {
		b, err := clients.ReadConfig(f)
		if err == nil && (strings.Contains(string(b), "store-dir") || strings.Contains(string(b), "storeDir")) {
			return ""
		}
	}
	return "pnpm would put its store into the project, because a mount is a file system of its own; to prevent that: pnpm config set store-dir ~/.local/share/pnpm/store"
}
