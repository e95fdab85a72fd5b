package results

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Used is one input of an answer: a file, a directory with its subtree, or anything else whose
// version the caller can determine.
type Used struct {
	Path    string `json:"p"`
	Version string `json:"v"`
}

// Entry is a cached answer. A stored entry is immutable.
type Entry struct {
	Key   string // the full hash of the call
	At    time.Time
	Uses  []Used
	Value []byte
}

// size returns the approximate memory of an entry in bytes.
func (e *Entry) size() int {
	n := len(e.Value) + len(e.Key) + 128
	for _, u := range e.Uses {
		n += len(u.Path) + len(u.Version) + 32
	}
	return n
}

// Store is a place for entries. Its methods may be called concurrently. An error means that the
// store could not be queried, never that the entry is missing.
type Store interface {
	// Name is the store's name in the status: memory, disk, redis.
	Name() string
	Get(ctx context.Context, key string) (Entry, bool, error)
	// Set stores an entry for ttl. A store may store it later, or drop it.
	Set(ctx context.Context, key string, e Entry, ttl time.Duration) error
	// Clear removes all entries and nothing else.
	Clear(ctx context.Context) error
}

// header is the first line of a stored entry.
type header struct {
	V    int       `json:"v"`
	Key  string    `json:"key"`
	At   time.Time `json:"at"`
	Uses []Used    `json:"uses,omitempty"`
}

const formatVersion = 1

var errFormat = errors.New("not an entry of this format")

func encodeEntry(e Entry) ([]byte, error) {
	head, err := json.Marshal(header{formatVersion, e.Key, e.At, e.Uses})
	if err != nil {
		return nil, err
	}
	return append(append(head, '\n'), e.Value...), nil
}

func decodeEntry(b []byte) (Entry, error) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		return Entry{}, errFormat
	}
	var h header
	if json.Unmarshal(b[:i], &h) != nil || h.V != formatVersion {
		return Entry{}, errFormat
	}
	return Entry{Key: h.Key, At: h.At, Uses: h.Uses, Value: b[i+1:]}, nil
}
