// Package onwire converts the store's values, paths and errors to those of package wire, and parses
// what clients send.
package onwire

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"cachebro/store"
	"cachebro/store/wire"
	"cachebro/store/wire/visible"

	"golang.org/x/sys/unix"
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

// Conflict converts a path that a plan leaves alone.
func Conflict(c store.Conflict) wire.Conflict {
	return wire.Conflict{Path: []byte(c.Path), Why: c.Why, Actor: Actor(c.Actor), Time: Time(c.Time)}
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

// Decoded makes a handler from a function that needs only the params of a request.
func Decoded[Q, A any](h func(context.Context, Q) (A, []byte, error)) wire.Handler {
	return WithRequest(func(ctx context.Context, _ *wire.Request, q Q) (any, []byte, error) { return h(ctx, q) })
}

// WithRequest makes a handler from a function that needs the params of a request, and the request
// itself.
func WithRequest[Q any](h func(context.Context, *wire.Request, Q) (any, []byte, error)) wire.Handler {
	return func(ctx context.Context, r *wire.Request) (any, []byte, error) {
		var q Q
		if err := r.Decode(&q); err != nil {
			return nil, nil, err
		}
		return h(ctx, r, q)
	}
}

// Error converts an error of the store to a wire error with a code.
func Error(err error) error {
	var already *wire.Error
	if err == nil || errors.As(err, &already) {
		return err
	}
	for _, m := range []struct {
		from error
		to   *wire.Error
	}{
		{store.ErrNotFound, wire.ErrNotFound}, {store.ErrPruned, wire.ErrPruned}, {store.ErrNoSpace, wire.ErrNoSpace},
		{store.ErrDamaged, wire.ErrDamaged}, {store.ErrNewer, wire.ErrNewer}, {store.ErrLocked, wire.ErrLocked},
		{store.ErrTooLarge, wire.ErrTooLarge}, {store.ErrClosed, wire.ErrNoDaemon}, {unix.EFBIG, wire.ErrInternal}, {unix.EMFILE, wire.ErrInternal},
	} {
		if errors.Is(err, m.from) {
			return &wire.Error{Code: m.to.Code, Message: err.Error(), Hint: store.Hint(err)}
		}
	}
	return fmt.Errorf("store: %w", err)
}

// Paths parses paths that clients send.
type Paths struct {
	Root       string        // the project's root; absolute
	Mountpoint func() string // "": nothing is mounted
}

// Clean parses a path that enters the daemon. The path is relative to the root, or absolute inside
// the root or the mountpoint. Clean removes trailing and double slashes and ".". A path that could
// lead out of the project is an error.
func (ps Paths) Clean(raw []byte) (store.Path, error) {
	if bytes.IndexByte(raw, 0) >= 0 {
		return "", wire.Errorf(wire.ErrBadRequest, "", "path contains a NUL byte")
	}
	p := string(raw)
	if strings.HasPrefix(p, "/") {
		rel, ok := Below(p, ps.Root)
		if !ok {
			if at := ps.Mountpoint(); at != "" {
				rel, ok = Below(p, at)
			}
		}
		if !ok {
			return "", wire.Errorf(wire.ErrOutside, "give a path in "+ps.Root, "%q is outside the project %s", p, ps.Root)
		}
		p = rel
	}
	parts := strings.Split(p, "/")
	out := parts[:0]
	for _, part := range parts {
		switch part {
		case "", ".":
		case "..":
			return "", wire.Errorf(wire.ErrOutside, "give a path in the project without ..", "%q contains \"..\"", string(raw))
		default:
			out = append(out, part)
		}
	}
	return store.Path(strings.Join(out, "/")), nil
}

// Display returns a path for use in a sentence. It quotes characters that act on a terminal or end
// a line.
func Display(p store.Path) string {
	if p == "" {
		return "."
	}
	return visible.Name(string(p))
}

// ShellName returns a path as a word of a command line that users may paste into a shell.
func ShellName(p store.Path) string { return visible.Arg(cmp.Or(string(p), ".")) }

// Below returns p relative to dir. It returns false if p is outside dir.
func Below(p, dir string) (string, bool) {
	if p == dir {
		return "", true
	}
	if dir == "/" {
		return strings.CutPrefix(p, "/")
	}
	if strings.HasPrefix(p, dir+"/") {
		return p[len(dir)+1:], true
	}
	return "", false
}

// Under reports whether a path is dir or in its subtree. It returns false for "".
func Under(p string, dir store.Path) bool {
	_, ok := Below(p, string(dir))
	return ok && p != ""
}

// Clock formats the time of day of a time in ns since the epoch.
func Clock(ns int64) string { return Time(ns).Format("15:04") }
