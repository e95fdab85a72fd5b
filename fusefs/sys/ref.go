//go:build linux || darwin

package sys

// Ref refers to a file by an open descriptor, which may have been opened with Place. If FD is
// negative, it refers to a name in a directory at the time of the call. Names are for files that
// cannot be opened without an effect; see Points.
type Ref struct {
	FD   int
	Dir  int
	Name string
}

// FD returns the Ref of a descriptor.
func FD(fd int) Ref { return Ref{FD: fd} }

// At returns the Ref of a name in a directory.
func At(dir int, name string) Ref { return Ref{FD: -1, Dir: dir, Name: name} }

// StatRef fills s with the attributes of a file.
func StatRef(r Ref, s *Stat) error {
	if r.FD < 0 {
		return StatAt(r.Dir, r.Name, s)
	}
	return StatFD(r.FD, s)
}
