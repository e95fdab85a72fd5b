package gitstate

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"cachebro/store/leaf/gitdir"
	"cachebro/store/leaf/text"
)

const maxListed = 3

// ends returns the states of an operation's paths before and after it.
func (h *history) ends(o *operation) (paths []string, before, after map[string]pathState) {
	before, after = map[string]pathState{}, map[string]pathState{}
	for _, r := range o.rows {
		p := r.path()
		if _, ok := before[p]; !ok {
			paths, before[p] = append(paths, p), h.before(r)
		}
		after[p] = h.after(r)
	}
	return paths, before, after
}

// text describes what an operation did to refs, and to settings such as config and hooks. If it
// changed none of these, text describes the other changes. It returns "" if nothing changed.
func (h *history) text(o *operation) string {
	paths, before, after := h.ends(o)
	byDir := map[string][]string{}
	for _, p := range paths {
		d, _, _ := gitdir.Split(p)
		byDir[d] = append(byDir[d], p)
	}
	dirs := slices.Sorted(maps.Keys(byDir))
	var all []string
	for i, d := range dirs {
		if slices.ContainsFunc(dirs[:i], func(up string) bool {
			return strings.HasPrefix(d, up+"/") && before[path.Join(up, "HEAD")].kind != after[path.Join(up, "HEAD")].kind
		}) {
			continue // a submodule of a repository that was itself made or removed
		}
		line := h.textOf(d, byDir[d], before, after)
		if d != ".git" && line != "" {
			line = d + ": " + line
		}
		if line != "" {
			all = append(all, line)
		}
	}
	if len(all) > maxListed {
		all = append(all[:maxListed], fmt.Sprintf("%d more repositories", len(all)-maxListed))
	}
	return strings.Join(all, "; ")
}

func (h *history) textOf(d string, paths []string, before, after map[string]pathState) string {
	head := path.Join(d, "HEAD")
	if b, ok := before[head]; ok && b.kind != absent && after[head].kind == absent {
		return "the repository was removed (saved)"
	} else if ok && b.kind == absent && after[head].kind != absent {
		return "a new repository"
	}
	if b, ok := before[d]; ok && b.kind == moved {
		return "moved to " + b.target
	}
	was, is := h.refs(d, paths, before), h.refs(d, paths, after)
	names := maps.Clone(was)
	maps.Copy(names, is)
	var parts []string
	remote := 0
	for _, n := range slices.Sorted(maps.Keys(names)) {
		a, b := was[n], is[n]
		switch ref := shortRef(n); {
		case a == b:
		case strings.HasPrefix(n, "refs/remotes/"):
			remote++
		case n == "refs/stash":
			parts = append(parts, h.stashes(d, before, after))
		case b == "":
			parts = append(parts, fmt.Sprintf("%s deleted, was %s (saved)", ref, short(a)))
		case a == "":
			parts = append(parts, fmt.Sprintf("new %s %s", ref, short(b)))
		default:
			parts = append(parts, fmt.Sprintf("%s %s → %s%s", ref, short(a), short(b), h.subject(d, n, b, after)))
		}
	}
	if s := path.Join(d, "logs/refs/stash"); was["refs/stash"] == is["refs/stash"] && before[s].kind == file {
		parts = append(parts, h.stashes(d, before, after))
	}
	if a, b := line(h.read(head, before[head])), line(h.read(head, after[head])); before[head].kind == file && a != b {
		parts = append(parts, fmt.Sprintf("HEAD %s → %s", short(a), short(b)))
	}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	if len(parts) > maxListed {
		parts = append(parts[:maxListed], fmt.Sprintf("%d more refs", len(parts)-maxListed))
	}
	if remote > 0 {
		parts = append(parts, text.Count(remote, "remote ref"))
	}
	for _, p := range paths {
		_, rest, _ := gitdir.Split(p)
		switch {
		case rest != "config" && !strings.HasPrefix(rest, "hooks/") && rest != "info/exclude" && rest != "info/attributes":
		case h.sameContent(p, before[p], after[p]):
		case after[p].kind == absent:
			parts = append(parts, rest+" removed (saved)")
		case before[p].kind == absent:
			parts = append(parts, "new "+rest)
		default:
			parts = append(parts, rest+" changed")
		}
	}
	if len(parts) == 0 {
		parts = h.textOfOthers(d, paths, before, after)
	}
	return strings.Join(parts, ", ")
}

