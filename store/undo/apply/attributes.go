package apply

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"cachebro/store/leaf/attrs"

	"golang.org/x/sys/unix"
)

// wanted returns the extended attributes, including access control lists, that the step's file
// should get. They come from the history or else from the replaced file. known is true if the new
// file can have no attributes except these.
func (w *worker) wanted(replaces bool) (set attrs.Set, known bool) {
	set = attrs.Set(w.step.Attrs)
	if set != "" {
		return set, true
	}
	if !replaces {
		return attrs.None, false
	}
	old, err := openIn(w.root, w.name, os.O_RDONLY)
	if err != nil {
		return attrs.None, false // a link, or not readable
	}
	defer old.Close()
	// Leave out capabilities, because they were granted to another content.
	return attrs.ReadFD(int(old.Fd())).Without(func(name string) bool { return name == attrs.Capability }), false
}

// attributes gives f a set of attributes, except capabilities, which can be set only after the
// owner and the mode. If bare is not set, f may have other attributes, which are removed. changed
// reports whether an attribute was changed, because that may have changed the mode.
func (w *worker) attributes(f *os.File, set attrs.Set, known, bare bool) (changed bool) {
	want, ok := set.All()
	if !ok || len(want) == 0 && (bare || !known) {
		return false
	}
	have := map[string]string{}
	if !bare {
		have, _ = attrs.ReadFD(int(f.Fd())).All()
	}
	var failed []string
	var why error
	do := func(name string, err error) {
		if err != nil {
			failed, why = append(failed, name), err
		}
		changed = true
	}
	for name := range have {
		if _, ok := want[name]; !ok && known {
			do(name, unix.Fremovexattr(int(f.Fd()), name))
		}
	}
	for name, value := range want {
		if v, ok := have[name]; name != attrs.Capability && (!ok || v != value) {
			do(name, unix.Fsetxattr(int(f.Fd()), name, []byte(value), 0))
		}
	}
	if len(failed) > 0 {
		slices.Sort(failed)
		w.left = append(w.left, fmt.Sprintf("some attributes could not be restored: %s (%v)", strings.Join(failed, ", "), why))
	}
	return changed
}

// capable restores a file's capabilities if the file is new and has its former owner.
func (w *worker) capable(f *os.File, h holder, set attrs.Set) {
	if !set.Has(attrs.Capability) {
		return
	}
	err := errors.New("they are restored only together with the owner who had them")
	if m, _ := set.All(); h.fresh && h.uid && h.gid {
		err = unix.Fsetxattr(int(f.Fd()), attrs.Capability, []byte(m[attrs.Capability]), 0)
	}
	if err != nil {
		w.left = append(w.left, fmt.Sprintf("its capabilities were not restored: %v", err))
	}
}

// inherits reports whether files created in w's directory inherit an access control list.
func (w *worker) inherits() bool {
	if v, ok := w.places.lists.Load(w.root); ok {
		return v.(bool)
	}
	yes := true // assumed if unknown
	if d, err := w.root.Open("."); err == nil {
		_, err = unix.Fgetxattr(int(d.Fd()), "system.posix_acl_default", nil)
		yes = err == nil
		d.Close()
	}
	w.places.lists.Store(w.root, yes)
	return yes
}
