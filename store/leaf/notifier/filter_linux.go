//go:build linux && (amd64 || arm64)

package notifier

import "golang.org/x/sys/unix"

// Offsets in struct seccomp_data.
const (
	OffNR   = 0
	OffArch = 4
	OffArgs = 16
)

// The instructions that filters use.
const (
	Load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	Equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	Least = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	Any   = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	Mask  = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	Ret   = unix.BPF_RET | unix.BPF_K
)

// The results of a filter.
var (
	Show  = Stmt(Ret, unix.SECCOMP_RET_USER_NOTIF)
	Allow = Stmt(Ret, unix.SECCOMP_RET_ALLOW)
)

// Refuse makes a call fail with an error.
func Refuse(errno unix.Errno) unix.SockFilter {
	return Stmt(Ret, unix.SECCOMP_RET_ERRNO|uint32(errno))
}

// Stmt returns an instruction without a jump.
func Stmt(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }

// Jump returns a conditional jump. yes and no are the numbers of instructions that it skips if the
// condition holds and if it does not.
func Jump(code uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: code, Jt: yes, Jf: no, K: k}
}
