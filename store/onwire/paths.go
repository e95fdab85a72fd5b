package onwire

import (
	"bytes"
	"strings"

	"cachebro/store"
	"cachebro/store/wire"
)

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
