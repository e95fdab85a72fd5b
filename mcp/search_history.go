package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"cachebro/store/leaf/text"
	"cachebro/store/wire"
)

// searchHistoryArgs are the arguments of search_history.
type searchHistoryArgs struct {
	Limit  int    `json:"limit" unlisted:"50"`
	Filter string `json:"path_filter"`
	Type   string `json:"type"`
}

var searchHistoryTool = &tool{
	name: "search_history", title: "Search history", reads: true, idempotent: true,
	desc: "Who changed what, by any process; oldest first. path_filter: file, directory or glob. type: create, write, delete, rename, mode, link, read.",
	handler: with(func(ctx context.Context, c *call, a searchHistoryArgs) (*mcp.CallToolResult, error) {
		if a.Limit < 1 || a.Limit > maxHistory {
			return nil, badInput(fmt.Sprintf("limit %d is out of range", a.Limit), fmt.Sprintf("give 1 to %d", maxHistory))
		}
		if a.Type == "read" || a.Type == "reads" {
			return c.reads(ctx, a.Filter, a.Limit)
		}
		ops := historyTypes[a.Type]
		if a.Type != "" {
			if ops == nil {
				return nil, badInput("unknown type "+quote(a.Type), "types are create, write, delete, rename, mode, link, outside, read")
			}
		}
		vs, gaps, err := c.s.history(ctx, wire.LogQuery{Limit: a.Limit}, a.Filter, ops)
		if err != nil {
			return nil, err
		}
		return textResult(c.s.historyText(vs, gaps, a.Filter)), nil
	}),
}

const maxHistory = 1000

// historyTypes maps an agent's words to the log's operations.
var historyTypes = map[string][]string{
	"create": {"create", "mkdir", "mknod", "symlink"}, "write": {"write", "truncate", opSave}, "edit": {"write", "truncate", opSave},
	"delete": {"unlink", "rmdir"}, "rename": {"rename", "exchange"}, "move": {"rename", "exchange"},
	"mode": {"chmod"}, "chmod": {"chmod"}, "link": {"link", "symlink"}, "outside": {"outside", "seen"},
}

// history returns the newest q.Limit matching changes, oldest first. The daemon follows a path
// through renames. Globs and the operations (nil means all) are matched here, page by page, because
// the log contains only the parts of an atomic save.
func (s *Server) history(ctx context.Context, q wire.LogQuery, filter string, ops []string) ([]wire.Version, []wire.Gap, error) {
	match := func(v wire.Version) bool { return ops == nil || slices.Contains(ops, v.Op) }
	switch {
	case text.IsGlob(filter):
		if !text.ValidGlob(filter) {
			return nil, nil, badInput("path_filter "+quote(filter)+" is not a valid glob", "use * and ?, or give a plain path")
		}
		match = func(v wire.Version) bool {
			return (ops == nil || slices.Contains(ops, v.Op)) && text.GlobSelects(filter, string(v.Path))
		}
	case filter != "":
		rel, err := s.resolve(filter)
		if err != nil {
			return nil, nil, err
		}
		q.Path = []byte(rel)
	}
	var found []wire.Version // newest first
	var gaps []wire.Gap
	want := q.Limit
	for pages := 0; pages < 50; pages++ {
		var ans wire.LogAnswer
		if _, err := s.backend.ask(ctx, wire.MLog, q, nil, &ans); err != nil {
			return nil, nil, err
		}
		gaps = append(gaps, ans.Gaps...)
		found = append(found, ans.Versions...)
		if !ans.More || len(ans.Versions) == 0 || count(found, match) >= want {
			break
		}
		q.Before = ans.Versions[len(ans.Versions)-1].Seq
		q.Limit = maxHistory
	}
	out := slices.DeleteFunc(fold(found), func(v wire.Version) bool { return !match(v) })
	out = out[:min(len(out), want)]
	slices.Reverse(out)
	return out, gaps, nil
}

func count(vs []wire.Version, match func(wire.Version) bool) (n int) {
	for _, v := range fold(vs) {
		if match(v) {
			n++
		}
	}
	return n
}

// opSave is an atomic save in a listing: a temporary file written and renamed over its target.
const opSave = "save"

