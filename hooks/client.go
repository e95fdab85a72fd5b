package hooks

import (
	"os"

	"cachebro/store/leaf/procfs"
)

// clientPID returns the pid of the client that runs the hooks. Clients start hooks through a shell,
// so that is our nearest ancestor that is not a shell.
func clientPID() int {
	pid := os.Getppid()
	for range 5 {
		st, err := procfs.ReadStat(pid)
		if err != nil {
			return 0
		}
		switch st.Comm {
		case "sh", "bash", "dash", "zsh", "ash", "busybox", "env", "timeout":
			pid = st.Parent
			continue
		}
		return pid
	}
	return 0
}
