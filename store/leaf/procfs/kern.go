//go:build portable || darwin

package procfs

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// What darwin's kernel tells of a process, in bytes. Beside darwin it is
// built with the tag "portable", so that its tests run on Linux.

// kernArgs takes the answer of sysctl kern.procargs2 apart: the number of arguments in
// four bytes, the program's path, NULs up to the next boundary, the arguments and the
// variables of the environment, each ended by a NUL. What comes behind an empty one is
// the system's own. A process of somebody else shows no environment, and perhaps the end
// of an argument is missing.
func kernArgs(b []byte) (args, env []byte, err error) {
	if len(b) < 4 {
		return nil, nil, fmt.Errorf("kern.procargs2: %d bytes", len(b))
	}
	n := int32(binary.NativeEndian.Uint32(b))
	_, b, ok := bytes.Cut(b[4:], []byte{0})
	if n < 0 || !ok {
		return nil, nil, fmt.Errorf("kern.procargs2: %d arguments and no program", n)
	}
	// An empty first argument cannot be told from what fills up to the boundary.
	b = bytes.TrimLeft(b, "\x00")
	end := 0
	for ; n > 0 && end < len(b); n-- {
		l := bytes.IndexByte(b[end:], 0)
		if l < 0 {
			return b, nil, nil
		}
		end += l + 1
	}
	args, env = b[:end], b[end:]
	for end = 0; end < len(env) && env[end] != 0; {
		l := bytes.IndexByte(env[end:], 0)
		if l < 0 {
			break // half a variable
		}
		end += l + 1
	}
	return args, env[:end], nil
}

// Of sys/proc.h.
const (
	kernRunning = 2      // SRUN
	kernSleeps  = 3      // SSLEEP
	kernStopped = 4      // SSTOP
	kernZombie  = 5      // SZOMB
	kernWeary   = 0x2000 // P_WEXIT: it has begun to end
)

// kernStat is a Stat of what kern.proc.pid says. comm ends at the first NUL.
func kernStat(comm []byte, state int8, flag, parent, group int32, sec int64, usec int32) Stat {
	name, _, _ := bytes.Cut(comm, []byte{0})
	s := Stat{Comm: string(name), State: '?', Parent: int(parent), Group: int(group), Start: uint64(sec)*1e6 + uint64(usec)}
	switch state {
	case kernRunning:
		s.State = 'R'
	case kernSleeps:
		s.State = 'S'
	case kernStopped:
		s.State = 'T'
	case kernZombie:
		s.State = 'Z'
	}
	if flag&kernWeary != 0 {
		s.Flags = Exiting
	}
	return s
}

// kernDir is the working directory in a struct proc_vnodepathinfo of sys/proc_info.h: a
// struct vnode_info of 152 bytes and the path, for that directory and for the root.
func kernDir(b []byte) string {
	if len(b) < kernDirs {
		return ""
	}
	dir, _, _ := bytes.Cut(b[152:152+1024], []byte{0})
	return string(dir)
}

const kernDirs = 2 * (152 + 1024)
