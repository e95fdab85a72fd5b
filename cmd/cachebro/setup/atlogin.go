package setup

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"cachebro/cmd/cachebro/cli"
)

// loginUnit is a systemd unit or launchd agent that mounts the projects that are up, at a user's
// first login or, for root, at boot. The systemd unit is enabled by a symlink, as systemctl does
// it, so systemd need not be running.
type loginUnit struct {
	file   string
	link   string // "" for launchd, which needs no symlink
	text   string
	reader string // the program that reads the file
}

func theLoginUnit(e *cli.Env) (loginUnit, error) {
	if runtime.GOOS == "darwin" {
		return launchAgent(e)
	}
	return systemdUnit(e)
}

func systemdUnit(e *cli.Env) (loginUnit, error) {
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
	u := loginUnit{file: filepath.Join(dir, "cachebro.service"), link: filepath.Join(dir, wants, "cachebro.service"), reader: "systemd"}
	u.text = u.systemd(e)
	return u, nil
}

// systemd returns the text of the systemd unit. With KillMode=process the mounts outlive the unit.
func (u loginUnit) systemd(e *cli.Env) string {
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

func unitWord(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "\n", `\n`).Replace(s) + `"`
}

func atLogin(e *cli.Env) error {
	u, err := theLoginUnit(e)
	if err != nil {
		return err
	}
	return u.enable(e)
}

func (u loginUnit) enable(e *cli.Env) error {
	if err := os.MkdirAll(filepath.Dir(cmp.Or(u.link, u.file)), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(u.file, []byte(u.text), 0o644); err != nil {
		return err
	}
	if u.link != "" {
		if err := os.Remove(u.link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Symlink(filepath.Join("..", filepath.Base(u.file)), u.link); err != nil {
			return err
		}
	}
	fmt.Fprintf(e.Stdout, "%s will mount the projects that are up: %s\n", u.reader, cli.Quote(u.file))
	if _, err := os.Stat("/run/systemd/system"); err != nil && u.reader == "systemd" {
		fmt.Fprintln(e.Stdout, "note: systemd does not run here; cachebro mount --all, in ~/.profile for example, does the same")
	}
	return nil
}

// notAtLogin reverses atLogin. It does not remove files that cachebro did not write.
func notAtLogin(e *cli.Env) error {
	u, err := theLoginUnit(e)
	if err != nil {
		return nil // without a home directory, nothing was written
	}
	return u.disable(e)
}

func (u loginUnit) disable(e *cli.Env) error {
	b, err := os.ReadFile(u.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !bytes.Contains(b, []byte("mount --all")) && !bytes.Contains(b, []byte(launchLabel)) {
		return err
	}
	var unlinked error
	if u.link != "" {
		unlinked = os.Remove(u.link)
	}
	if err := errors.Join(unlinked, os.Remove(u.file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if u.link != "" {
		_ = os.Remove(filepath.Dir(u.link)) // fails if it is not empty
	}
	fmt.Fprintf(e.Stdout, "%s no longer mounts anything for cachebro: removed %s\n", u.reader, cli.Quote(u.file))
	return nil
}
