package store

import (
	"path"
	"slices"
	"strings"
)

// ownFile tells the names of files that cachebro itself writes into a project
// for a moment: what a plan renames into place, and doctor's canary. "The last
// action" is never one of ours, or an undo after doctor would do nothing.
func ownFile(p Path) bool {
	base := path.Base(string(p))
	return strings.HasPrefix(base, ".cachebro-") && strings.HasSuffix(base, "~")
}

// Lasting leaves out, of one path's versions in order, those of files that were made
// to be put elsewhere a moment later: by a plan, or for an atomic save (see MadeFor).
func Lasting(vs []Version) []Version {
	if len(vs) > 0 && ownFile(vs[0].Path) {
		return nil
	}
	var out []Version
	life := 0 // where in out the present file begins
	for _, v := range vs {
		if out = append(out, v); !v.Deleted() {
			continue
		}
		if v.Op == OpMoved && slices.ContainsFunc(out[life:], func(o Version) bool { return o.Op == OpCreate }) &&
			!slices.ContainsFunc(out[life:], func(o Version) bool {
				return o.Actor.PID != v.Actor.PID || o.Actor.Start != v.Actor.Start || v.Time-o.Time > saveTime
			}) {
			out = out[:life]
		}
		life = len(out)
	}
	return out
}

// ofOwnFiles: the plan was about nothing else.
func (p *Plan) ofOwnFiles() bool {
	for _, s := range p.Steps {
		if !ownFile(s.Path) {
			return false
		}
	}
	return len(p.Steps) > 0
}
