package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"cachebro/store/leaf/text"
	"cachebro/store/undo/apply"
	"cachebro/store/wire"
)

// VersionLine returns one line of log: number, time, operation, size, process, path.
func VersionLine(v wire.Version, p Paint, onePath bool, now time.Time) string {
	id := strconv.FormatUint(v.Seq, 10)
	if onePath && v.Number > 0 {
		id = fmt.Sprintf("@%-4d %s", v.Number, id)
	}
	op := v.Op
	if kind, _, ok := strings.Cut(v.Plan, "-"); ok {
		op = kind // the requested operation, such as undo, is more informative than the system call
		if apply.Temporary(v.From) {
			v.From = nil
		}
		if apply.Temporary(v.To) {
			v.To = nil
		}
	}
	if v.Made > 0 { // an atomic save is shown without its temporary file
		op, v.From = "save", nil
	}
	if v.Idle {
		op += "…" // captured while still open
	}
	parts := []string{p.Yellow(fmt.Sprintf("%-8s", id)), Stamp(v.Time, now), p.Cyan(fmt.Sprintf("%-8s", op)), fmt.Sprintf("%9s", sizeOf(v)), fmt.Sprintf("%-20s", Who(v.Actor)), pathsOf(v)}
	if v.NoContent != "" && v.Op != "chmod" { // a chmod never has content
		parts = append(parts, p.Red("("+OneLine(v.NoContent)+")"))
	}
	if v.Lost != "" {
		parts = append(parts, p.Red("("+OneLine(v.Lost)+")"))
	}
	if s := Whose(v.Actor); s != "" {
		parts = append(parts, p.Dim("["+s+"]"))
	}
	if v.Plan != "" {
		parts = append(parts, p.Dim("{"+OneLine(v.Plan)+"}"))
	}
	return strings.Join(parts, "  ")
}

// Stamp returns the time of day, or the date if t is not today.
func Stamp(t, now time.Time) string {
	t = t.In(now.Location())
	switch {
	case t.Year() == now.Year() && t.YearDay() == now.YearDay():
		return t.Format("15:04:05")
	case t.Year() == now.Year():
		return t.Format("Jan _2 15:04")
	}
	return t.Format("2006-01-02")
}

func sizeOf(v wire.Version) string {
	switch {
	case v.Deleted, v.Op == "mkdir", v.Op == "rmdir":
		return "-"
	case len(v.Target) > 0:
		return "link"
	}
	return text.Bytes(v.Size)
}

// Who returns the name and pid of the process, as far as they are known.
func Who(a wire.Actor) string {
	switch {
	case a.PID == 0 && a.Comm == "":
		return "-"
	case a.PID == 0:
		return OneLine(a.Comm)
	}
	return fmt.Sprintf("%s[%d]", OneLine(a.Comm), a.PID)
}

// Whose returns the session, the agent and the tool, as far as they are known.
func Whose(a wire.Actor) string {
	var parts []string
	for _, s := range []string{short(a.Session), a.Agent, a.Tool} {
		if s != "" {
			parts = append(parts, OneLine(s))
		}
	}
	text := strings.Join(parts, " ")
	if a.Uncertain && text != "" {
		text += "?"
	}
	return text
}

// short returns the beginning of a session's id, which is enough to distinguish sessions.
func short(id string) string {
	if len(id) > 13 {
		return id[:13]
	}
	return id
}

func pathsOf(v wire.Version) string {
	path := Quote(string(v.Path))
	if len(v.Path) == 0 {
		path = "."
	}
	switch {
	case len(v.From) > 0 && v.Op == "exchange":
		return Quote(string(v.From)) + " <-> " + path
	case len(v.From) > 0:
		return Quote(string(v.From)) + " -> " + path
	case len(v.To) > 0:
		return path + " -> " + Quote(string(v.To))
	case len(v.Target) > 0:
		return path + " -> " + Quote(string(v.Target))
	}
	return path
}

// VersionObject returns a version as --json prints it, with paths as strings.
func VersionObject(v wire.Version) map[string]any {
	return Object(v, map[string][]byte{"path": v.Path, "from": v.From, "to": v.To, "target": v.Target})
}
