package ui

import (
	"context"
	"html/template"
	"net/url"
	"slices"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/doctor"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"
)

type projectsPage struct{ Rows []projectRow }

type projectRow struct {
	Name, State string
	Here        bool
	New         template.URL // the address of its unseen changes
	Rests       bool         // no daemon is running, and loading New would start one
	Command     string
	Bad         bool
}

func (s *server) projects(ctx context.Context, _ url.Values) (any, error) {
	all, err := doctor.Projects(ctx, s.e)
	if err != nil {
		return nil, err
	}
	var out projectsPage
	for _, p := range all {
		if p.Root == "" || p.Root == wire.OutsideRoot || !cli.IsDir(p.State) {
			continue
		}
		row := projectRow{Name: name([]byte(p.Root)), State: "not mounted", Here: p.Root == s.t.Root, Command: "cachebro ui --dir " + cli.Arg(p.Root), New: link("project", "root", p.Root)}
		row.Rests = !p.Counted && !row.Here
		switch {
		case p.Error != "":
			row.State, row.Bad = oneLine(p.Error), true
			row.New = ""
		case p.Gaps > 0:
			row.State, row.Bad = "mounted, "+text.Count(p.Versions, "version")+", "+text.Count(p.Gaps, "gap"), true
		case p.Counted:
			row.State = "mounted, " + text.Count(p.Versions, "version")
		case p.Mountpoint != "":
			row.State = "mounted, daemon not running"
		case !cli.IsDir(p.Root):
			row.State, row.New = "the project no longer exists, but its history does", ""
		}
		out.Rows = append(out.Rows, row)
	}
	return out, nil
}

// project returns the unseen changes of a project.
func (s *server) project(ctx context.Context, q url.Values) (any, error) {
	all, err := doctor.Projects(ctx, s.e)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(p doctor.Project) bool { return p.Root == q.Get("root") && cli.IsDir(p.State) })
	if i < 0 {
		return nil, wire.Errorf(wire.ErrNotFound, "reload the page", "there is no such project")
	}
	c, err := s.e.Connect(ctx, all[i].Root)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	a, err := wire.Call[wire.Actions](ctx, c, wire.MActions, wire.ActionsQuery{Limit: recentActions, Files: laneFiles})
	if err != nil {
		return nil, err
	}
	marks := seenMarks{file: seenFile(all[i].State)}
	return unseen(a, marks.read()), nil
}
