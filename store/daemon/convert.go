package daemon

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

var classNames = [...]string{"tracked", "ignored", "excluded"}

func opName(op store.Op) string {
	if int(op) < len(opNames) && opNames[op] != "" {
		return opNames[op]
	}
	return "unknown"
}

// opsOf parses the names of operations.
func opsOf(names []string) ([]store.Op, error) {
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

func hashText(h store.Hash) string {
	if h == (store.Hash{}) {
		return ""
	}
	return hex.EncodeToString(h[:])
}

func hashOf(text string) (h store.Hash, err error) {
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

func actorOut(a store.Actor) wire.Actor {
	return wire.Actor{PID: a.PID, UID: a.UID, Comm: a.Comm, Args: a.Args, Session: string(a.Session), Agent: a.Agent,
		Prompt: a.Prompt, ToolCall: a.ToolCall, Tool: a.Tool, Uncertain: a.Uncertain}
}

func pathOut(p store.Path) []byte {
	if p == "" {
		return nil
	}
	return []byte(p)
}

func timeOut(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

func versionOut(v store.Version) wire.Version {
	class := "tracked"
	if int(v.Class) < len(classNames) {
		class = classNames[v.Class]
	}
	return wire.Version{
		Seq: v.Seq, Path: []byte(v.Path), Op: opName(v.Op), Class: class, From: pathOut(v.From), To: pathOut(v.To), Target: []byte(v.Target),
		Hash: hashText(v.Blob), NoContent: v.NoContent, Size: v.Stat.Size, Mode: v.Stat.Mode, Time: timeOut(v.Time), Mtime: timeOut(v.Stat.Mtime),
		Actor: actorOut(v.Actor), Prev: v.Prev, Plan: v.Plan, Idle: v.Idle, Deleted: v.Deleted(),
	}
}

func gapOut(g store.Gap) wire.Gap {
	return wire.Gap{Path: []byte(g.Path), Time: timeOut(g.Time), Reason: g.Reason}
}
