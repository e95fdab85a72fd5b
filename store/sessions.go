package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"cachebro/store/db"

	badger "github.com/dgraph-io/badger/v4"
)

// Session is one session of a client. Times are in ns since the epoch; 0: unknown.
type Session struct {
	ID         SessionID `cbor:"1,keyasint,omitempty"`
	Client     string    `cbor:"2,keyasint,omitempty"` // claude, codex, …
	Cwd        string    `cbor:"3,keyasint,omitempty"`
	Transcript string    `cbor:"4,keyasint,omitempty"`
	PID        uint32    `cbor:"5,keyasint,omitempty"` // process of the client
	PStart     uint64    `cbor:"6,keyasint,omitempty"` // start time of PID, because a pid can be reused
	Started    int64     `cbor:"7,keyasint,omitempty"`
	Last       int64     `cbor:"8,keyasint,omitempty"` // last event
	Ended      int64     `cbor:"9,keyasint,omitempty"`
	Source     string    `cbor:"10,keyasint,omitempty"` // startup, resume, clear, compact, fork
	Prompt     string    `cbor:"11,keyasint,omitempty"` // ID of the present prompt
	StartSeq   uint64    `cbor:"12,keyasint,omitempty"` // newest version when the session began
	Branch     string    `cbor:"13,keyasint,omitempty"`
	Told       uint64    `cbor:"14,keyasint,omitempty"` // newest version when the session was last shown what others changed
	Mounted    bool      `cbor:"15,keyasint,omitempty"` // something was mounted at an event, and the session was not told since that it is gone
}

// Prompt is one message of the user within a session.
type Prompt struct {
	ID      string    `cbor:"1,keyasint,omitempty"`
	Session SessionID `cbor:"2,keyasint,omitempty"`
	Time    int64     `cbor:"3,keyasint,omitempty"`
	Text    string    `cbor:"4,keyasint,omitempty"` // the beginning of the message, for display
	Seq     uint64    `cbor:"5,keyasint,omitempty"` // newest version when the prompt was sent
	// Continues is the ID of the user's prompt that this one belongs to, if the client itself sent
	// this one.
	Continues string `cbor:"6,keyasint,omitempty"`
}

// ToolCall is one tool call of a client.
type ToolCall struct {
	ID      string    `cbor:"1,keyasint,omitempty"`
	Session SessionID `cbor:"2,keyasint,omitempty"`
	Agent   string    `cbor:"3,keyasint,omitempty"`
	Prompt  string    `cbor:"4,keyasint,omitempty"`
	Tool    string    `cbor:"5,keyasint,omitempty"`
	Title   string    `cbor:"6,keyasint,omitempty"` // the command or path, for display
	Begin   int64     `cbor:"7,keyasint,omitempty"`
	End     int64     `cbor:"8,keyasint,omitempty"`
	PID     uint32    `cbor:"9,keyasint,omitempty"`
	Failed  bool      `cbor:"10,keyasint,omitempty"`
}

// Sessions stores the sessions, prompts and tool calls that clients reported, and the files that
// each session read and edited.
type Sessions struct {
	db *db.DB
}

// Put stores a session, replacing an earlier record with the same ID.
func (s *Sessions) Put(v Session) error {
	return s.putRecord("session", keyNamed(kSession, string(v.ID)), &v)
}

// Get returns a session by its ID.
func (s *Sessions) Get(id SessionID) (v Session, found bool, err error) {
	found, err = get(s.db, keyNamed(kSession, string(id)), &v)
	return v, found, err
}

// List returns the sessions, ordered by their last event, latest first. If limit is 0, it returns
// all.
func (s *Sessions) List(limit int) ([]Session, error) {
	vs, err := records[Session](s.db, []byte{kSession})
	slices.SortStableFunc(vs, func(a, b Session) int { return cmp.Compare(b.Last, a.Last) })
	if limit > 0 && len(vs) > limit {
		vs = vs[:limit]
	}
	return vs, err
}

// PutPrompt stores a prompt. The prompts of a session are ordered by Time.
func (s *Sessions) PutPrompt(v Prompt) error {
	k := append(keyNamed(kPrompt, string(v.Session)), 0)
	k = binary.BigEndian.AppendUint64(k, uint64(v.Time))
	return s.putRecord("prompt", append(k, cleanID(v.ID)...), &v)
}

// Prompts returns a session's prompts, oldest first, without those that continue another.
func (s *Sessions) Prompts(session SessionID) ([]Prompt, error) {
	vs, err := s.AllPrompts(session)
	return slices.DeleteFunc(vs, Prompt.continued), err
}

// AllPrompts is like Prompts, but includes prompts that the client itself sent.
func (s *Sessions) AllPrompts(session SessionID) ([]Prompt, error) {
	return records[Prompt](s.db, append(keyNamed(kPrompt, string(session)), 0))
}

func (p Prompt) continued() bool { return p.Continues != "" }

