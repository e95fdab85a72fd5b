package procfs

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"
)

// A command's name may hold spaces, parentheses and what looks like fields.
func TestParseStat(t *testing.T) {
	rest := "S 7 1 1 0 -1 4194308 0 0 0 0 0 0 0 0 20 0 1 0 98765 0 0"
	for _, name := range []string{"sh", "a b", "x) R 9 (y", "", "(("} {
		st, err := parseStat(1, []byte("4711 ("+name+") "+rest+"\n"))
		if want := (Stat{Comm: name, State: 'S', Parent: 7, Group: 1, Flags: 4194308, Start: 98765}); err != nil || st != want {
			t.Errorf("stat of %q: %+v, %v, want %+v", name, st, err, want)
		}
	}
	for _, bad := range []string{"", "4711", "4711 (sh", "4711 (sh) S 7", "4711 )sh( " + rest, "4711 (sh) S x 1 1 0 -1 4194308 0 0 0 0 0 0 0 0 20 0 1 0 98765 0 0"} {
		if st, err := parseStat(1, []byte(bad)); err == nil {
			t.Errorf("stat %q gives %+v", bad, st)
		}
	}
}

func TestFields(t *testing.T) {
	var got []string
	for name, value := range Fields([]byte("Name:\ta: b\nno field\nGroups:\t0 1 \nEmpty:\nlast:\t1")) {
		if got = append(got, name+"="+value); name == "Empty" {
			break
		}
	}
	if want := []string{"Name=a: b", "Groups=0 1", "Empty="}; !slices.Equal(got, want) {
		t.Errorf("fields %q, want %q", got, want)
	}
}

// What is told of this process, of a child, and of the child when it has ended.
func TestProcesses(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no /proc")
	}
	self := os.Getpid()
	st, err := ReadStat(self)
	if err != nil || st.Parent != os.Getppid() || st.Start == 0 || st.Flags&Exiting != 0 {
		t.Fatalf("stat of this process: %+v, %v", st, err)
	}
	if killed, err := KillPending(self); killed || err != nil {
		t.Errorf("SIGKILL is pending for this process: %v, %v", killed, err)
	}
	if got := Args(self); !slices.Equal(got, os.Args) {
		t.Errorf("arguments %q, want %q", got, os.Args)
	}
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if !slices.Contains(All(), pid) {
		t.Errorf("process %d is not among all", pid)
	}
	if st, err := ReadStat(pid); err != nil || st.Parent != self {
		t.Errorf("stat of the child: %+v, %v", st, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if st, err := ReadStat(pid); err == nil && st.State == 'Z' {
			break
		} else if time.Now().After(end) {
			t.Fatalf("a killed child shows as %+v, %v", st, err)
		}
	}
	_ = cmd.Wait()
	if _, err := ReadStat(pid); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stat of a process that is gone: %v", err)
	}
	if _, err := KillPending(pid); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("signals of a process that is gone: %v", err)
	}
}
