package onwire

import (
	"encoding/hex"
	"time"

	"cachebro/store"
	"cachebro/store/wire"
)

var opNames = [...]string{
	store.OpOpen: "open", store.OpCreate: "create", store.OpWrite: "write", store.OpTruncate: "truncate", store.OpRename: "rename",
	store.OpExchange: "exchange", store.OpLink: "link", store.OpUnlink: "unlink", store.OpSymlink: "symlink", store.OpMkdir: "mkdir",
	store.OpRmdir: "rmdir", store.OpChmod: "chmod", store.OpMknod: "mknod", store.OpBaseline: "baseline", store.OpOutside: "outside",
	store.OpMoved: "moved", store.OpSeen: "seen",
}

// OpName returns the name of an operation.
func OpName(op store.Op) string {
	if int(op) < len(opNames) && opNames[op] != "" {
		return opNames[op]
	}
	return "unknown"
}

// ParseOps parses the names of operations.
func ParseOps(names []string) ([]store.Op, error) {
	var out []store.Op
next:
	for _, n := range names {
		for op, name := range opNames {
			if name == n && name != "" {
				out = append(out, store.Op(op))
				continue next
			}
		}
		return nil, wire.Errorf(wire.ErrBadRequest, "one of create, write, truncate, rename, unlink, chmod, …", "unknown operation %q", n)
	}
	return out, nil
}

// Hash returns a hash in hex, or "" for the zero hash.
func Hash(h store.Hash) string {
	if h == (store.Hash{}) {
		return ""
	}
	return hex.EncodeToString(h[:])
}

// ParseHash parses a SHA-256 in hex. "" is the zero hash.
func ParseHash(text string) (h store.Hash, err error) {
	if text == "" {
		return h, nil
	}
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(h) {
		return h, wire.Errorf(wire.ErrBadRequest, "", "%q is not the hex form of a SHA-256", text)
	}
	copy(h[:], b)
	return h, nil
}

// Actor converts the actor of a version.
func Actor(a store.Actor) wire.Actor {
	return wire.Actor{PID: a.PID, UID: a.UID, Comm: a.Comm, Args: a.Args, Session: string(a.Session), Agent: a.Agent,
		Prompt: a.Prompt, ToolCall: a.ToolCall, Tool: a.Tool, Uncertain: a.Uncertain, Late: a.Late}
}

// Path converts a path to bytes, and "" to nil.
func Path(p store.Path) []byte {
	if p == "" {
		return nil
	}
	return []byte(p)
}

// Time converts a time in ns since the epoch, and 0 to the zero time.
func Time(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// Version converts a version. It does not set Number.
func Version(v store.Version) wire.Version {
	return wire.Version{
		Seq: v.Seq, Path: []byte(v.Path), Op: OpName(v.Op), Class: v.Class.String(), From: Path(v.From), To: Path(v.To), Target: []byte(v.Target),
		Hash: Hash(v.Blob), NoContent: v.NoContent, Size: v.Stat.Size, Mode: v.Stat.Mode, Time: Time(v.Time), Mtime: Time(v.Stat.Mtime),
		Actor: Actor(v.Actor), Prev: v.Prev, Plan: v.Plan, Idle: v.Idle, Deleted: v.Deleted(),
	}
}

// Gap converts a gap.
func Gap(g store.Gap) wire.Gap {
	return wire.Gap{Path: []byte(g.Path), Time: Time(g.Time), Reason: g.Reason}
}
