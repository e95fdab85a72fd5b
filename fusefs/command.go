//go:build linux || darwin

package fusefs

import (
	"strings"
	"time"

	"cachebro/store/leaf/procfs"
)

const (
	// commandMax limits how much of a command line is read, because some have megabytes.
	commandMax = 4 << 10
	// commandsAtOnce limits concurrent reads. The first look at a process reads all its ancestors
	// too, and each read occupies a thread for as long as the process hangs.
	commandsAtOnce = 64
	// execMax is the longest pause while waiting for an exec to end. Each pause is twice the one
	// before.
	execMax = 32 * time.Millisecond
)

// commands reads the command lines of processes. The kernel reads them from the process's memory,
// whose lock the process may hold while it waits for another reply of ours. So no request waits for
// this reader. Of a command line that was not read in time, only the process's name is known.
type commands struct {
	disabled bool
	slots    chan struct{}  // one slot for each read in progress; never closed
	tell     func(*Process) // called with a process whose command was read; may be nil
	ask      func(*Process) *Command
}

// read begins to read the command of a process that was just found.
func (c *commands) read(p *Process) {
	if c.disabled {
		return
	}
	c.begin(func() {
		if cmd := c.ask(p); cmd != nil {
			p.command.Store(cmd)
			if c.tell != nil {
				c.tell(p)
			}
		}
	})
}

// begin runs look in the background if a slot is free. Nothing waits for it. It ends when the
// command line can be read or the process has ended.
func (c *commands) begin(look func()) (begun bool) {
	select {
	case c.slots <- struct{}{}:
	default:
		return false
	}
	go func() {
		defer func() { <-c.slots }()
		look()
	}()
	return true
}

// commandLine reads the beginning of a command line. During an exec, the new program has its name
// but no arguments yet, so commandLine retries.
func commandLine(pid uint32) (b []byte, err error) {
	for pause := time.Millisecond; ; pause *= 2 {
		b, err = procfs.Begin(int(pid), commandMax)
		if err != nil || len(b) > 0 || pause > execMax {
			return b, err
		}
		time.Sleep(pause)
	}
}

// commandOf reads the command line of p. It returns nil if it cannot, or if the pid now belongs to
// another process or program.
func commandOf(p *Process) *Command {
	b, err := commandLine(p.PID)
	if err != nil || len(b) == 0 {
		return nil
	}
	cmd := &Command{Dir: procfs.Dir(int(p.PID)), Cut: len(b) == commandMax}
	if st, err := procfs.ReadStat(int(p.PID)); err != nil || st.Start != p.Start || st.Comm != p.Comm || st.Image != p.Image {
		return nil
	}
	cmd.Args = procfs.SplitArgs(b)
	if last := len(cmd.Args) - 1; cmd.Cut && b[len(b)-1] != 0 { // the last word may be incomplete
		if i := strings.LastIndexAny(cmd.Args[last], " \t\n"); i > 0 {
			cmd.Args[last] = cmd.Args[last][:i]
		} else {
			cmd.Args = cmd.Args[:last]
		}
	}
	return cmd
}
