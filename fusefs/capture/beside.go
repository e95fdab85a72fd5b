package capture

import (
	"time"

	"cachebro/fusefs"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/spool"
)

// Watched says whether Beside is told of everything that is changed without the mount.
func (c *Capture) Watched(on bool) { c.watched.Store(on) }

// Beside records that somebody did something to a path without going through the mount.
// What became of it the daemon finds by looking; op says what is known: OpRename, of a
// path that has the name to now, OpMkdir, of a directory in which nothing was, OpCreate,
// of what is new there, and OpOutside of everything else. st is how the path was seen, zero if it was not there: if
// it is otherwise by then, something else happened, of which another record tells.
func (c *Capture) Beside(by fusefs.Caller, op event.Op, p, to string, st event.Stat) {
	class, dir := c.Class(p, isDir(st)), isDir(st) || st.Mode == 0
	c.rule(p)
	if to != "" {
		c.rule(to)
		class = min(class, c.Class(to, isDir(st)))
	}
	if dir && op != event.OpMkdir {
		c.told.clear()
		c.forget(p, true)
		if to != "" {
			c.forget(to, true)
			c.relocated(class != ignore.Excluded)
		}
	}
	if class == ignore.Excluded {
		return
	}
	c.appendBy(by, &spool.Record{Kind: spool.KindBeside, Op: op, Class: class, Path: p, Path2: to, Stat: st, Time: time.Now().UnixNano()})
}
