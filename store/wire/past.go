package wire

import (
	"strconv"
	"time"
)

// Requests for the read-only view of the tree at a past point in time.
const (
	MMoment   = "moment"    // MomentQuery → Moment
	MPast     = "past"      // PastQuery → PastAnswer
	MPastRead = "past.read" // PastRead → Empty, body: the content
)

// MomentQuery names a point in time by one of: a version, a time, the beginning of a session, the
// beginning of a prompt. Sessions and prompts are given by their ID or "last".
type MomentQuery struct {
	Seq     uint64    `json:"seq,omitempty"`
	At      time.Time `json:"at,omitzero"`
	Session string    `json:"session,omitempty"`
	Prompt  string    `json:"prompt,omitempty"`
}

// Moment is a point in time. Seq is the newest version at that time, or 0 if nothing had been
// recorded yet.
type Moment struct {
	Seq uint64    `json:"seq"`
	At  time.Time `json:"at,omitzero"` // when version Seq was made
}

// PastQuery asks for the direct children of a path ("" is the root) at version Seq. With Versions,
// it asks for every child that ever existed, or for the versions of a file.
type PastQuery struct {
	Seq      uint64 `json:"seq,omitempty"`
	Path     []byte `json:"path,omitempty"`
	Versions bool   `json:"versions,omitempty"`
}

// PastAnswer is sorted by name. If the directory did not exist, the answer is ErrNotFound.
type PastAnswer struct {
	Entries []PastEntry `json:"entries"`
}

// PastEntry is the past state of a file, directory or link.
type PastEntry struct {
	Name   []byte `json:"name"` // without its directory
	Mode   uint32 `json:"mode"` // st_mode
	Size   int64  `json:"size,omitempty"`
	Mtime  int64  `json:"mtime,omitempty"` // ns
	UID    uint32 `json:"uid,omitempty"`
	GID    uint32 `json:"gid,omitempty"`
	Target []byte `json:"target,omitempty"`
	Hash   string `json:"hash,omitempty"`
	Why    string `json:"why,omitempty"` // why the content is not available
	Seq    uint64 `json:"seq,omitempty"`
}

// PastRead asks for a content named in a PastAnswer.
type PastRead struct {
	Hash string `json:"hash"`
}

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
