package history

import (
	"context"
	"errors"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/versions"
	"cachebro/store"
	"cachebro/store/leaf/text"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

func (h *History) blame(ctx context.Context, q wire.ShowQuery) (wire.BlameAnswer, []byte, error) {
	p, err := h.Paths.Clean(q.Path)
	if err != nil {
		return wire.BlameAnswer{}, nil, err
	}
	if p == "" {
		return wire.BlameAnswer{}, nil, wire.Errorf(wire.ErrBadRequest, "cachebro blame PATH", "name the file")
	}
	h.Survey.Update(ctx, p)
	v, _, err := versions.Find(h.Store, p, q)
	if err != nil {
		return wire.BlameAnswer{}, nil, err
	}
	var at uint64
	if versions.Given(q) {
		at = v.Seq
	}
	lines, err := h.Store.Blame(p, at)
	if errors.Is(err, store.ErrNotFound) {
		err = wire.Errorf(wire.ErrNotFound, "cachebro log "+onwire.ShellName(p)+" shows which versions have content", "no text of %s is stored", onwire.Display(p))
	}
	if errors.Is(err, text.ErrNotText) {
		err = wire.Errorf(wire.ErrBinary, "cachebro log "+onwire.ShellName(p)+" lists its versions", "%s is not a text file", onwire.Display(p))
	}
	if err != nil {
		return wire.BlameAnswer{}, nil, err
	}
	fillCommandLine := attribution.OpenProcesses(h.Store).FillCommandLines()
	numbers := map[uint64]int{}
	var vs []store.Version
	var whole []byte
	a := wire.BlameAnswer{Versions: []wire.Version{}, Lines: []int{}}
	for _, l := range lines {
		i, ok := numbers[l.Seq]
		if !ok {
			i = len(vs)
			numbers[l.Seq], vs = i, append(vs, l.Version)
			fillCommandLine(&l.Version)
			a.Versions = append(a.Versions, onwire.Version(l.Version))
		}
		a.Lines, whole = append(a.Lines, i), append(whole, l.Text...)
	}
	inHistory := h.numbers(p, vs)
	for i, v := range vs {
		a.Versions[i].Number = inHistory[v.Seq]
	}
	return a, whole, nil
}
