package cli

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"cachebro/store/wire"
)

// Label is a name that a person gave to a moment of a project.
type Label struct {
	Name string    `json:"name"`
	Seq  uint64    `json:"seq"`  // the newest version at that moment
	At   time.Time `json:"at"`   // when that version was made
	Made time.Time `json:"made"` // when the person gave the name
}

// labelsFile is the name of the file with the labels, in the state directory. The history works
// without it.
const labelsFile = "labels.json"

// maxLabel is the greatest length of a name, in bytes.
const maxLabel = 100

// Labels returns the labels of a project, the newest moment first.
func Labels(state string) ([]Label, error) {
	var all []Label
	err := wire.ReadJSON(filepath.Join(state, labelsFile), &all)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	slices.SortStableFunc(all, func(a, b Label) int { return b.At.Compare(a.At) })
	return all, err
}

// WriteLabels replaces the labels of a project.
func WriteLabels(state string, all []Label) error {
	return wire.WriteJSON(filepath.Join(state, labelsFile), all)
}

// CheckLabel returns an error if name cannot be a label: if it is empty, too long or not printable,
// or could be mistaken for a version, a time or a path.
func (e *Env) CheckLabel(name string) error {
	_, moment := parseVersion(name, e.Now())
	switch {
	case name == "" || len(name) > maxLabel || strings.IndexFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0:
		return e.Usagef("label: %s cannot be a label: want 1 to %d printable bytes", Quote(name), maxLabel)
	case moment || strings.ContainsAny(name[:1], "-#@ ") || strings.Contains(name, "/") || strings.EqualFold(name, "session-start"):
		return e.Usagef("label: %s cannot be a label: it already means a version, a time or a path", Quote(name))
	}
	return nil
}

// label finds a label in the project that contains a path.
func (e *Env) label(name, path string) (Label, bool) {
	t, err := e.Locate(path)
	if err != nil {
		return Label{}, false
	}
	return e.LabelOf(t.Root, name)
}

// LabelOf finds a label in the project at root.
func (e *Env) LabelOf(root, name string) (Label, bool) {
	state, err := e.Paths().State(root)
	if err != nil {
		return Label{}, false
	}
	all, err := Labels(state)
	if err != nil {
		return Label{}, false
	}
	i := slices.IndexFunc(all, func(l Label) bool { return l.Name == name })
	if i < 0 {
		return Label{}, false
	}
	return all[i], true
}
