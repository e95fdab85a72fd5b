package plans

import (
	"context"
	"slices"
	"strings"

	"cachebro/store"
	"cachebro/store/undo"
)

// leaveRepositories drops each directory with a git repository that an undo would empty from the
// plan, and names it. Otherwise only its .git would remain. Git would still consider such a
// worktree valid, and the .git of a clone may hold commits that exist nowhere else.
func (pl *Plans) leaveRepositories(ctx context.Context, p *undo.Draft) {
	var left []store.Path
	for _, s := range p.Steps {
		if s.Do != "rmdir" {
			continue
		}
		st, err := pl.Source.Lstat(ctx, s.Path+"/.git")
		if err != nil {
			continue
		}
		left = append(left, s.Path)
		why := "it is now a git repository, so it is not removed; remove it yourself if you need nothing in it"
		if st.Mode&0o170000 == 0o100000 {
			why = "it is a git worktree, so it is not removed; git worktree remove " + string(s.Path) + " removes it unless that would lose something"
		}
		p.Conflicts = append(p.Conflicts, store.Conflict{Path: s.Path, Why: why})
	}
	if len(left) == 0 {
		return
	}
	p.Steps = slices.DeleteFunc(p.Steps, func(s store.Step) bool {
		return (s.Do == "delete" || s.Do == "rmdir") && slices.ContainsFunc(left, func(dir store.Path) bool {
			return s.Path == dir || strings.HasPrefix(string(s.Path), string(dir)+"/") || s.Do == "rmdir" && strings.HasPrefix(string(dir), string(s.Path)+"/")
		})
	})
}
