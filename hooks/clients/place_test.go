package clients

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// init --project used to write through symlinks that a repository contained, so a hostile .claude
// could lead to any file that the user may write. A FIFO used to make init hang forever.
func TestProjectSymlinks(t *testing.T) {
	for name, make := range map[string]func(project, out string) error{
		"directory":   func(p, out string) error { return os.Symlink(out, p+"/.claude") },
		"inside":      func(p, _ string) error { return os.Symlink(".git", p+"/.claude") },
		"up":          func(p, _ string) error { return os.Symlink("../out", p+"/.claude") },
		"file":        func(p, out string) error { return os.Symlink(out+"/settings.json", p+"/.mcp.json") },
		"dangling":    func(p, out string) error { return os.Symlink(out+"/new.json", p+"/.mcp.json") },
		"settings":    func(p, out string) error { return os.Symlink(out+"/settings.json", p+"/.claude/settings.json") },
		"hook":        func(p, _ string) error { return os.Symlink(".git/hooks/post-checkout", p+"/AGENTS.md") },
		"agents.md":   func(p, out string) error { return os.Symlink(out+"/settings.json", p+"/AGENTS.md") },
		"fifo":        func(p, _ string) error { return syscall.Mkfifo(p+"/.mcp.json", 0o600) },
		"fifo agents": func(p, _ string) error { return syscall.Mkfifo(p+"/AGENTS.md", 0o600) },
		"fifo dir":    func(p, _ string) error { return syscall.Mkfifo(p+"/.claude", 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			s := testSetup(t)
			base := t.TempDir()
			s.Project, s.AgentsMD = base+"/p", base+"/p/AGENTS.md"
			out := base + "/out"
			writeFile(t, out+"/settings.json", "{}\n")
			writeFile(t, s.Project+"/.git/settings.json", "{}\n")
			writeFile(t, s.Project+"/.git/hooks/post-checkout", "#!/bin/sh\n")
			if name == "settings" {
				if err := os.Mkdir(s.Project+"/.claude", 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := make(s.Project, out); err != nil {
				t.Fatal(err)
			}
			changes, err := PlanInit(s, []string{"claude"})
			if err != nil {
				t.Fatal(err)
			}
			refused := map[string]bool{} // a client is refused as a whole, with its hooks and its server
			for _, c := range changes {
				if c.Err != nil {
					refused[c.Title] = true
				}
			}
			if err := Apply(s, changes); err != nil || len(refused) != 1 {
				t.Errorf("%v refused, %v", refused, err)
			}
			for file, want := range map[string]string{out + "/settings.json": "{}\n", s.Project + "/.git/settings.json": "{}\n", s.Project + "/.git/hooks/post-checkout": "#!/bin/sh\n"} {
				if b, err := os.ReadFile(file); err != nil || string(b) != want {
					t.Errorf("%s: %q, %v", file, b, err)
				}
			}
			for _, dir := range []string{out, s.Project + "/.git"} {
				if names, err := os.ReadDir(dir); err != nil || len(names) > 2 {
					t.Errorf("in %s: %v, %v", dir, names, err)
				}
			}
			if err := do(t, s, PlanUninit, "claude"); err == nil || !strings.Contains(err.Error(), "left alone") {
				t.Errorf("uninit: %v", err)
			}
		})
	}
}

// A link that replaces a directory after the plan was shown is not followed either.
func TestProjectLinkSwappedIn(t *testing.T) {
	s := testSetup(t)
	base := t.TempDir()
	s.Project = base + "/p"
	writeFile(t, base+"/out/x", "x")
	writeFile(t, s.Project+"/.claude/settings.json", "{}\n")
	changes, err := PlanInit(s, []string{"claude"})
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, base+"/out/settings.json", "{}\n")
	if err := os.Rename(s.Project+"/.claude", s.Project+"/old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(base+"/out", s.Project+"/.claude"); err != nil {
		t.Fatal(err)
	}
	if err := Apply(s, changes); err == nil {
		t.Error("written through a link")
	}
	if b, err := os.ReadFile(filepath.Join(base, "out", "settings.json")); err != nil || string(b) != "{}\n" {
		t.Errorf("%q, %v", b, err)
	}
}
