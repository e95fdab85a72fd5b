package capture

import (
	"time"

	"cachebro/fusefs"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/spool"
)

// Watched says whether Beside is called for everything that is changed without the mount.
func (c *Capture) Watched(on bool) { c.watched.Store(on) }

// Beside records that somebody did something to a path without going through the mount. The
// daemon looks at the path to see what became of it; op says what is known now. OpRename: the
// path p was renamed to to. OpMkdir: p is a new, empty directory. OpCreate: p is new. OpOutside:
// something else happened to p. st is the state in which p was seen, zero if it was not there.
// If p has changed when the daemon looks, another record explains that.
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
