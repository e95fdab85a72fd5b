package wire

import (
	"strconv"
	"time"
)

// maxDuration is the largest time.Duration.
const maxDuration = float64(1<<63 - 1)

// ParseTime parses a time as users and models write it:
//   - 12:40[:05], which means yesterday if it is later than now
//   - 2026-05-01[ 12:40[:05]]
//   - RFC 3339
//   - an age like 90s, 10m, 2h, 3d, 1w
func ParseTime(s string, now time.Time) (time.Time, bool) {
	if age, ok := ParseAge(s); ok {
		return now.Add(-age), true
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, true
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		c, err := time.Parse(layout, s)
		if err != nil {
			continue
		}
		t := time.Date(now.Year(), now.Month(), now.Day(), c.Hour(), c.Minute(), c.Second(), c.Nanosecond(), now.Location())
		if t.After(now) {
			t = t.AddDate(0, 0, -1)
		}
		return t, true
	}
	return time.Time{}, false
}

// ParseAge parses an age: 90s, 10m, 2h, 1.5d, 1w.
func ParseAge(s string) (time.Duration, bool) {
	if s == "" {
		return 0, false
	}
	day := map[byte]time.Duration{'d': 24 * time.Hour, 'w': 7 * 24 * time.Hour}[s[len(s)-1]]
	if day > 0 {
		n, err := strconv.ParseFloat(s[:len(s)-1], 64)
		return time.Duration(n * float64(day)), err == nil && n >= 0 && n*float64(day) < maxDuration
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d >= 0
}
