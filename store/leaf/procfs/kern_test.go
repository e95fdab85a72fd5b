//go:build portable || darwin

package procfs

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// XNU builds the answers of kern.procargs2 (bsd/kern/kern_sysctl.c) in this order: the number of
// arguments, the program's path padded to a multiple of eight bytes, arguments, environment, an
// empty string, and what the system adds for the program's start.
func TestDarwinsArguments(t *testing.T) {
	n := func(n int32) string { return string(binary.NativeEndian.AppendUint32(nil, uint32(n))) }
	for name, c := range map[string]struct {
		answer, args, env string
		fails             bool
	}{
		"a command":           {n(3) + "/bin/cp\x00\x00\x00\x00\x00cp\x00a b\x00c\x00HOME=/Users/x\x00N=1\x00\x00executable_path=/bin/cp\x00", "cp\x00a b\x00c\x00", "HOME=/Users/x\x00N=1\x00", false},
		"an empty argument":   {n(3) + "/bin/echo\x00\x00\x00\x00echo\x00\x00x\x00A=1\x00\x00ptr_munge=\x00", "echo\x00\x00x\x00", "A=1\x00", false},
		"no environment":      {n(1) + "/sbin/launchd\x00\x00\x00launchd\x00", "launchd\x00", "", false},
		"somebody else's":     {n(2) + "/usr/bin/x\x00x\x00-v\x00\x00\x00\x00", "x\x00-v\x00", "", false},
		"cut in an argument":  {n(2) + "/bin/sh\x00sh\x00-c ec", "sh\x00-c ec", "", false},
		"cut in a variable":   {n(1) + "/bin/sh\x00sh\x00A=1\x00B=", "sh\x00", "A=1\x00", false},
		"more than there are": {n(1<<30) + "/bin/sh\x00sh\x00", "sh\x00", "", false},
		"no arguments":        {n(0) + "/bin/sh\x00\x00A=1\x00", "", "A=1\x00", false},
		"too short":           {"\x01\x00\x00", "", "", true},
		"nothing behind":      {n(1), "", "", true},
		"less than none":      {n(-1) + "/bin/sh\x00sh\x00", "", "", true},
	} {
		args, env, err := kernArgs([]byte(c.answer))
		if string(args) != c.args || string(env) != c.env || (err != nil) != c.fails {
			t.Errorf("%s: arguments %q, environment %q, %v; want %q, %q", name, args, env, err, c.args, c.env)
		}
	}
}

// A name of 16 bytes fills the field except for its NUL. After a shorter name, the field may still
// hold the rest of an earlier name.
func TestDarwinsProcess(t *testing.T) {
	for _, c := range []struct {
		comm  string
		state int8
		flag  int32
		want  Stat
	}{
		{"node\x00er-longer\x00\x00\x00", 2, 0x4004, Stat{Comm: "node", State: 'R'}},
		{"abcdefghijklmnop\x00", 3, 0x2000, Stat{Comm: "abcdefghijklmnop", State: 'S', Flags: Exiting}},
		{"sh\x00", 5, 0, Stat{Comm: "sh", State: 'Z'}},
		{"sh\x00", 4, 0, Stat{Comm: "sh", State: 'T'}},
		{"sh\x00", 1, 0, Stat{Comm: "sh", State: '?'}},
	} {
		c.want.Parent, c.want.Group, c.want.Start = 7, 8, 1700000000000009
		if got := kernStat([]byte(c.comm), c.state, c.flag, 7, 8, 1700000000, 9); got != c.want {
			t.Errorf("%q: %+v, not %+v", c.comm, got, c.want)
		}
	}
}

// struct vnode_info has 152 bytes (sys/proc_info.h: vinfo_stat of 136, type, padding, fsid), and a
// path has 1024.
func TestDarwinsWorkingDirectory(t *testing.T) {
	b := bytes.Repeat([]byte{0xff}, 2352)
	copy(b[152:], "/Users/x/src\x00")
	if got := kernDir(b); got != "/Users/x/src" {
		t.Errorf("the working directory is %q", got)
	}
	if got := kernDir(b[:2351]); got != "" {
		t.Errorf("of an answer that is too short: %q", got)
	}
}
