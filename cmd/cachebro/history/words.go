package history

import (
	"cmp"
	"fmt"
	"os/user"
	"strconv"
	"strings"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/hooks/clients"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"
)

// This file contains the words for changes, which are the same in log, diff --stat, undo and
// status.

// Counts returns how many files were changed and by how many lines.
func Counts(p cli.Paint, files, added, removed int, partly bool) string {
	out := text.Count(files, "file")
	if added+removed > 0 {
		out += ", "
		if partly {
			out += "at least "
		}
		out += p.Green(fmt.Sprintf("+%d", added)) + " " + p.Red(fmt.Sprintf("-%d", removed)) + " lines"
	}
	return out
}

// countsOf returns how many files and lines an action changed.
func countsOf(p cli.Paint, a wire.Action) string {
	rest := Rest(a)
	switch {
	case a.Count == 0 && rest != "":
		return rest
	case a.Count == 0 && a.Least: // the newest versions changed nothing
		return text.Count(a.Versions, "version")
	case a.Least:
		return "at least " + Counts(p, a.Count, a.Added, a.Removed, false)
	}
	return Counts(p, a.Count, a.Added, a.Removed, a.Partly)
}

// Summary describes an action in one line: number, time, command, and counts.
func Summary(a wire.Action, now time.Time) string {
	return fmt.Sprintf("%d  ", a.Last) + cli.Stamp(a.End, now) + "  " + text.Clip(cli.OneLine(a.Command), 60) + "  (" + countsOf(cli.Paint{}, a) + ")"
}

// Touched counts the files that several actions changed, each file once.
type Touched struct {
	paths map[string]int
	most  int  // the greatest count of one action
	Least bool // not all files were listed
}

// Add adds the files of an action.
func (t *Touched) Add(a wire.Action) {
	if t.paths == nil {
		t.paths = map[string]int{}
	}
	for _, f := range a.Files {
		if f.Below > 0 || !f.Dir || !holds(a.Files, f.Path) {
			t.paths[string(f.Path)] = max(f.Below, 1, t.paths[string(f.Path)])
		}
	}
	t.most, t.Least = max(t.most, a.Count), t.Least || a.Least || Listed(a.Files) < a.Count
}

// Count returns the number of files.
func (t *Touched) Count() int {
	n := 0
	for _, of := range t.paths {
		n += of
	}
	return max(n, t.most)
}

// String returns the number of files in words.
func (t *Touched) String() string {
	if t.Least {
		return "at least " + text.Count(t.Count(), "file")
	}
	return text.Count(t.Count(), "file")
}

// LastAction returns the newest action that changed something, and false if there is none.
func LastAction(ask func(q wire.ActionsQuery) (wire.Actions, error)) (wire.Action, bool) {
	for q := (wire.ActionsQuery{Limit: 1, Files: 1, Lines: true}); ; q.Limit = storyPage {
		a, err := ask(q)
		if err != nil {
			return wire.Action{}, false
		}
		if all := wire.WithEffect(a.Actions); len(all) > 0 {
			return all[0], true
		}
		if !a.More {
			return wire.Action{}, false
		}
		q.Seq, q.Skip = a.Seq, a.Skip
	}
}

// LetterOf returns git status's letter for the change of a file.
func LetterOf(p cli.Paint, f wire.ActionFile) string {
	switch f.Change {
	case wire.FileAdded:
		return p.Green("A")
	case wire.FileDeleted:
		return p.Red("D")
	case wire.FileRenamed:
		return p.Cyan("R")
	case wire.FileMode:
		return p.Yellow("m")
	}
	return p.Yellow("M")
}

func fileLine(p cli.Paint, f wire.ActionFile) string {
	line := LetterOf(p, f) + " " + namesOf(f)
	if f.Dir && f.Below > 0 {
		line += "  " + text.Count(f.Below, "file")
	}
	switch {
	case f.Binary:
		line += "  binary"
		if f.Change != wire.FileDeleted {
			line += ", " + text.Bytes(f.Size)
		}
	case f.Added+f.Removed > 0:
		line += "  "
		if !f.Counted {
			line += "at least "
		}
		line += p.Green(fmt.Sprintf("+%d", f.Added)) + " " + p.Red(fmt.Sprintf("-%d", f.Removed))
	case !f.Counted && !f.Dir && f.Change != wire.FileDeleted && f.Change != wire.FileMode:
		line += "  " + text.Bytes(f.Size)
	}
	if back := TakenBackText(f.TakenBack); back != "" {
		line += "  " + p.Dim("("+back+")")
	}
	if f.Missing != "" {
		line += "  " + p.Red("("+cli.OneLine(f.Missing)+")")
	}
	if f.Lost != "" {
		line += "  " + p.Red(cli.OneLine(f.Lost))
	}
	if f.Also != "" {
		line += "  " + p.Red("also changed meanwhile by "+text.Clip(cli.OneLine(f.Also), 50))
	}
	return line
}