// textOfOthers describes an operation that changed no refs, for example one that staged files.
func (h *history) textOfOthers(d string, paths []string, before, after map[string]pathState) []string {
	if all := before[path.Join(d, "objects")]; all.kind == objects && all.why == "" {
		return []string{"objects removed (saved)"}
	}
	index, others := 0, 0
	var rights []string // paths of which only the mode or owner changed
	for _, p := range paths {
		_, rest, _ := gitdir.Split(p)
		switch {
		case before[p].kind == objects:
			rights = append(rights, rest)
		case h.sameContent(p, before[p], after[p]):
			if !sameRights(before[p], after[p]) {
				rights = append(rights, rest)
			}
		case strings.HasPrefix(rest, "refs/"), rest == "packed-refs", before[p].kind == dir, after[p].kind == dir:
		case path.Base(rest) == "index":
			index++
		default:
			others++
		}
	}
	switch {
	case index > 0:
		return []string{"index changed"}
	case others > 0:
		return []string{text.Count(others, "file") + " of git's own changed"}
	case len(rights) == 1:
		return []string{"mode or owner of " + cmp.Or(rights[0], d) + " changed"}
	case len(rights) > 1:
		return []string{"modes or owners of " + text.Count(len(rights), "path") + " changed"}
	}
	return nil
}

// refs returns the values of the refs among the paths. Loose refs override packed ones.
func (h *history) refs(d string, paths []string, at map[string]pathState) map[string]string {
	out := map[string]string{}
	packed := path.Join(d, "packed-refs")
	t, ok := at[packed]
	if !ok {
		t = h.now(packed) // the operation did not change it
	}
	all := h.packedRefs(packed, t)
	if ok {
		maps.Copy(out, all)
	}
	for _, p := range paths {
		_, rest, _ := gitdir.Split(p)
		if !strings.HasPrefix(rest, "refs/") || at[p].kind == dir {
			continue
		}
		out[rest] = cmp.Or(line(h.read(p, at[p])), all[rest])
	}
	return out
}

// packedRefs returns the refs in a packed-refs file. It caches them, because many operations need
// the same file.
func (h *history) packedRefs(p string, t pathState) map[string]string {
	id := fmt.Sprint(p, " ", t.savedAs, " ", t.inPlace)
	if t.kind != file || t.savedAs == "" && !t.inPlace {
		return packedRefs(t.inline)
	}
	all, ok := h.packed[id]
	if !ok {
		all = packedRefs(h.read(p, t))
		h.packed[id] = all
	}
	return all
}

func packedRefs(raw []byte) map[string]string {
	out := map[string]string{}
	for l := range bytes.Lines(raw) {
		id, name, ok := strings.Cut(strings.TrimSpace(string(l)), " ")
		if ok && strings.HasPrefix(name, "refs/") && gitdir.IsID(id) {
			out[name] = id
		}
	}
	return out
}

func line(b []byte) string {
	l, _, _ := bytes.Cut(b, []byte{'\n'})
	return strings.TrimSpace(string(l))
}

func shortRef(name string) string {
	for _, p := range []string{"refs/heads/", "refs/tags/", "refs/remotes/", "refs/"} {
		if s, ok := strings.CutPrefix(name, p); ok {
			return map[string]string{"refs/tags/": "tag "}[p] + s
		}
	}
	return name
}

// short returns the value of a ref or of HEAD for people.
func short(s string) string {
	switch ref, ok := strings.CutPrefix(s, "ref: "); {
	case ok:
		return shortRef(ref)
	case gitdir.IsID(s):
		return s[:7]
	case s == "":
		return "nothing"
	}
	return "?"
}

// stashes counts the stashes that an operation added or removed.
func (h *history) stashes(d string, before, after map[string]pathState) string {
	p := path.Join(d, "logs/refs/stash")
	count := func(m map[string]pathState) int { return bytes.Count(h.read(p, m[p]), []byte{'\n'}) }
	switch a, b := count(before), count(after); {
	case b < a:
		return fmt.Sprintf("lost %s (saved)", plural(a-b, "stash"))
	case b > a:
		return fmt.Sprintf("%s more", plural(b-a, "stash"))
	}
	return ""
}

func plural(n int, stash string) string {
	if n == 1 {
		return "1 " + stash
	}
	return fmt.Sprintf("%d %ses", n, stash)
}

// subject returns the subject of a commit, quoted, if the reflog has it.
func (h *history) subject(d, ref, id string, after map[string]pathState) string {
	for _, p := range []string{path.Join(d, "logs", ref), path.Join(d, "logs/HEAD")} {
		t, ok := after[p]
		if !ok {
			continue
		}
		note := ""
		for _, l := range logged(h.tail(p, t)) {
			if l.to == id {
				note = l.note
			}
		}
		if what, subject, ok := strings.Cut(note, ": "); ok && strings.HasPrefix(what, "commit") {
			return fmt.Sprintf(" %q", text.Clip(subject, 60))
		}
	}
	return ""
}

type logLine struct{ to, note string }

func logged(raw []byte) (all []logLine) {
	for l := range bytes.Lines(raw) {
		s := strings.TrimRight(string(l), "\n")
		head, note, _ := strings.Cut(s, "\t")
		from, rest, _ := strings.Cut(head, " ")
		to, _, _ := strings.Cut(rest, " ")
		if gitdir.IsID(from) && gitdir.IsID(to) {
			all = append(all, logLine{to, strings.ToValidUTF8(note, "�")})
		}
	}
	return all
}
