package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestRenew: another binary takes over a mount in use. A shell on the mount, with a file open for
// writing, continues, and every version is recorded.
func TestRenew(t *testing.T) {
	p := newProject(t, map[string]string{"a.txt": "1\n"})
	p.mount()
	copied := binary + ".renewed" // the harness recognises cachebro's processes by this name
	t.Cleanup(func() { os.Remove(copied) })
	if out, err := exec.Command("cp", binary, copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	mountd, supervisor := p.process("mountd"), p.process("supervise")
	shell := exec.Command("sh", "-c", `exec 3>open.txt; echo one >&3; read go; echo two >&3; exec 3>&-; echo 2 >a.txt; pwd -P`)
	shell.Dir, shell.Env = p.dir, p.env
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	shell.Stdout, shell.Stderr = &said, &said
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the shell has its file open", func() bool {
		text, err := os.ReadFile(p.path("open.txt"))
		return err == nil && string(text) == "one\n"
	})
	cmd := exec.Command(copied, "mount", "--upgrade", p.dir)
	cmd.Env, cmd.Dir = p.env, p.base
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	fmt.Fprintln(in, "go")
	if err := shell.Wait(); err != nil || said.String() != p.dir+"\n" {
		t.Errorf("the shell: %v, %q", err, said.String())
	}
	p.wantContents("open.txt", "one\ntwo\n")
	p.wantContents("a.txt", "1\n", "2\n")
	for sub, old := range map[string]int{"mountd": mountd, "supervise": supervisor} {
		eventually(t, 20*time.Second, sub+" is of the new binary", func() bool {
			pid := find(p, sub)
			exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
			return pid > 0 && pid != old && exe == copied
		})
	}
	// The new processes supervise each other like the old ones.
	_ = syscall.Kill(p.process("mountd"), syscall.SIGKILL)
	p.write("a.txt", "3\n")
	p.wantContents("a.txt", "2\n", "3\n")
}
