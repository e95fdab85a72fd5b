package hooks

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// clientPID is the process that runs the hooks: our nearest ancestor that is no
// shell, because clients start hooks through one.
func clientPID() int {
	pid := os.Getppid()
	for range 5 {
		comm, ppid, err := parent(pid)
		if err != nil {
			return 0
		}
		switch comm {
		case "sh", "bash", "dash", "zsh", "ash", "busybox", "env", "timeout":
			pid = ppid
			continue
		}
		return pid
	}
	return 0
}

// parent reads the command name and parent of a process.
func parent(pid int) (comm string, ppid int, err error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", 0, err
	}
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return "", 0, fmt.Errorf("stat of process %d: unexpected form", pid)
	}
	f := bytes.Fields(b[end+1:])
	if len(f) < 2 {
		return "", 0, fmt.Errorf("stat of process %d: unexpected form", pid)
	}
	ppid, err = strconv.Atoi(string(f[1]))
	return string(b[open+1 : end]), ppid, err
}
