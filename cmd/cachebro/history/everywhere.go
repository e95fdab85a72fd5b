package history

import (
	"context"
	"errors"
	"fmt"
	"io"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/machines"
	"cachebro/store/wire"
)

// machineLog reads the log of one machine page by page, to be merged with others.
type machineLog struct {
	machines.History
	q    wire.LogQuery
	page []wire.Version
	more bool
}

// fill reads pages until one has a version. At the end of the log the page is empty.
func (m *machineLog) fill(ctx context.Context) error {
	for len(m.page) == 0 && m.more {
		a, err := wire.Call[wire.LogAnswer](ctx, m.Client, wire.MLog, m.q)
		if err != nil {
			return fmt.Errorf("%s: %w", cli.Quote(m.Name), err)
		}
		m.more = a.More && len(a.Versions) > 0
		for _, v := range a.Versions {
			if m.q.Oldest {
				m.q.After = v.Seq
			} else {
				m.q.Before = v.Seq
			}
			if v.Seq > m.After { // older versions are in the log of the machine that this history was forked from
				m.page = append(m.page, v)
			} else if !m.q.Oldest {
				m.more = false
			}
		}
	}
	return nil
}

// everywhere calls do with the versions of all machines, merged by time. The versions of one
// machine stay in order, even if its clock was wrong.
func everywhere(ctx context.Context, all []*machineLog, oldest bool, do func(*machineLog, wire.Version) error) error {
	for {
		var first *machineLog
		for _, m := range all {
			if err := m.fill(ctx); err != nil {
				return err
			}
			if len(m.page) == 0 {
				continue
			}
			if first == nil {
				first = m
				continue
			}
			order := m.page[0].Time.Compare(first.page[0].Time)
			if oldest && order < 0 || !oldest && order > 0 {
				first = m
			}
		}
		if first == nil {
			return nil
		}
		v := first.page[0]
		first.page = first.page[1:]
		if err := do(first, v); err != nil {
			return err
		}
	}
}

func logEverywhere(ctx context.Context, e *cli.Env, path string, q wire.LogQuery, f logFlags) error {
	otherOutput := f.patch || f.stat || f.z
	ofActions := f.actions || f.follow || f.lost
	if otherOutput || ofActions {
		return e.Usagef("log: --machine all lists versions, and can be combined only with --since, --until, --author, --op, --session, --limit, --reverse, --baselines and --json")
	}
	t, histories, failed, err := machines.OpenAll(ctx, e, path)
	if err != nil {
		return err
	}
	q.Path, q.Limit = t.Rel, logPage
	var all []*machineLog
	for _, a := range histories {
		defer a.Client.Close()
		all = append(all, &machineLog{History: a, q: q, more: true})
	}
	print := func(w io.Writer) error {
		left := f.limit
		err := everywhere(ctx, all, f.oldest, func(m *machineLog, v wire.Version) error {
			if f.author != "" && !v.Actor.Is(f.author) {
				return nil
			}
			if err := printFrom(e, w, m.History, v, f.json); err != nil {
				return err
			}
			if left--; f.limit > 0 && left == 0 {
				return errEnough
			}
			return nil
		})
		if errors.Is(err, errEnough) {
			err = nil
		}
		return err
	}
	if f.json {
		err = print(nil)
	} else {
		err = e.Page(print)
	}
	if err == nil && failed {
		err = cli.ExitStatus(1)
	}
	return err
}

func printFrom(e *cli.Env, w io.Writer, m machines.History, v wire.Version, asJSON bool) error {
	if asJSON {
		o := cli.VersionObject(v)
		o["machine"], o["host"] = m.ID, m.WriterOf(v.Seq)
		return e.PrintJSON(o)
	}
	who := v.Actor.Comm
	if v.Actor.Agent != "" {
		who = v.Actor.Agent
	}
	_, err := fmt.Fprintf(w, "%s  %s  %d  %s  %s  %s\n", cli.Stamp(v.Time, e.Now()), cli.Quote(m.WriterOf(v.Seq)), v.Seq, v.Op, cli.Quote(string(v.Path)), cli.Quote(who))
	return err
}
