package setup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"cachebro/cmd/cachebro/cli"
)

// loginUnit is a systemd unit that mounts the projects that are up: for a user, a
// unit of the user's own that starts with the first login; for root, a unit of the
// system that starts at boot. A link enables it, as systemctl would, so that nothing
// has to run for it.
type loginUnit struct{ file, link string }

func theLoginUnit(e *cli.Env) (loginUnit, error) {
	dir, wants := "/etc/systemd/system", "multi-user.target.wants"
	if os.Getuid() != 0 {
		wants = "default.target.wants"
		dir = absVar(e, "XDG_CONFIG_HOME")
		if home := e.Paths().Home; dir == "" && filepath.IsAbs(home) {
			dir = filepath.Join(home, ".config")
		}
		if dir == "" {
			return loginUnit{}, cli.Hintf("export HOME=/home/you", "no home directory is known, so systemd's files cannot be found")
		}
		dir = filepath.Join(dir, "systemd", "user")
	}
	return loginUnit{filepath.Join(dir, "cachebro.service"), filepath.Join(dir, wants, "cachebro.service")}, nil
}

// text of the unit. The mounts outlive it, as those of a shell would.
func (u loginUnit) text(e *cli.Env) string {
	var w strings.Builder
	w.WriteString("[Unit]\nDescription=cachebro mounts the projects that are up\n")
	if os.Getuid() == 0 {
		w.WriteString("After=local-fs.target\n")
	}
	fmt.Fprintf(&w, "\n[Service]\nType=oneshot\nRemainAfterExit=yes\nKillMode=process\nExecStart=%s mount --all\n", unitWord(e.Exe))
	if os.Getuid() == 0 {
		w.WriteString("User=root\n") // without it there is no HOME
	}
	for _, name := range []string{"CACHEBRO_DIR", "XDG_STATE_HOME"} {
		if v := absVar(e, name); v != "" {
			fmt.Fprintf(&w, "Environment=%s\n", unitWord(name+"="+v))
		}
	}
	fmt.Fprintf(&w, "\n[Install]\nWantedBy=%s\n", strings.TrimSuffix(filepath.Base(filepath.Dir(u.link)), ".wants"))
	return w.String()
}

// unitWord quotes a word for systemd.
func unitWord(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "\n", `\n`).Replace(s) + `"`
}

// atLogin writes the unit and enables it.
func atLogin(e *cli.Env) error {
	u, err := theLoginUnit(e)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(u.link), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(u.file, []byte(u.text(e)), 0o644); err != nil {
		return err
	}
	if err := os.Remove(u.link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(filepath.Join("..", filepath.Base(u.file)), u.link); err != nil {
		return err
	}
	fmt.Fprintf(e.Stdout, "systemd will mount the projects that are up: %s\n", cli.Quote(u.file))
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		fmt.Fprintln(e.Stdout, "note: systemd does not run here; cachebro mount --all, in ~/.profile for example, does the same")
	}
	return nil
}

// notAtLogin takes back what atLogin did; what is not ours is left.
func notAtLogin(e *cli.Env) error {
	u, err := theLoginUnit(e)
	if err != nil {
		return nil // nothing can have been written
	}
	b, err := os.ReadFile(u.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !bytes.Contains(b, []byte("mount --all")) {
		return err
	}
	if err := errors.Join(os.Remove(u.link), os.Remove(u.file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = os.Remove(filepath.Dir(u.link)) // if it is empty
	fmt.Fprintf(e.Stdout, "systemd no longer mounts anything for cachebro: removed %s\n", cli.Quote(u.file))
	return nil
}
