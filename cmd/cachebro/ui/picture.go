package ui

import (
	"cmp"
	"strings"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/history"
	"cachebro/store/wire"
)

// lane is a session, or a program outside sessions, in the chart above the timeline.
type lane struct {
	Name    string
	Session string // "" outside of sessions
	Began   string // the session's first prompt
	Files   history.Touched
	Heights []int // the number of files changed in each column
}

// picture shows who changed how much, and when. It has a lane for each session and for each program
// outside sessions, in the order in which they began.
type picture struct {
	From, To time.Time
	Lanes    []*lane
	Most     int // the highest of all columns
}

// pictureOf counts the changed files by lane and column. The actions are sorted, newest first.
func pictureOf(all []wire.Action, width, most int) picture {
	pic := picture{From: all[len(all)-1].Begin, To: all[0].End, Most: 1}
	for _, a := range all {
		if a.Begin.Before(pic.From) {
			pic.From = a.Begin
		}
	}
	span := max(pic.To.Sub(pic.From), time.Second)
	byName := map[string]*lane{}
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
				l = &lane{Name: name, Heights: make([]int, width)}
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
	}
	return pic
}

// height returns the height of the bar of n files, from 0 to top. The scale is logarithmic, because
// one large build would make all other bars flat.
func height(n, most, top int) int {
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

// laneOf names the lane that an action belongs to.
func laneOf(a wire.Action) string {
	if a.Actor.Session != "" {
		client, _, _ := strings.Cut(cli.OneLine(a.Client), "/") // without its version
		return cmp.Or(client, "session") + " " + history.Short(a.Actor.Session)
	}
	if a.Plan != "" {
		kind, _, _ := strings.Cut(a.Plan, "-")
		return kind
	}
	return cmp.Or(cli.OneLine(a.Actor.Comm), "somebody")
}
