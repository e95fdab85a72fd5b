package gitstate

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Two indexes count as the same if git only wrote newer times, in any version of the format. They
// differ if something was staged, or if one is damaged.
func TestStaged(t *testing.T) {
	for _, version := range []string{"2", "3", "4"} {
		dir := t.TempDir()
		run := func(script string) [32]byte {
			t.Helper()
			cmd := exec.Command("sh", "-ec", script)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", script, err, out)
			}
			raw, err := os.ReadFile(filepath.Join(dir, ".git/index"))
			if err != nil {
				t.Fatal(err)
			}
			sum, ok := staged(raw)
			if !ok {
				t.Fatalf("version %s, %s: not understood", version, script)
			}
			for _, bad := range [][]byte{raw[:len(raw)/2], append([]byte("DIRCgarbage"), raw[11:]...), nil} {
				if got, ok := staged(bad); ok && got == sum {
					t.Errorf("version %s, %s: damaged, and the same", version, script)
				}
			}
			return sum
		}
		one := run("git init -q .; mkdir a; for i in 1 22 333; do echo $i >a/f$i; echo $i >g$i; done; echo x >later; git add a g*; git update-index --index-version " + version)
		if version == "3" {
			one = run("git add -N later") // git writes version 3 only if an entry needs it
		}
		if again := run("touch -d 2001-01-01 a/* g*; git update-index --refresh -q || true"); again != one {
			t.Errorf("version %s: newer times make another index", version)
		}
		for _, change := range []string{"echo y >>g1; git add g1", "git update-index --chmod=+x g22", "git rm -q --cached a/f1", "echo new >new; git add new"} {
			now := run(change)
			if now == one {
				t.Errorf("version %s: not seen: %s", version, change)
			}
			one = now
		}
	}
}
