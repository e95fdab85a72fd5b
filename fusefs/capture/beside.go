package capture

import (
	"time"

	"cachebro/fusefs"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/spool"
)

// Watched sets whether Beside is called for every change that bypasses the mount.
func (c *Capture) Watched(on bool) { c.watched.Store(on) }

// Beside records that a path was changed without going through the mount. The daemon later reads
// the path's new state. st is the state in which p was seen, or zero if it did not exist. op says
// what is known:
//
// - OpRename: p was renamed to newPath
// - OpMkdir: p is a new, empty directory
// - OpCreate: p is new
// - OpOutside: p changed in another way
func (c *Capture) Beside(by fusefs.Caller, op event.Op, p, newPath string, st event.Stat) {
	class, dir := c.Class(p, isDir(st)), isDir(st) || st.Mode == 0
	c.rule(p)
	if newPath != "" {
		c.rule(newPath)
		class = min(class, c.Class(newPath, isDir(st)))
	}
	if dir && op != event.OpMkdir {
		c.recorded.clear()
		c.forget(p, true)
		if newPath != "" {
			c.forget(newPath, true)
			c.scans.relocated(class != ignore.Excluded)
		}
	}
	if class == ignore.Excluded {
		return
	}
	c.appendBy(by, &spool.Record{Kind: spool.KindBeside, Op: op, Class: class, Path: p, Path2: newPath, Stat: st, Time: time.Now().UnixNano()})
}
