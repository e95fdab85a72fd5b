package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestGitFsmonitor uses git itself to find out for which repositories it asks cachebro. Removing
// the settings restores the configuration byte for byte, even if two projects were added. If
// somebody edited the file since, only our lines are removed.
func TestGitFsmonitor(t *testing.T) {
	for _, original := range []string{"none", "", "[user]\n\tname = n\n", "[user]\n\tname = n"} {
		home := t.TempDir()
		config := filepath.Join(home, ".gitconfig")
		if original != "none" {
			if err := os.WriteFile(config, []byte(original), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		one, two := filepath.Join(home, `a [b]* "c" \d`), filepath.Join(home, "two")
		git := func(dir string, args ...string) string {
			cmd := exec.Command("git", args...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME=", "GIT_CONFIG_GLOBAL="+config, "GIT_CONFIG_NOSYSTEM=1")
			out, _ := cmd.Output()
			return strings.TrimSpace(string(out))
		}
		for _, d := range []string{one, two, filepath.Join(home, "other")} {
			if err := os.Mkdir(d, 0o755); err != nil {
				t.Fatal(err)
			}
			git(d, "init", "-q")
		}
		s := Setup{Home: home, Backups: filepath.Join(home, "state", "clients"), Exe: filepath.Join(home, "no such program")}
		s.Git = GitSetup{Config: config, Include: filepath.Join(s.Backups, "git-fsmonitor.conf")}
		for _, d := range []string{one, two} {
			before, _ := os.ReadFile(config)
			s.Git.Dirs = append(GitDirs(before), filepath.Join(d, ".git"))
			changes, err := PlanInit(s, []string{})
			if err != nil {
				t.Fatal(err)
			}
			if err := Apply(s, changes); err != nil {
				t.Fatal(err)
			}
		}
		after, _ := os.ReadFile(config)
		if got, want := GitDirs(after), []string{filepath.Join(one, ".git"), filepath.Join(two, ".git")}; !slices.Equal(got, want) {
			t.Errorf("registered are %q, want %q", got, want)
		}
		command := "exec 2>/dev/null; exec '" + s.Exe + "' fsmonitor"
		for _, d := range []string{one, two} {
			if got := git(d, "config", "--get", "core.fsmonitor"); got != command {
				t.Errorf("in %q git runs %q, want %q", d, got, command)
			}
			if got := git(d, "config", "--get", "core.fsmonitorHookVersion"); got != "2" {
				t.Errorf("in %q version %q", d, got)
			}
		}
		if got := git(filepath.Join(home, "other"), "config", "--get", "core.fsmonitor"); got != "" {
			t.Errorf("in another repository git runs %q", got)
		}
		// Without the binary, git prints no error and looks at the files itself.
		if err := os.WriteFile(filepath.Join(two, "new"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("git", "status", "--porcelain")
		cmd.Dir, cmd.Env = two, append(os.Environ(), "HOME="+home, "GIT_CONFIG_GLOBAL="+config)
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "?? new\n" {
			t.Errorf("git status without the binary: %v, %q", err, out)
		}
		takeBack := func() (string, bool) {
			s.Git.Dirs = nil
			changes, err := PlanUninit(s, []string{})
			if err != nil {
				t.Fatal(err)
			}
			if err := Apply(s, changes); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(s.Backups); err == nil {
				t.Error("something is left in the state directory")
			}
			b, err := os.ReadFile(config)
			return string(b), err == nil
		}
		edited := strings.HasSuffix(original, "\n")
		if edited {
			if err := os.WriteFile(config, append(after, "[x]\n\ty = 1\n"...), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, there := takeBack()
		switch {
		case edited && got != original+"[x]\n\ty = 1\n":
			t.Errorf("edited since: %q is left of %q", got, original)
		case !edited && (there != (original != "none") || there && got != original):
			t.Errorf("%q (exists: %v) is left of %q", got, there, original)
		}
	}
}