// namesOf returns a file's name, preceded by the previous name of a renamed file.
func namesOf(f wire.ActionFile) string {
	name := nameOf(f.Path, f)
	if len(f.From) > 0 {
		name = nameOf(f.From, f) + " -> " + name
	}
	return name
}

// nameOf returns a file's name, or dir/* for files of a directory that share a line.
func nameOf(path []byte, f wire.ActionFile) string {
	switch {
	case f.Folded && len(path) == 0:
		return "*"
	case len(path) == 0: // the project's root
		return "."
	case f.Folded:
		return cli.Quote(string(path)) + "/*"
	case f.Dir:
		return cli.Quote(string(path)) + "/"
	}
	return cli.Quote(string(path))
}

// Rest describes what an action did in addition to its listed changes.
func Rest(a wire.Action) string {
	var parts []string
	for _, x := range []struct {
		n    int
		text string
	}{{a.Fleeting, "created and removed again"}, {a.Same, "rewritten without a change"}} {
		if x.n > 0 {
			parts = append(parts, text.Count(x.n, "file")+" "+x.text)
		}
	}
	return strings.Join(parts, ", ")
}

// Whose describes the agent, directory and user of an action, as far as they matter.
func Whose(a wire.Action, uid uint32) string {
	var parts []string
	if a.Actor.Agent != "" {
		parts = append(parts, "agent "+cli.OneLine(a.Actor.Agent))
	}
	if a.Dir != "" {
		parts = append(parts, "in "+cli.Quote(a.Dir))
	}
	if a.Actor.UID != uid && a.Actor.PID != 0 {
		parts = append(parts, "user "+userName(a.Actor.UID))
	}
	if a.Actor.Session == "" && len(a.By) > 0 {
		if up := a.By[len(a.By)-1]; clients.IsAgent(up.Comm, false) {
			parts = append(parts, "by "+cli.OneLine(up.Comm))
		}
	}
	if a.Actor.Uncertain {
		parts = append(parts, "uncertain, because several calls ran")
	}
	if a.Actor.Late {
		parts = append(parts, "late, after its call had ended")
	}
	if a.Failed {
		parts = append(parts, "failed")
	}
	if a.Left > 0 {
		parts = append(parts, text.Count(a.Left, "conflict")+" left alone")
	}
	return strings.Join(parts, ", ")
}

// TakenBackText describes which plans undid a change, or "" if none did.
func TakenBackText(by []wire.TakenBack) string {
	if len(by) == 0 {
		return ""
	}
	word, numbers := "reversed", []string{}
	if !by[len(by)-1].Whole() {
		word = "partly reversed"
	}
	for _, b := range by {
		if b.Seq > 0 {
			numbers = append(numbers, strconv.FormatUint(b.Seq, 10))
		}
	}
	if len(numbers) == 0 {
		return word
	}
	return word + " by " + strings.Join(numbers, ", ")
}

// BackOf describes which plans undid an action or a part of it.
func BackOf(a wire.Action) string {
	s := TakenBackText(a.TakenBack)
	if s != "" && !a.Back && !strings.HasPrefix(s, "partly") {
		s = "partly " + s
	}
	return s
}

// Short shortens the id of a session or prompt for one line.
func Short(id string) string { return text.ShortID(cli.OneLine(id)) }

// StartedBy describes the chain of processes that started an action, up to the agent or the
// terminal, without repetitions.
func StartedBy(a wire.Action) string {
	var by []string
	for _, up := range a.By {
		command := text.Clip(cli.OneLine(cmp.Or(up.Command, up.Comm)), 40)
		if len(by) == 0 || command != by[len(by)-1] {
			by = append(by, command)
		}
	}
	if n := len(by); n > 2 {
		by = append(by[:1], "…", by[n-1])
	}
	return strings.Join(by, " < ")
}

func userName(uid uint32) string {
	if u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
		return cli.OneLine(u.Username)
	}
	return strconv.FormatUint(uint64(uid), 10)
}
