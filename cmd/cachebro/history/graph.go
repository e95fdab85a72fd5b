package history

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/wire"
)

// lane is who wrote, in the picture of log --graph.
type lane struct {
	name                  string
	files, added, removed int
	partly                bool
	heights               []int // files changed in each column
}

const (
	laneName   = 22
	maxLanes   = 20
	maxActions = 5000 // of the picture
)

var bars = []rune(" ▁▂▃▄▅▆▇█")

// printGraph draws who changed how many files when: a lane for each session, and one
// for each program outside of sessions.
func printGraph(ctx context.Context, e *cli.Env, w io.Writer, t cli.Target, c *wire.Client, q wire.LogQuery, f logFlags) error {
	limit := f.limit
	if limit == 0 {
		limit = maxActions
	}
	aq := f.query(q)
	aq.Files, aq.Oldest = 1, false
	var all []wire.Action
	err := eachPage(ctx, e, c, aq, limit, func(a wire.Actions) error {
		all = append(all, a.Actions...)
		return nil
	})
	if err != nil {
		return err
	}
	if len(all) == 0 {
		nothing(e, t, f)
		return nil
	}
	width := 60
	if _, terminal := e.Terminal(); terminal > 80 {
		width = terminal - laneName - 32
	}
	out := bufio.NewWriter(w)
	draw(out, e.Paint(), all, width, e.Now())
	return out.Flush()
}

// draw writes the picture of actions, the newest of which comes first.
func draw(out io.Writer, p cli.Paint, all []wire.Action, width int, now time.Time) {
	from, to := all[len(all)-1].Begin, all[0].End
	for _, a := range all {
		if a.Begin.Before(from) {
			from = a.Begin
		}
	}
	span := max(to.Sub(from), time.Second)
	var lanes []*lane
	byName := map[string]*lane{}
	most := 1
	for i := len(all) - 1; i >= 0; i-- { // lanes in the order in which they began
		a := all[i]
		name := laneOf(a)
		l := byName[name]
		if l == nil {
			if len(lanes) == maxLanes {
				name = "others"
				l = byName[name]
			}
			if l == nil {
				l = &lane{name: name, heights: make([]int, width)}
				lanes, byName[name] = append(lanes, l), l
			}
		}
		at := min(int(float64(a.End.Sub(from))/float64(span)*float64(width)), width-1)
		l.heights[at] += max(a.Count, 1)
		most = max(most, l.heights[at])
		l.files, l.added, l.removed, l.partly = l.files+a.Count, l.added+a.Added, l.removed+a.Removed, l.partly || a.Partly
	}
	left, right := cli.Stamp(from, now), strings.TrimSpace(cli.Stamp(to, now))
	left = strings.TrimSpace(left)
	fmt.Fprintln(out, p.Dim(strings.Repeat(" ", laneName+1)+left+strings.Repeat(" ", max(width-len(left)-len(right), 1))+right))
	for _, l := range lanes {
		var bar strings.Builder
		for _, n := range l.heights {
			bar.WriteRune(bars[height(n, most)])
		}
		fmt.Fprintf(out, "%s %s  %s\n", pad(clip(l.name, laneName), laneName), p.Cyan(bar.String()), counts(p, l.files, l.added, l.removed, l.partly))
	}
}

// height is the bar of n files: by magnitude, or one large build makes all else flat.
func height(n, most int) int {
	if n == 0 {
		return 0
	}
	steps, scale := 0, 0
	for ; n > 1; n /= 2 {
		steps++
	}
	for ; most > 1; most /= 2 {
		scale++
	}
	if scale == 0 {
		return len(bars) - 1
	}
	return 1 + steps*(len(bars)-2)/scale
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(width-len([]rune(s)), 0))
}

func laneOf(a wire.Action) string {
	if a.Actor.Session != "" {
		id := cli.OneLine(a.Actor.Session)
		return or(cli.OneLine(a.Client), "session") + " " + id[:min(len(id), 8)]
	}
	if a.Plan != "" {
		kind, _, _ := strings.Cut(a.Plan, "-")
		return kind
	}
	return or(cli.OneLine(a.Actor.Comm), "somebody")
}
