package wire

import (
	"bytes"
	"cmp"
	"slices"
)

// FoldFiles merges files of one directory that changed in the same way into one entry, until the
// number of entries is within the limit most. It begins with the deepest directories. Forty files
// changed by sed then take one line, and a directory deleted by the same action stays visible.
// Files for which alone returns true are not merged. Deletions, renames and additions come first.
func FoldFiles(all []ActionFile, most int, alone func(ActionFile) bool) []ActionFile {
	deepest := 0
	for _, x := range all {
		deepest = max(deepest, bytes.Count(x.Path, []byte("/")))
	}
	var out []ActionFile
	for depth := deepest; depth >= 0; depth-- {
		out = foldAt(all, depth, alone)
		if len(out) <= most {
			break
		}
	}
	order := []string{FileDeleted, FileRenamed, FileAdded}
	slices.SortStableFunc(out, func(a, b ActionFile) int {
		return cmp.Compare(uint(slices.Index(order, a.Change)), uint(slices.Index(order, b.Change)))
	})
	return out
}

// foldAt merges the files whose directory is at the given depth or deeper.
func foldAt(all []ActionFile, depth int, alone func(ActionFile) bool) (out []ActionFile) {
	type kind struct {
		dir, change string
		back        uint64 // the plan that undid the change
	}
	of := func(x ActionFile) (k kind, ok bool) {
		parts := bytes.Split(x.Path, []byte("/"))
		if x.Dir || x.Change == FileRenamed || len(parts)-1 < depth || alone(x) {
			return k, false
		}
		k = kind{dir: string(bytes.Join(parts[:depth], []byte("/"))), change: x.Change}
		if len(x.TakenBack) > 0 {
			k.back = x.TakenBack[0].Seq
		}
		return k, true
	}
	n := map[kind]int{}
	for _, x := range all {
		if k, ok := of(x); ok {
			n[k]++
		}
	}
	at := map[kind]int{}
	for _, x := range all {
		k, ok := of(x)
		if !ok || n[k] == 1 {
			out = append(out, x)
			continue
		}
		i, begun := at[k]
		if !begun {
			i, at[k] = len(out), len(out)
			out = append(out, ActionFile{Path: above(x.Path), Change: k.change, Ignored: x.Ignored, Dir: true, Folded: true, Counted: true, Seq: x.Seq, Time: x.Time, By: x.By, Command: x.Command, TakenBack: x.TakenBack})
		}
		f := &out[i]
		for len(f.Path) > 0 && !bytes.HasPrefix(x.Path, append(f.Path[:len(f.Path):len(f.Path)], '/')) {
			f.Path = above(f.Path)
		}
		f.Below++
		f.Size += x.Size
		f.Added += x.Added
		f.Removed += x.Removed
		f.Counted = f.Counted && x.Counted
		if f.By != x.By {
			f.By = ""
		}
	}
	return out
}

// above returns the parent directory of a path; "" is the project's root.
func above(path []byte) []byte {
	return path[:max(bytes.LastIndexByte(path, '/'), 0)]
}
