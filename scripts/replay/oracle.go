package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"

	"cachebro/store"
	"cachebro/store/readers"
	"cachebro/store/wire"
)

// oracle knows exactly what a context window contains and sends the shortest of full text, diff and
// stub. Its answers have the same words as cachebro's, because it calls the real code that decides
// about reads. For each read, it makes up a reader that was shown only the texts that matter for
// the read.
type oracle struct {
	s        *readers.Tracker
	contents memory
	n        int
	tokens   counter
}

// memory holds contents by hash.
type memory map[store.Hash]string

// Content implements shown.Contents.
func (m memory) Content(h store.Hash) ([]byte, error) {
	if s, ok := m[h]; ok {
		return []byte(s), nil
	}
	return nil, errors.New("the reader does not know the content")
}

func newOracle(count counter) (*oracle, error) {
	m := memory{}
	s, err := readers.New(m, nil, readers.Options{MaxSessions: 4})
	return &oracle{s: s, contents: m, tokens: count}, err
}

// expiry is the number of tokens after which a text that was sent no longer counts as known.
const expiry = 60_000

// least returns the number of tokens that a read costs with an oracle, and the number with an
// oracle for which known texts expire.
func (o *oracle) least(m *mind, r ask, rewrite func(string, *readers.Request), send func(readers.Answer) string) (best, expiring int, err error) {
	best, err = o.read(m, r, rewrite, send)
	if err == nil {
		expiring, err = o.read(m.within(expiry), r, rewrite, send)
	}
	return best, expiring, err
}

// read returns the smallest number of tokens that the lines of a read could cost a reader with the
// knowledge m. rewrite, if not nil, makes the request ask whether to keep or replace
// the result of the client's own tool, and send returns
// the text of an answer that the model receives.
func (o *oracle) read(m *mind, r ask, rewrite func(text string, q *readers.Request), send func(readers.Answer) string) (int, error) {
	full := o.tokens(r.full)
	now := strings.Join(r.now, "\n")
	base := ""
	switch {
	case m.holds(r.now, r.first, r.last) && (!r.whole || m.end && len(m.lines) == len(r.now)):
		base = now
	case r.whole:
		was, ok := m.whole()
		if !ok {
			return full, nil
		}
		base = was
	default:
		return full, nil
	}
	o.n++
	clear(o.contents)
	reader := store.Reader{Session: store.SessionID(rune('a' + o.n%4))}
	o.s.Forget(reader.Session)
	if _, err := o.decide(reader, r, base, rewrite); err != nil {
		return 0, err
	}
	a, err := o.decide(reader, r, now, rewrite)
	if err != nil {
		return 0, err
	}
	if a.Kind == wire.ReadFull || a.Kind == wire.ReadKeep {
		return full, nil
	}
	return min(full, o.tokens(send(a))), nil
}

func (o *oracle) decide(reader store.Reader, r ask, content string, rewrite func(string, *readers.Request)) (readers.Answer, error) {
	h := store.Hash(sha256.Sum256([]byte(content)))
	o.contents[h] = content
	q := readers.Request{Reader: reader, Known: true, Path: store.Path(r.path), Hash: h, Tool: "read_file",
		Content: func() ([]byte, error) { return []byte(content), nil }}
	if !r.whole {
		q.Offset, q.Limit = r.first, r.last-r.first+1
	}
	if rewrite != nil {
		rewrite(content, &q)
	}
	return o.s.Decide(context.Background(), q)
}
