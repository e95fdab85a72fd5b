//go:build linux || darwin

package sys

// Ref is the file that a call is about: an open descriptor, which may be a Place, or, if
// FD is negative, the file that has a name in a directory at that moment. Names are used
// for files that cannot be pointed at without opening them; see Points.
type Ref struct {
	FD   int
	Dir  int
	Name string
}

// FD returns the Ref of a descriptor.
func FD(fd int) Ref { return Ref{FD: fd} }

// At returns the Ref of a name in a directory.
func At(dir int, name string) Ref { return Ref{FD: -1, Dir: dir, Name: name} }

// StatRef fills s for a file.
func StatRef(r Ref, s *Stat) error {
	if r.FD < 0 {
		return StatAt(r.Dir, r.Name, s)
	}
	return StatFD(r.FD, s)
}
