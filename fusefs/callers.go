//go:build linux || darwin

package fusefs

// Callers finds the process of a thread for code that observes system calls without a mount.
type Callers struct{ procs *processes }

// NewCallers returns a Callers that calls told when the command of a process becomes known.
func NewCallers(told func(*Process)) *Callers {
	c := &Callers{newProcesses()}
	c.procs.commands.tell = told
	return c
}

// Of returns the process of a thread that is about to change something.
func (c *Callers) Of(tid uint32) Caller {
	by := Caller{PID: tid, TID: tid}
	by.Proc = c.procs.thread(tid, trustWrite).proc
	if by.Proc != nil {
		by.PID, by.UID = by.Proc.PID, by.Proc.UID
	}
	return by
}
