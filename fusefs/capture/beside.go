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

// Beside records that a path was changed bypassing the mount. The daemon later looks at the path
// for its new state. st is the state in which p was seen, or zero if it did not exist. op says what
// is known:
//
// - OpRename: p was renamed to to
// - OpMkdir: p is a new, empty directory
// - OpCreate: p is new
// - OpOutside: p changed in another way
func (c *Capture) Beside(by fusefs.Caller, op event.Op, p, to string, st event.Stat) {
	class, dir := c.Class(p, isDir(st)), isDir(st) || st.Mode == 0
	c.rule(p)
	if to != "" {
		c.rule(to)
		class = min(class, c.Class(to, isDir(st)))
	}
	if dir && op != event.OpMkdir {
		c.recorded.clear()
		c.forget(p, true)
		if to != "" {
			c.forget(to, true)
			c.scans.relocated(class != ignore.Excluded)
		}
	}
	if class == ignore.Excluded {
		return
	}
	c.appendBy(by, &spool.Record{Kind: spool.KindBeside, Op: op, Class: class, Path: p, Path2: to, Stat: st, Time: time.Now().UnixNano()})
}
