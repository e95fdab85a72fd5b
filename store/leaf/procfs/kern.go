//go:build portable || darwin

package procfs

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// This file parses what darwin's kernel reports about processes. The tag "portable" includes it on
// other systems, so that its tests run on Linux.

// kernArgs parses the answer of sysctl kern.procargs2. It consists of the number of arguments in
// four bytes, the program's path, NULs up to the next boundary, the arguments and the environment
// variables. A NUL ends each of them. An empty variable ends the environment, and system data
// follows. For processes of other users, the environment and perhaps the end of an argument are
// missing.
func kernArgs(b []byte) (args, env []byte, err error) {
	if len(b) < 4 {
		return nil, nil, fmt.Errorf("kern.procargs2: %d bytes", len(b))
	}
	n := int32(binary.NativeEndian.Uint32(b))
	_, b, ok := bytes.Cut(b[4:], []byte{0})
	if n < 0 || !ok {
		return nil, nil, fmt.Errorf("kern.procargs2: %d arguments and no program", n)
	}
	// An empty first argument cannot be distinguished from the padding.
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
			break // an incomplete variable
		}
		end += l + 1
	}
	return args, env[:end], nil
}

// From sys/proc.h.
const (
	kernRunning = 2      // SRUN
	kernSleeps  = 3      // SSLEEP
	kernStopped = 4      // SSTOP
	kernZombie  = 5      // SZOMB
	kernExiting = 0x2000 // P_WEXIT: it has begun to exit
)

// kernStat makes a Stat from the answer of kern.proc.pid. comm ends at the first NUL.
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
	if flag&kernExiting != 0 {
		s.Flags = Exiting
	}
	return s
}

// kernDir returns the working directory in a struct proc_vnodepathinfo of sys/proc_info.h. The
// struct has a struct vnode_info of 152 bytes and a path, first for the working directory and then
// for the root.
func kernDir(b []byte) string {
	if len(b) < kernDirs {
		return ""
	}
	dir, _, _ := bytes.Cut(b[152:152+1024], []byte{0})
	return string(dir)
}

const kernDirs = 2 * (152 + 1024)
