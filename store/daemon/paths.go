package daemon

import (
	"bytes"
	"strings"

	"cachebro/store"
	"cachebro/store/wire"
)

// cleanPath parses a client's path once, at the edge: relative to the root, or
// absolute inside the root or the mountpoint. Anything that could mean a place
// outside is refused, not mended. Trailing and double slashes and "." go.
func (d *Daemon) cleanPath(raw []byte) (store.Path, error) {
	if bytes.IndexByte(raw, 0) >= 0 {
		return "", wire.Errorf(wire.ErrBadRequest, "", "path contains a NUL byte")
	}
	p := string(raw)
	if strings.HasPrefix(p, "/") {
		rel, ok := below(p, d.o.Root)
		if !ok {
			if at := d.mounts.mountpoint(); at != "" {
				rel, ok = below(p, at)
			}
		}
		if !ok {
			return "", wire.Errorf(wire.ErrOutside, "give a path below "+d.o.Root, "%q is outside the project %s", p, d.o.Root)
		}
		p = rel
	}
	parts := strings.Split(p, "/")
	out := parts[:0]
	for _, part := range parts {
		switch part {
		case "", ".":
		case "..":
			return "", wire.Errorf(wire.ErrOutside, "give a path below the project's root without ..", "%q contains \"..\"", string(raw))
		default:
			out = append(out, part)
		}
	}
	return store.Path(strings.Join(out, "/")), nil
}

// below returns p relative to dir, if it is dir or inside.
func below(p, dir string) (string, bool) {
	if p == dir {
		return "", true
	}
	if dir == "/" {
		return p[1:], true
	}
	if strings.HasPrefix(p, dir+"/") {
		return p[len(dir)+1:], true
	}
	return "", false
}
