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

// Beside records that a path was changed bypassing the mount. The daemon looks at the path later
// to find its new state. op is what is known now: OpRename means that p was renamed to to,
// OpMkdir that p is a new, empty directory, OpCreate that p is new, and OpOutside that p was
// changed in another way. st is the state in which p was seen, or zero if it did not exist. If p
// has changed again when the daemon looks, there is another record for that change.
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
