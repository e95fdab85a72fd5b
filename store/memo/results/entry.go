package results

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"cachebro/store/leaf/cache"
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

// Key returns the key of a call: the tool's name, a colon and the first 16 hex digits of a hash.
// The hash is the SHA-256 of the canonical JSON of [tool, args]; full is the whole hash in hex. An
// entry also holds full, so that a collision of short hashes is a miss. The key does not depend on
// the order of keys, on spaces or on the spelling of exponents in the JSON of args.
func Key(tool string, args any) (key, full string, err error) {
	raw, err := canonical([]any{tool, args})
	if err != nil {
		return "", "", fmt.Errorf("key of %s: %w", tool, err)
	}
	sum := sha256.Sum256(raw)
	full = hex.EncodeToString(sum[:])
	return tool + ":" + full[:16], full, nil
}

// canonical encodes v as JSON with sorted keys. It first decodes structs and raw messages into
// maps, because encoding sorts the keys of maps.
func canonical(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // otherwise 2^53+1 would become 2^53
	var plain any
	if err := dec.Decode(&plain); err != nil {
		return nil, err
	}
	return json.Marshal(plain)
}

// Memory caches the most recently used entries in memory.
type Memory struct {
	entries *cache.Cache[string, Entry]
}

var _ Store = (*Memory)(nil)

// NewMemory returns a store of at most the given number of bytes (0: 32 MiB).
func NewMemory(bytes int) *Memory {
	if bytes <= 0 {
		bytes = 32 << 20
	}
	return &Memory{cache.New[string](bytes, func(e Entry) int { return e.size() })}
}

// Name implements Store.
func (m *Memory) Name() string { return "memory" }

// Get implements Store.
func (m *Memory) Get(_ context.Context, key string) (Entry, bool, error) {
	e, ok := m.entries.Get(key)
	return e, ok, nil
}

// Set implements Store.
func (m *Memory) Set(_ context.Context, key string, e Entry, _ time.Duration) error {
	m.entries.Put(key, e)
	return nil
}

// Clear implements Store.
func (m *Memory) Clear(context.Context) error {
	m.entries.Clear()
	return nil
}
