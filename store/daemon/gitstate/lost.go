package gitstate

import (
	"context"
	"path"
	"slices"
	"strings"

	"cachebro/fusefs/capture/spool"
	"cachebro/store/daemon/onwire"
	"cachebro/store/gitdir"
	"cachebro/store/wire"
)

// maxTips bounds an answer.
const maxTips = 5000

// lost lists the commits that refs and reflogs named, newest first, each once. Whether
// anything still reaches them, the client asks git.
func (s *Service) lost(ctx context.Context, _ wire.Empty) (out wire.GitLost, _ []byte, err error) {
	h, err := s.since(ctx, 0)
	if err != nil {
		return out, nil, err
	}
	defer h.close()
	say := s.actions.Speaker()
	seen := map[string]bool{}
	add := func(r *row, dir, name, id, note string) {
		if strings.Trim(id, "0") == "" || !isID(id) || seen[dir+id] || len(out.Tips) >= maxTips {
			return
		}
		seen[dir+id] = true
		out.Tips = append(out.Tips, wire.GitTip{Dir: dir, Name: name, Commit: id, Note: note, Until: onwire.Time(r.Time), By: say.Command(r.version())})
	}
	for _, r := range slices.Backward(h.rows) {
		dir, rest, _ := gitdir.Split(r.path())
		if r.Was == spool.WasAbsent {
			continue
		}
		base, below := checkout(dir, rest)
		switch {
		case strings.HasPrefix(below, "refs/"), below == "HEAD", below == "ORIG_HEAD":
			add(r, dir, below, line(h.read(r.path(), h.before(r))), "")
		case rest == "packed-refs":
			for name, id := range packedRefs(h.read(r.path(), h.before(r))) {
				add(r, dir, name, id, "")
			}
		case strings.HasPrefix(below, "logs/"):
			for _, l := range slices.Backward(logged(h.read(r.path(), h.before(r)))) {
				add(r, dir, strings.TrimPrefix(path.Join(strings.TrimPrefix(base, dir), below), "logs/"), l.to, l.note)
			}
		}
	}
	return out, nil, nil
}