// fold merges the parts of an atomic save into one line, and lists a rename once, under its new
// name. vs is newest first and stays unchanged.
func fold(vs []wire.Version) []wire.Version {
	// Temporary files of the renames so far, by writer.
	type temp struct {
		path string
		pid  uint32
	}
	saves := map[temp]int{} // → index in out
	var out []wire.Version
	for _, v := range vs {
		if v.Op == "moved" {
			continue
		}
		key := temp{string(v.Path), v.Actor.PID}
		if i, ok := saves[key]; ok && v.Actor.PID != 0 {
			switch v.Op {
			case "create", "write", "truncate", "chmod":
				if out[i].Time.Sub(v.Time) < time.Minute {
					out[i].Op, out[i].From = opSave, nil
					continue
				}
			}
			delete(saves, key)
		}
		if v.Op == "rename" {
			saves[temp{string(v.From), v.Actor.PID}] = len(out)
		}
		out = append(out, v)
	}
	return out
}

// historyText renders one line per version, newest last. It leaves out the oldest versions that do
// not fit.
func (s *Server) historyText(vs []wire.Version, gaps []wire.Gap, filter string) string {
	if len(vs) == 0 && len(gaps) == 0 {
		if filter != "" {
			return "no changes recorded for " + quote(filter)
		}
		return "no changes recorded"
	}
	lines := make([]string, 0, len(vs)+len(gaps))
	for _, v := range vs {
		lines = append(lines, versionLine(v))
	}
	used, from := 0, len(lines)
	for from > 0 {
		used += s.opt.Tokens([]byte(lines[from-1])) + 1
		if used > maxTokens-500 {
			break
		}
		from--
	}
	out := lines[from:]
	if from > 0 {
		out = append([]string{fmt.Sprintf("[... %d older entries left out: narrow with path_filter or type, or a smaller limit]", from)}, out...)
	}
	for i, g := range gaps {
		if i == 20 {
			out = append(out, fmt.Sprintf("[... %d more gaps]", len(gaps)-20))
			break
		}
		out = append(out, fmt.Sprintf("gap: %s at %s: %s", quote(string(g.Path)), stamp(g.Time), clean(g.Reason)))
	}
	return strings.Join(out, "\n")
}

func versionLine(v wire.Version) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s %s ", v.Seq, stamp(v.Time), v.Op)
	if len(v.From) > 0 {
		fmt.Fprintf(&b, "%s -> ", quote(string(v.From)))
	}
	b.WriteString(quote(string(v.Path)))
	if len(v.Target) > 0 {
		fmt.Fprintf(&b, " -> %s", quote(string(v.Target)))
	}
	if v.Number > 0 {
		fmt.Fprintf(&b, " @%d", v.Number)
	}
	switch {
	case v.Deleted:
	case v.NoContent != "":
		fmt.Fprintf(&b, " · %d bytes, content not saved: %s", v.Size, clean(v.NoContent))
	case v.Hash != "":
		fmt.Fprintf(&b, " · %d bytes", v.Size)
	}
	if who := actor(v.Actor); who != "" {
		fmt.Fprintf(&b, " · %s", who)
	}
	if v.Plan != "" {
		b.WriteString(" · reversed")
	}
	return b.String()
}

// actor names the agent's tool, if known, and the process that made a change.
func actor(a wire.Actor) string {
	var parts []string
	if a.Tool != "" {
		parts = append(parts, quote(a.Tool))
	}
	if a.Comm == "outside" && a.PID == 0 { // unknown process
		parts = append(parts, a.Comm)
	} else if a.Comm != "" && a.Comm != a.Tool {
		parts = append(parts, fmt.Sprintf("%s (pid %d)", quote(a.Comm), a.PID))
	} else if a.Comm == "" && a.PID != 0 {
		parts = append(parts, fmt.Sprintf("pid %d", a.PID))
	}
	if a.Session != "" && !strings.HasPrefix(a.Session, "connection:") { // the id of a connection means nothing to a user
		parts = append(parts, "session "+quote(short(a.Session)))
	}
	if a.Agent != "" {
		parts = append(parts, "agent "+quote(short(a.Agent)))
	}
	who := strings.Join(parts, ", ")
	if a.Uncertain {
		who += " (uncertain)"
	}
	return who
}

func short(id string) string {
	if len(id) > 8 {
		return id[:8]
	}
	return id
}

// stamp formats a time of today without its date.
func stamp(t time.Time) string {
	t = t.Local()
	if now := time.Now(); t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}
