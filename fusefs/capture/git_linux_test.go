package capture

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A file of git that is removed while it is open has no name any more, although the history saves
// it under another name. The open file used to appear under that saved name, and could be linked
// again.
func TestRemovedFileOfGitHasNoName(t *testing.T) {
	kept := t.TempDir()
	m := mount(t, map[string]string{
		".git/HEAD": "ref: refs/heads/main\n", ".git/objects/12/34": "blob", ".git/packed-refs": string(make([]byte, gitInline+1)), ".git/refs/heads/main": "1\n",
	}, func(o *Options) { o.Git = kept })
	for _, name := range []string{".git/objects/12/34", ".git/packed-refs", ".git/refs/heads/main"} {
		f, err := os.Open(filepath.Join(m.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		m.sh("rm -f " + name)
		if name == ".git/packed-refs" { // or was replaced
			m.sh("echo x >" + name + "; echo y >.git/new; exec 3<" + name + "; mv .git/new " + name + "; stat -Lc %h /dev/fd/3 | grep -x 0")
		}
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Nlink != 0 {
			t.Errorf("%s: %d names, %v", name, st.Nlink, err)
		}
		err = unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.AT_FDCWD, filepath.Join(m.dir, "again"), unix.AT_SYMLINK_FOLLOW)
		if err != unix.ENOENT {
			t.Errorf("%s is linked again: %v", name, err)
		}
	}
	if all, err := filepath.Glob(kept + "/*/*"); err != nil || len(all) == 0 {
		t.Errorf("nothing is kept: %v", err)
	}
}
