package store

import (
	"fmt"

	"cachebro/store/db"
	"cachebro/store/leaf/event"

	badger "github.com/dgraph-io/badger/v4"
)

// WorkingFile counts what one session did with one path. It is an entry of the working set.
type WorkingFile struct {
	Session  SessionID `cbor:"1,keyasint,omitempty"`
	Path     Path      `cbor:"2,keyasint,omitempty"`
	Reads    int       `cbor:"3,keyasint,omitempty"`
	Edits    int       `cbor:"4,keyasint,omitempty"`
	LastRead int64     `cbor:"5,keyasint,omitempty"` // ns since the epoch
	LastEdit int64     `cbor:"6,keyasint,omitempty"`
	ReadBy   string    `cbor:"7,keyasint,omitempty"` // tool or command
	EditBy   string    `cbor:"8,keyasint,omitempty"`
}

type workingKey struct {
	session SessionID
	path    Path
}

// edited adds a version of a tracked file to its session's working set, n times.
func (b *batch) edited(v Version, n int) {
	if v.Actor.Session == "" || v.Class != event.Tracked || v.Stat.IsDir() {
		return
	}
	switch v.Op {
	case OpBaseline, OpMoved, OpMkdir:
		return
	}
	k := workingKey{v.Actor.Session, v.Path}
	t := b.working[k]
	if t == nil {
		t = &WorkingFile{}
		b.working[k] = t
	}
	t.Edits += n
	t.LastEdit, t.EditBy = v.Time, v.Actor.ToolOrCommand()
}

// ToolOrCommand returns the actor's tool, or the command's name if there is no tool.
func (a Actor) ToolOrCommand() string {
	if a.Tool != "" && a.Tool != "Bash" {
		return a.Tool
	}
	return a.Comm
}

func (b *batch) flushWorking() error {
	for k, add := range b.working {
		if err := addWorking(b.w, k, add); err != nil {
			return err
		}
	}
	return nil
}

// addWorking adds counts to a stored WorkingFile.
func addWorking(w *db.Writer, k workingKey, add *WorkingFile) error {
	key := keyNamed(kWorking, string(k.session), string(k.path))
	t := WorkingFile{Session: k.session, Path: k.path}
	if _, err := txnGet(w.Txn, key, &t); err != nil {
		return err
	}
	t.Reads += add.Reads
	t.Edits += add.Edits
	if add.LastRead > 0 {
		t.LastRead, t.ReadBy = add.LastRead, add.ReadBy
	}
	if add.LastEdit > 0 {
		t.LastEdit, t.EditBy = add.LastEdit, add.EditBy
	}
	return w.Set(key, encode(&t))
}

// NoteReads counts reads of paths by a session. by is the tool or command; t is in ns since
// the epoch.
func (s *Sessions) NoteReads(session SessionID, by string, t int64, paths []Path) error {
	if session == "" || len(paths) == 0 {
		return nil
	}
	s.db.Lock()
	defer s.db.Unlock()
	err := s.db.Update(func(txn *badger.Txn) error {
		for _, p := range paths {
			key := keyNamed(kWorking, string(session), string(p))
			have := WorkingFile{Session: session, Path: p}
			if _, err := txnGet(txn, key, &have); err != nil {
				return err
			}
			have.Reads++
			have.LastRead, have.ReadBy = t, by
			if err := txn.Set(key, encode(&have)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("note reads: %w", err)
	}
	return nil
}

// WorkingSet returns what a session read and edited, sorted by path.
func (s *Sessions) WorkingSet(session SessionID) ([]WorkingFile, error) {
	return records[WorkingFile](s.db, append(keyNamed(kWorking, string(session)), 0))
}
