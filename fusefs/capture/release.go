package capture

import (
	"syscall"

	"cachebro/fusefs"
	"cachebro/store/leaf/attrs"
	"cachebro/store/leaf/spool"
)

var _ fusefs.Releaser = (*Capture)(nil)

// Released copies small queued content on the thread that handles the release of the file handle.
// No program waits for that request, the descriptor is still open, and no worker has to be woken.
// This halves the cost of a small file on two cores.
func (c *Capture) Released(f fusefs.File, fd int) {
	c.copies.mu.Lock()
	j := c.pending[f.ID()]
	mine := j != nil && j.state == queued && j.fd == nil && j.rec.Stat.Size <= inlineSize && c.roomyLast()
	if mine {
		j.state = copying
	}
	c.copies.mu.Unlock()
	switch {
	case !mine:
	case fd < 0:
		c.copy(j, true)
	default:
		c.copyBy(j, true, func(j *job) error { return c.transferFrom(j, fd) })
	}
}

// transferFrom copies small content to the spool, through a descriptor that the caller closes.
func (c *copies) transferFrom(j *job, fd int) error {
	quiet(fd)
	content, err := c.copySmall(j, fd)
	if err != nil {
		return err
	}
	if !c.seal(j) {
		content.Abort()
		return errLost
	}
	n := content.Len()
	if err := content.Commit(j.rec.Seq); err != nil {
		c.unseal(j)
		return err
	}
	c.spooled.Add(n)
	return nil
}

// copySmall copies small content into the spool, without its record.
func (c *copies) copySmall(j *job, fd int) (*spool.Content, error) {
	buf := smallBufs.Get().(*[]byte)
	defer smallBufs.Put(buf)
	for range 3 {
		var before, after syscall.Stat_t
		if err := syscall.Fstat(fd, &before); err != nil {
			return nil, err
		}
		if !j.intact(before.Size, mtime(&before)) {
			return nil, errTorn
		}
		want := (*buf)[:before.Size-j.rec.TailFrom]
		n := 0
		for n < len(want) {
			m, err := syscall.Pread(fd, want[n:], j.rec.TailFrom+int64(n))
			if err == syscall.EINTR {
				continue
			}
			if err != nil {
				return nil, err
			}
			if m == 0 {
				break
			}
			n += m
		}
		if err := syscall.Fstat(fd, &after); err != nil || n != len(want) || after.Size != before.Size || mtime(&after) != mtime(&before) {
			continue
		}
		content, err := c.w.NewContent()
		if err != nil {
			return nil, err
		}
		if _, err := content.Write(want); err != nil {
			content.Abort()
			return nil, err
		}
		return content, nil
	}
	return nil, errTorn
}

// appendWhole appends the version r and its content in one write. It does so for an empty file, and
// for a small one if Options.AtOnce is set, when no other goroutine records the same file.
// Otherwise, or if the content cannot be copied now, it appends nothing and returns false.
func (c *Capture) appendWhole(f fusefs.File, r *spool.Record, by fusefs.Caller) bool {
	empty := r.Stat.Size == 0
	if !empty && (!c.opt.AtOnce || r.Stat.Size > inlineSize || c.roomy() != nil) {
		return false
	}
	c.settle(f, &canceller{}, false) // the content of an earlier version comes first
	if empty {
		r.Stat = withXattrs(f, r.Stat)
		return c.appendWith(f, r, by, &spool.Record{Kind: spool.KindContent, Time: r.Time})
	}
	f.Mark().And(^fusefs.MarkTimes)
	fd, err := f.Open()
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	content, err := c.copySmall(&job{f: f, rec: r}, fd)
	if err != nil {
		return false
	}
	r.Stat.Attrs = attributes(f, func() (attrs.Set, error) { return attrs.ReadFD(fd), nil })
	n := content.Len()
	if !c.appendWith(f, r, by, content.Record(0)) {
		content.Abort()
		return false
	}
	content.Keep()
	c.spooled.Add(n)
	return true
}

// appendWith appends a version and the record of its content, and sets the file's marks.
func (c *Capture) appendWith(f fusefs.File, r *spool.Record, by fusefs.Caller, content *spool.Record) bool {
	r.HasContent = true
	if !c.appendBy(by, r, content) {
		r.HasContent = false
		return false
	}
	f.Mark().Or(marksOf(r))
	return true
}
