package gitstate

import (
	"context"
	"slices"
	"strings"

	"cachebro/store/leaf/gitdir"
	"cachebro/store/leaf/spool"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

const maxTips = 5000

// Lost lists the commits that refs and reflogs pointed to at some time, newest first, each once.
// The client asks git which of them are still reachable.
func (s *Service) Lost(ctx context.Context) (out wire.GitLost, err error) {
	h, err := s.readSince(ctx, 0)
	if err != nil {
		return out, err
	}
	defer h.close()
	namer := s.actions.NewNamer()
	at := map[string]int{}
	add := func(r *row, dir, name, id string) {
		if strings.Trim(id, "0") == "" || !gitdir.IsID(id) || len(out.Tips) >= maxTips {
			return
		}
		i, ok := at[dir+id]
		_, named := at[dir+id+name]
		ref := strings.HasPrefix(name, "refs/")
		switch {
		case named, ok && !ref:
			return
		case ok && !strings.HasPrefix(out.Tips[i].Name, "refs/"): // the name of a branch is more informative than HEAD
			out.Tips[i].Name = name
			at[dir+id+name] = i
			return
		}
		at[dir+id], at[dir+id+name] = len(out.Tips), len(out.Tips)
		out.Tips = append(out.Tips, wire.GitTip{Dir: dir, Name: name, Commit: id, Until: onwire.Time(r.Time), By: namer.Command(r.version())})
	}
	out.Kept = s.dir
	for _, r := range slices.Backward(h.rows) {
		dir, rest, _ := gitdir.Split(r.path())
		if r.Was == spool.WasAbsent || strings.HasPrefix(r.Plan, undoing) {
			continue
		}
		_, below := checkout(dir, rest)
		switch {
		case strings.HasPrefix(below, "refs/"), below == "HEAD", below == "ORIG_HEAD":
			add(r, dir, below, line(h.read(r.path(), h.before(r))))
		case rest == "packed-refs":
			for name, id := range h.packedRefs(r.path(), h.before(r)) {
				add(r, dir, name, id)
			}
		case strings.HasPrefix(below, "logs/") && r.Was != spool.WasBegin: // the reflog was cut or removed
			for _, l := range slices.Backward(logged(h.read(r.path(), h.before(r)))) {
				add(r, dir, strings.TrimPrefix(below, "logs/"), l.to)
			}
		}
	}
	return out, nil
}
