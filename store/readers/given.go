package readers

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"cachebro/store"
	"cachebro/store/leaf/text"
)

// maxGiven is how many delivered lines of cachebro's own words are remembered for a context;
// the oldest are dropped first.
const maxGiven = 4096

// ownWord returns a hash that identifies a line.
func ownWord(line string) uint64 {
	sum := sha256.Sum256([]byte(strings.TrimSpace(line)))
	return binary.BigEndian.Uint64(sum[:])
}

// giveLocked remembers the parts of an answer that are cachebro's own words and not text of a
// file. A new epoch does not clear them, because a summary after a compaction may still quote
// them. The caller holds r.mu.
func (r *reader) giveLocked(a Answer) {
	switch a.Kind {
	case Unchanged:
		r.givenLocked(text.OwnWords(a.Sent()))
	case Diff:
		r.givenLocked(text.OwnWords(a.Sent()))
		r.givenLocked(text.OwnWords(a.Text))
	case Span:
		r.givenLocked(text.OwnWords(a.Note))
	}
}

func (r *reader) givenLocked(lines []string) {
	for _, line := range lines {
		if w := ownWord(line); !slices.Contains(r.given, w) {
			r.given = append(r.given, w)
		}
	}
	if n := len(r.given) - maxGiven; n > 0 {
		r.given = slices.Clone(r.given[n:])
	}
}

// ConnectionSession is the prefix of the session name of a reader that is a connection.
const ConnectionSession = "connection:"

// GiveOwnWords records lines of cachebro's own words that a reader received other than by
// Decide.
func (s *Tracker) GiveOwnWords(id store.Reader, lines []string) {
	if r := s.reader(id, true); r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.givenLocked(lines)
	}
}

// GivenOwnWords returns the first of the lines that a session received as cachebro's own
// words, or "" if there is none. Connections of unknown session count as well, because they
// may belong to this session. If known is false, the session is uncertain and the lines of
// all sessions count.
func (s *Tracker) GivenOwnWords(id store.SessionID, known bool, lines []string) string {
	all := s.all()
	for _, line := range lines {
		w := ownWord(line)
		for _, r := range all {
			if known && r.id.Session != id && !strings.HasPrefix(string(r.id.Session), ConnectionSession) {
				continue
			}
			r.mu.Lock()
			has := slices.Contains(r.given, w)
			r.mu.Unlock()
			if has {
				return line
			}
		}
	}
	return ""
}