// LastPrompts returns the latest prompts of a session, or of all sessions for "", newest first. If
// limit is 0, it returns all.
func (s *Sessions) LastPrompts(session SessionID, limit int) ([]Prompt, error) {
	prefix := []byte{kPrompt}
	if session != "" {
		prefix = append(keyNamed(kPrompt, string(session)), 0)
	}
	vs, err := records[Prompt](s.db, prefix)
	vs = slices.DeleteFunc(vs, Prompt.continued)
	slices.SortStableFunc(vs, func(a, b Prompt) int { return cmp.Compare(b.Time, a.Time) })
	if limit > 0 && len(vs) > limit {
		vs = vs[:limit]
	}
	return vs, err
}

// PutToolCall stores a tool call. The calls of a session are ordered by Begin.
func (s *Sessions) PutToolCall(v ToolCall) error {
	k := append(keyNamed(kToolList, string(v.Session)), 0)
	k = binary.BigEndian.AppendUint64(k, uint64(v.Begin))
	err := s.db.Update(func(txn *badger.Txn) error {
		if err := txn.Set(keyNamed(kToolCall, v.ID), encode(&v)); err != nil {
			return err
		}
		return txn.Set(append(k, cleanID(v.ID)...), nil)
	})
	if err != nil {
		return fmt.Errorf("store a tool call: %w", err)
	}
	return nil
}

// ToolCall returns a tool call by its ID.
func (s *Sessions) ToolCall(id string) (v ToolCall, found bool, err error) {
	found, err = get(s.db, keyNamed(kToolCall, id), &v)
	return v, found, err
}

// ToolCalls returns a session's tool calls, newest first. If limit is 0, it returns all.
func (s *Sessions) ToolCalls(session SessionID, limit int) ([]ToolCall, error) {
	var out []ToolCall
	err := s.db.View(func(txn *badger.Txn) error {
		prefix := append(keyNamed(kToolList, string(session)), 0)
		it := txn.NewIterator(badger.IteratorOptions{Reverse: true, Prefix: prefix})
		defer it.Close()
		last := append(append([]byte{}, prefix...), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
		for it.Seek(last); it.Valid() && (limit <= 0 || len(out) < limit); it.Next() {
			key := it.Item().Key()
			if len(key) < len(prefix)+8 {
				continue
			}
			var v ToolCall
			ok, err := txnGet(txn, keyNamed(kToolCall, string(key[len(prefix)+8:])), &v)
			if err != nil {
				return err
			}
			if ok {
				out = append(out, v)
			}
		}
		return nil
	})
	return out, err
}

func (s *Sessions) putRecord(what string, key []byte, v any) error {
	enc := encode(v)
	if err := s.db.Update(func(txn *badger.Txn) error { return txn.Set(key, enc) }); err != nil {
		return fmt.Errorf("store a %s: %w", what, err)
	}
	return nil
}

// records decodes all records under a prefix.
func records[T any](d *db.DB, prefix []byte) ([]T, error) {
	var out []T
	err := d.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{PrefetchValues: true, PrefetchSize: 64, Prefix: prefix})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			var v T
			if err := it.Item().Value(func(b []byte) error { return decode(b, &v) }); err != nil {
				return damaged(err)
			}
			out = append(out, v)
		}
		return nil
	})
	return out, err
}

// Beginning returns the session IDs that begin with text and occur in the log.
func (s *Sessions) Beginning(text string) ([]string, error) {
	return s.namesInIndex(ixSession, text)
}

// PromptsBeginning returns the prompt IDs that begin with text and occur in the log.
func (s *Sessions) PromptsBeginning(text string) ([]string, error) {
	return s.namesInIndex(ixPrompt, text)
}

func (s *Sessions) namesInIndex(kind byte, text string) (names []string, err error) {
	err = s.db.View(func(txn *badger.Txn) error {
		prefix := append([]byte{kIndex, kind}, cleanID(text)...)
		it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
		defer it.Close()
		for it.Seek(prefix); it.Valid(); {
			name, _, found := bytes.Cut(it.Item().Key()[2:], []byte{0})
			if !found {
				return nil
			}
			names = append(names, string(name))
			it.Seek(append(append([]byte{kIndex, kind}, name...), 1)) // after all its versions
		}
		return nil
	})
	return names, err
}

// SessionStart returns the number of the newest version before a session began.
func (s *Store) SessionStart(id SessionID) (uint64, error) {
	ses, found, err := s.Sessions.Get(id)
	if err != nil {
		return 0, err
	}
	if found && ses.StartSeq > 0 {
		return ses.StartSeq, nil
	}
	vs, _, err := s.Log(Filter{Session: id, Oldest: true, Limit: 1, Baselines: true})
	if err != nil {
		return 0, err
	}
	if len(vs) == 0 {
		return 0, fmt.Errorf("session %q has changed nothing: %w", string(id), ErrNotFound)
	}
	return vs[0].Seq - 1, nil
}
