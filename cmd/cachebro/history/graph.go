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

// Lane is who wrote, in a picture of actions.
type Lane struct {
	Name           string
	Session        string // "" outside of sessions
	Began          string // the session's first prompt
	Files          Touched
	Added, Removed int
	Partly         bool
	Heights        []int // files changed in each column
}

const (
	laneName   = 22
	maxLanes   = 20
	maxActions = 5000 // of the picture
	// LaneFiles are listed of each action, so that files are counted once.
	LaneFiles = 1000
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
	aq.Files, aq.Fold, aq.Oldest = LaneFiles, false, false
	var all []wire.Action
	err := eachPage(ctx, e, c, aq, f, limit, func(a wire.Actions) error {
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

// Picture is who changed how much when: a lane for each session, and one for each
// program outside of sessions, in the order in which they began.
type Picture struct {
	From, To time.Time
	Lanes    []*Lane
	Most     int // the highest of all columns
}

// PictureOf counts actions, the newest of which comes first, by lanes and columns.
func PictureOf(all []wire.Action, width, most int) Picture {
	pic := Picture{From: all[len(all)-1].Begin, To: all[0].End, Most: 1}
	for _, a := range all {
		if a.Begin.Before(pic.From) {
			pic.From = a.Begin
		}
	}
	span := max(pic.To.Sub(pic.From), time.Second)
	byName := map[string]*Lane{}
	for i := len(all) - 1; i >= 0; i-- {
		a := all[i]
		name := laneOf(a)
		l := byName[name]
		if l == nil {
			if len(pic.Lanes) == most {
				name = "others"
				l = byName[name]
			}
			if l == nil {
				l = &Lane{Name: name, Heights: make([]int, width)}
				if name != "others" {
					l.Session, l.Began = a.Actor.Session, a.Began
				}
				pic.Lanes, byName[name] = append(pic.Lanes, l), l
			}
		}
		at := min(int(float64(a.End.Sub(pic.From))/float64(span)*float64(width)), width-1)
		l.Heights[at] += max(a.Count, 1)
		pic.Most = max(pic.Most, l.Heights[at])
		l.Files.Add(a)
		l.Added, l.Removed, l.Partly = l.Added+a.Added, l.Removed+a.Removed, l.Partly || a.Partly
	}
	return pic
}

// draw writes the picture of actions, the newest of which comes first.
func draw(out io.Writer, p cli.Paint, all []wire.Action, width int, now time.Time) {
	pic := PictureOf(all, width, maxLanes)
	left, right := cli.Stamp(pic.From, now), cli.Stamp(pic.To, now)
	left = strings.TrimSpace(left)
	fmt.Fprintln(out, p.Dim(strings.Repeat(" ", laneName+1)+left+strings.Repeat(" ", max(width-len(left)-len(right), 1))+right))
	for _, l := range pic.Lanes {
		var bar strings.Builder
		for _, n := range l.Heights {
			bar.WriteRune(bars[Height(n, pic.Most, len(bars)-1)])
		}
		fmt.Fprintf(out, "%s %s  %s\n", pad(clip(l.Name, laneName), laneName), p.Cyan(bar.String()), countsOfLane(p, l))
	}
}

// countsOfLane is how much was changed in a lane: lines that were changed twice count twice.
func countsOfLane(p cli.Paint, l *Lane) string {
	said := Counts(p, l.Files.Count(), l.Added, l.Removed, l.Partly)
	if l.Files.Least {
		return "at least " + said
	}
	return said
}

// Height is the bar of n files, 0 to top: by magnitude, or one large build makes all
// else flat.
func Height(n, most, top int) int {
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
		return top
	}
	return 1 + steps*(top-1)/scale
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(width-len([]rune(s)), 0))
}

func laneOf(a wire.Action) string {
	if a.Actor.Session != "" {
		client, _, _ := strings.Cut(cli.OneLine(a.Client), "/") // without its version
		return or(client, "session") + " " + short(a.Actor.Session)
	}
	if a.Plan != "" {
		kind, _, _ := strings.Cut(a.Plan, "-")
		return kind
	}
	return or(cli.OneLine(a.Actor.Comm), "somebody")
}
