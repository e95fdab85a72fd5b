package portable

import (
	"bytes"
	"fmt"

	"cachebro/store"
)

// recordsBytes limits the records of one log that Read holds in memory. A part has a few megabytes,
// unless a plan in it has very many steps.
const recordsBytes = 256 << 20

// Records holds the records of a part's log, for callers without a store.
type Records struct {
	Versions  []store.Version // ascending
	Sessions  []store.Session
	Prompts   []store.Prompt
	ToolCalls []store.ToolCall
}

// Read reads the log of a part, without the contents.
func Read(log []byte) (r Records, err error) {
	size, last := 0, uint64(0)
	_, err = readRecords(bytes.NewReader(log), logMagic, recordsBytes, func(kind byte, key, val []byte) error {
		size += len(key) + len(val)
		if size > recordsBytes {
			return fmt.Errorf("%w: the records of a log", store.ErrTooLarge)
		}
		switch kind {
		case store.RecordVersion:
			v, err := readVersion(key, val, last)
			if err != nil {
				return err
			}
			last = v.Seq
			r.Versions = append(r.Versions, v)
		case store.RecordSession:
			return into(&r.Sessions, "session", val)
		case store.RecordPrompt:
			return into(&r.Prompts, "prompt", val)
		case store.RecordToolCall:
			return into(&r.ToolCalls, "tool call", val)
		}
		return nil
	})
	return r, err
}

func into[T any](all *[]T, what string, val []byte) error {
	var v T
	if decode(val, &v) != nil {
		return badStream("a %s cannot be read", what)
	}
	*all = append(*all, v)
	return nil
}

// ReadContents calls fn with the contents of a part. A content above max bytes is an error.
func ReadContents(contents []byte, max int64, fn func(store.Hash, []byte) error) error {
	_, err := readRecords(bytes.NewReader(contents), contentsMagic, max, func(_ byte, key, val []byte) error {
		return fn(store.Hash(key), val)
	})
	return err
}
