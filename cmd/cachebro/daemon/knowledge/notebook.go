package knowledge

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fxamacker/cbor/v2"

	"cachebro/store"
	"cachebro/store/leaf/text"
)

// This file stores what people and agents want remembered about a project: a decision, a warning, a
// remaining task. A note cannot be derived from anything else, so only an explicit removal deletes
// it.
//
// Notes are in the bucket "notes" of the store's settings. The key is the id, and the value is a
// Note as CBOR with integer keys. All notes are also in memory, in an immutable list, so readers
// take no lock. A writer holds mu while it writes to the store and replaces the list.

const (
	maxText  = 4000 // bytes of one note
	maxNotes = 5000
)

// defaultKind is the kind of a note that was added without one.
const defaultKind = "note"

// Errors of Add and Remove, for use with errors.Is.
var (
	ErrInvalid  = errors.New("not a note")     // no text, a text that is too long, or an invalid kind
	ErrFull     = errors.New("too many notes") // there are maxNotes already
	ErrNotFound = errors.New("no such note")
)

// Note is one note. Immutable.
type Note struct {
	ID      string          `cbor:"1,keyasint"`           // "not-" and 8 hex digits of a hash of the next three fields
	Text    string          `cbor:"2,keyasint"`           // UTF-8, without leading and trailing space
	Kind    string          `cbor:"3,keyasint"`           // decision, warning, todo, …: a word
	Path    store.Path      `cbor:"4,keyasint,omitempty"` // the path that it is about; "": the project
	Time    int64           `cbor:"5,keyasint"`           // ns since the epoch; when it was last added
	Session store.SessionID `cbor:"6,keyasint,omitempty"` // the session that added it, if known
	Agent   string          `cbor:"7,keyasint,omitempty"`
	By      string          `cbor:"8,keyasint,omitempty"` // cli, mcp
}

// NoteBook holds all notes of a project. Its methods may be called concurrently.
type NoteBook struct {
	kv   store.KV
	mu   sync.Mutex             // held by a writer until its change is in the store
	list atomic.Pointer[[]Note] // newest first
}

// OpenNotes reads the stored notes. If a record cannot be read, OpenNotes does not change it and
// names its key in the error. The book is still usable.
func OpenNotes(kv store.KV) (*NoteBook, error) {
	b := &NoteBook{kv: kv}
	var list []Note
	var bad []string
	err := kv.Scan("", func(key string, val []byte) error {
		var n Note
		if err := store.DecMode.Unmarshal(val, &n); err != nil || n.ID != key {
			bad = append(bad, key)
			return nil
		}
		list = append(list, n)
		return nil
	})
	b.publish(list)
	if err == nil && len(bad) > 0 {
		err = fmt.Errorf("notes that cannot be read: %s", strings.Join(bad, ", "))
	}
	return b, err
}

func (b *NoteBook) publish(list []Note) {
	slices.SortFunc(list, func(x, y Note) int {
		return cmp.Or(cmp.Compare(y.Time, x.Time), cmp.Compare(x.ID, y.ID))
	})
	b.list.Store(&list)
}

// All returns all notes, newest first. The caller must not change the slice.
func (b *NoteBook) All() []Note { return *b.list.Load() }

// Get returns the note with this id.
func (b *NoteBook) Get(id string) (Note, bool) {
	list := *b.list.Load()
	if i := slices.IndexFunc(list, func(n Note) bool { return n.ID == id }); i >= 0 {
		return list[i], true
	}
	return Note{}, false
}

var kindShape = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,23}$`)

// Add stores a note and gives it its id. If a note with the same text, kind and path exists, Add
// updates that note's time and returns false for added. The errors are ErrInvalid, ErrFull and
// those of the store.
func (b *NoteBook) Add(n Note) (kept Note, added bool, err error) {
	n.Text = strings.TrimSpace(strings.ToValidUTF8(n.Text, "\ufffd"))
	n.Kind = cmp.Or(strings.ToLower(strings.TrimSpace(n.Kind)), defaultKind)
	switch {
	case n.Text == "":
		return n, false, fmt.Errorf("%w: it has no text", ErrInvalid)
	case len(n.Text) > maxText:
		return n, false, fmt.Errorf("%w: its text has %d bytes, and at most %d are allowed", ErrInvalid, len(n.Text), maxText)
	case !kindShape.MatchString(n.Kind):
		return n, false, fmt.Errorf("%w: its kind is not one word of letters and digits, 24 at most", ErrInvalid)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	list := slices.Clone(*b.list.Load())
	n.ID = b.id(n)
	i := slices.IndexFunc(list, func(o Note) bool { return o.ID == n.ID })
	if i < 0 && len(list) >= maxNotes {
		return n, false, fmt.Errorf("%w: there are %d already", ErrFull, len(list))
	}
	val, err := cbor.Marshal(n)
	if err != nil {
		return n, false, fmt.Errorf("encode a note: %w", err)
	}
	if err := b.kv.Set(n.ID, val); err != nil {
		return n, false, err
	}
	if i >= 0 {
		list = slices.Delete(list, i, i+1)
	}
	b.publish(append(list, n))
	return n, i < 0, nil
}

// id derives a note's id from its content, and avoids ids that other notes have.
func (b *NoteBook) id(n Note) string {
	what := n.Kind + "\x00" + string(n.Path) + "\x00" + n.Text
	for salt := what; ; salt += "\x00" {
		id := "not-" + text.Hash([]byte(salt))[:8]
		if o, taken := b.Get(id); !taken || o.Kind == n.Kind && o.Path == n.Path && o.Text == n.Text {
			return id
		}
	}
}

// Remove removes the notes with these ids and returns them. If it fails, it removes none. It
// returns ErrNotFound if one of them does not exist.
func (b *NoteBook) Remove(ids ...string) ([]Note, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var gone, left []Note
	for _, n := range *b.list.Load() {
		if slices.Contains(ids, n.ID) {
			gone = append(gone, n)
		} else {
			left = append(left, n)
		}
	}
	del := map[string][]byte{}
	for _, id := range ids {
		if !slices.ContainsFunc(gone, func(n Note) bool { return n.ID == id }) {
			return nil, fmt.Errorf("%w: %s", ErrNotFound, id)
		}
		del[id] = nil
	}
	if err := b.kv.SetAll(del); err != nil {
		return nil, err
	}
	b.publish(left)
	return gone, nil
}
