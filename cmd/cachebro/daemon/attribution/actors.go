package attribution

import (
	"fmt"

	"cachebro/store"
	"cachebro/store/leaf/procfs"
	"cachebro/store/leaf/spool"
	"cachebro/store/onwire"
)

// Outsider is the actor of changes that bypassed the mount.
var Outsider = store.Actor{Comm: "outside"}

// ByWhom describes who made a version, as a phrase that fits into a sentence.
func ByWhom(a store.Actor) string {
	switch {
	case a.Tool != "" && a.Tool != "Bash":
		return a.Tool
	case a.Comm == Outsider.Comm && a.PID == 0:
		return "a process that bypassed the mount"
	case a.Comm != "" && a.PID != 0:
		return fmt.Sprintf("%s (pid %d)", onwire.Display(store.Path(a.Comm)), a.PID)
	case a.Comm != "":
		return onwire.Display(store.Path(a.Comm))
	}
	return "an unknown process"
}

// OwnerOf returns the key of a living process.
func OwnerOf(pid int) Key {
	if pid <= 0 {
		return Key{}
	}
	st, err := procfs.ReadStat(pid)
	if err != nil {
		return Key{PID: uint32(pid)}
	}
	return Key{uint32(pid), st.Start}
}

// WriterOf returns the key of the process that a record names.
func WriterOf(r *spool.Record) Key { return Key{r.PID, r.Start} }
