package wire

import (
	"testing"
	"time"
)

func TestTime(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 30, 0, 0, time.UTC)
	for in, want := range map[string]time.Time{
		"90s": now.Add(-90 * time.Second), "10m": now.Add(-10 * time.Minute), "2h": now.Add(-2 * time.Hour), "1.5d": now.Add(-36 * time.Hour), "1w": now.Add(-7 * 24 * time.Hour), "2h30m": now.Add(-150 * time.Minute),
		"12:00": now.Add(-30 * time.Minute), "12:40": now.Add(-24*time.Hour + 10*time.Minute), "12:29:59": now.Add(-time.Second),
		"2026-01-30": time.Date(2026, 1, 30, 0, 0, 0, 0, time.UTC), "2026-01-30 08:00": time.Date(2026, 1, 30, 8, 0, 0, 0, time.UTC),
		"2026-01-30T08:00:00Z": time.Date(2026, 1, 30, 8, 0, 0, 0, time.UTC),
	} {
		if got, ok := ParseTime(in, now); !ok || !got.Equal(want) {
			t.Errorf("%q is %v, %v; want %v", in, got, ok, want)
		}
	}
	for _, in := range []string{"", "-5m", "soon", "25:00", "NaNd", "-1w", "1e9d", "Infw"} {
		if got, ok := ParseTime(in, now); ok {
			t.Errorf("%q is %v", in, got)
		}
	}
}
