package store

import (
	"path"
	"strings"
)

// ownFile tells the names of files that cachebro itself writes into a project
// for a moment: what a plan renames into place, and doctor's canary. "The last
// action" is never one of ours, or an undo after doctor would do nothing.
func ownFile(p Path) bool {
	base := path.Base(string(p))
	return strings.HasPrefix(base, ".cachebro-") && strings.HasSuffix(base, "~")
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
