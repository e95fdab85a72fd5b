package mcp

import (
	"strings"
	"testing"
	"time"

	"cachebro/store/wire"
)

// An editor's atomic save is shown as one change.
func TestFold(t *testing.T) {
	at0 := time.Now()
	v := func(seq uint64, op, path, from string, pid uint32) wire.Version {
		return wire.Version{Seq: seq, Op: op, Path: []byte(path), From: []byte(from), Time: at0.Add(time.Duration(seq) * time.Millisecond), Actor: wire.Actor{PID: pid, Comm: "x"}}
	}
	newest := []wire.Version{
		v(9, "rename", "c.txt", "b.txt", 12),                               // mv of a file that another process wrote
		v(8, "create", "b.txt", "", 11),                                    //
		v(7, "rename", "a.txt", "sedX", 10), v(6, "moved", "sedX", "", 10), // sed -i
		v(5, "write", "sedX", "", 10), v(4, "create", "sedX", "", 10), //
		v(3, "write", "a.txt", "", 9), v(2, "unlink", "d", "", 9), v(1, "create", "a.txt", "", 9),
	}
	var got []string
	for _, v := range fold(newest) {
		got = append(got, v.Op+" "+string(v.Path)+" "+string(v.From))
	}
	want := "rename c.txt b.txt|create b.txt |save a.txt |write a.txt |unlink d |create a.txt "
	if s := strings.Join(got, "|"); s != want {
		t.Errorf("folded:\n got %s\nwant %s", s, want)
	}
	if newest[2].Op != "rename" {
		t.Error("the log itself was changed")
	}
}

func TestVersionArgument(t *testing.T) {
	for in, want := range map[string]wire.ShowQuery{"#812": {Seq: 812}, "812": {Seq: 812}, "@3": {Number: 3}, "@-1": {Number: -1}, "-2": {Number: -2}} {
		got, err := version(in)
		if err != nil || got.Seq != want.Seq || got.Number != want.Number {
			t.Errorf("version(%q) = %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{"0", "#0", "#-1", "@", "#", "last", "1.5"} {
		if got, err := version(in); err == nil {
			t.Errorf("version(%q) = %+v", in, got)
		}
	}
}

func TestSince(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 30, 0, 0, time.UTC)
	for in, want := range map[string]time.Time{
		"10m": now.Add(-10 * time.Minute), "2h": now.Add(-2 * time.Hour), "1.5d": now.Add(-36 * time.Hour), "1w": now.Add(-7 * 24 * time.Hour),
		"12:00": now.Add(-30 * time.Minute), "12:40": now.Add(-24*time.Hour + 10*time.Minute),
		"2026-01-30 08:00": time.Date(2026, 1, 30, 8, 0, 0, 0, time.UTC), "2026-01-30T08:00:00Z": time.Date(2026, 1, 30, 8, 0, 0, 0, time.UTC),
	} {
		if got, err := parseSince(in, now); err != nil || !got.Equal(want) {
			t.Errorf("since(%q) = %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "-5m", "0m", "soon", "25:00", "NaNd", "1e9d"} {
		if got, err := parseSince(in, now); err == nil {
			t.Errorf("since(%q) = %v", in, got)
		}
	}
}
