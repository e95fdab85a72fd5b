package capture

import (
	"errors"
	"os"
	"syscall"

	"cachebro/fusefs"
	"cachebro/store/leaf/attrs"
	"cachebro/store/leaf/event"
)

// attributes reads the extended attributes of f for a version. markBare remembers that a file has
// none.
func (c *Capture) attributes(f fusefs.File) string {
	if f == nil {
		return ""
	}
	mark := f.Mark()
	if mark.Load()&markBare != 0 {
		return string(attrs.None)
	}
	var set attrs.Set
	err := f.At(func(path string) error { set = attrs.Read(path); return nil })
	if errors.Is(err, syscall.ENOTSUP) {
		var file *os.File
		file, err = f.Open()
		if err == nil {
			set = attrs.ReadFD(int(file.Fd()))
			file.Close()
		}
	}
	if err != nil {
		return ""
	}
	if set == attrs.None {
		mark.Or(markBare)
	}
	return string(set)
}

func (c *Capture) withXattrs(f fusefs.File, st event.Stat) event.Stat {
	if st.Mode&modeType != modeLink {
		st.Attrs = c.attributes(f)
	}
	return st
}
