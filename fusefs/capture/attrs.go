package capture

import (
	"cachebro/fusefs"
	"cachebro/store/attrs"
	"cachebro/store/event"
)

// attributes reads the extended attributes of f for a version. Most files have none;
// that is asked once, until they are changed.
func (c *Capture) attributes(f fusefs.File) string {
	if f == nil {
		return ""
	}
	mark := f.Mark()
	if mark.Load()&markBare != 0 {
		return string(attrs.None)
	}
	var set attrs.Set
	if err := f.At(func(path string) error { set = attrs.Read(path); return nil }); err != nil {
		return ""
	}
	if set == attrs.None {
		mark.Or(markBare)
	}
	return string(set)
}

// whole is st with the attributes of f.
func (c *Capture) whole(f fusefs.File, st event.Stat) event.Stat {
	if st.Mode&modeType != modeLink {
		st.Attrs = c.attributes(f)
	}
	return st
}
