package readers

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"cachebro/store"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"
)

// maxGiven is the number of lines written by cachebro that are remembered for a context. The oldest
// are dropped first.
const maxGiven = 4096

// ownWord returns the hash of a line.
func ownWord(line string) uint64 {
	sum := sha256.Sum256([]byte(strings.TrimSpace(line)))
	return binary.BigEndian.Uint64(sum[:])
}

// giveLocked remembers the parts of an answer that cachebro wrote, which are not text of a file. A
// new epoch does not clear them, because a summary after a compaction may still quote them. The
// caller holds r.mu.
func (r *reader) giveLocked(a Answer) {
	switch a.Kind {
	case wire.ReadUnchanged:
		r.givenLocked(text.OwnWords(a.Sent()))
	case wire.ReadDiff:
		r.givenLocked(text.OwnWords(a.Sent()))
		r.givenLocked(text.OwnWords(a.Text))
	case wire.ReadSpan:
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
		r.given = r.given[n:]
	}
}

// ConnectionSession is the prefix of the session ID of a reader that is a connection.
const ConnectionSession = "connection:"

// GiveOwnWords records lines written by cachebro that a reader received without Decide.
func (s *Tracker) GiveOwnWords(id store.Reader, lines []string) {
	if r := s.reader(id, true); r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.givenLocked(lines)
	}
}

// GivenOwnWords returns the first of the lines that cachebro wrote and sent to a session, or "" if
// there is none. Connections whose session is unknown count too, because they may belong to this
// session. If known is false, the lines of all sessions count.
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
