package sessions

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"cachebro/hooks/clients"
	"cachebro/store"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// This file stores what a person tells an agent about lines that the agent wrote, until the
// session's next prompt delivers it.
//
// A comment is one JSON record of the store, under its id; ids grow with time. A hook claims a
// comment before printing it, so that only one of two simultaneous prompts delivers it. Afterwards
// the hook confirms the delivery. If the hook or the daemon is killed in between, the claim
// expires. The next prompt's hook then reads the client's transcript, which shows what the agent
// really received.

const (
	maxComment = 4000 // characters of one comment
	maxQuote   = 300  // bytes of the quoted line
	maxKept    = 1000 // comments; the oldest delivered ones are dropped first

	// claimFor is longer than any hook runs.
	claimFor = time.Minute
)

// Comments answers requests about comments.
type Comments struct {
	store *store.Store
	kv    store.KV
	paths onwire.Paths
	now   func() time.Time
	mu    sync.Mutex // held during each request, also while the store is used
}

// NewComments makes the service; now is the clock.
func NewComments(st *store.Store, paths onwire.Paths, now func() time.Time) *Comments {
	return &Comments{store: st, kv: st.KV("comments"), paths: paths, now: now}
}

// Handlers returns the handler of its request, by method.
func (s *Comments) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{wire.MComments: onwire.Decoded(s.answer)}
}

func (s *Comments) answer(_ context.Context, q wire.CommentsRequest) (wire.CommentsAnswer, []byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.all()
	if err != nil {
		return wire.CommentsAnswer{}, nil, err
	}
	var out wire.CommentsAnswer
	switch q.Do {
	case "add":
		c, err := s.add(q.Comment, all)
		if err == nil {
			out.Comments = []wire.Comment{c}
		}
		return out, nil, err
	case "list", "pending":
		for _, c := range all {
			ofSession := q.Session == "" || c.Session == q.Session
			ofPath := len(q.Path) == 0 || string(c.Path) == string(q.Path)
			if ofSession && ofPath && (q.Do == "list" || s.waits(c)) {
				out.Comments = append(out.Comments, c)
			}
		}
		if v, ok, err := s.store.Sessions.Get(store.SessionID(q.Session)); err == nil && ok && clients.TakesNoText(v.Client) {
			out.Deaf = v.Client
		}
		return out, nil, nil
	case "claim", "delivered":
		for _, c := range all {
			if !slices.Contains(q.IDs, c.ID) || !c.Delivered.IsZero() || q.Do == "claim" && !s.waits(c) {
				continue
			}
			if q.Do == "claim" {
				c.Claimed = s.now()
			} else {
				c.Delivered = s.now()
			}
			if err := s.put(c); err != nil {
				return out, nil, err
			}
			out.Comments = append(out.Comments, c)
		}
		return out, nil, s.store.Sync()
	}
	return out, nil, wire.Errorf(wire.ErrBadRequest, "add, list, pending, claim or delivered", "%q is not an operation on comments", q.Do)
}

// waits reports whether a comment waits to be delivered with the next prompt.
func (s *Comments) waits(c wire.Comment) bool {
	return c.Delivered.IsZero() && (c.Claimed.IsZero() || s.now().Sub(c.Claimed).Abs() > claimFor)
}

// all returns the comments, oldest first, without those that cannot be read.
func (s *Comments) all() (out []wire.Comment, err error) {
	err = s.kv.Scan("", func(_ string, val []byte) error {
		var c wire.Comment
		if json.Unmarshal(val, &c) == nil && c.ID != "" {
			out = append(out, c)
		}
		return nil
	})
	slices.SortFunc(out, func(a, b wire.Comment) int { return cmp.Compare(a.ID, b.ID) })
	return out, err
}

func (s *Comments) add(c wire.Comment, all []wire.Comment) (wire.Comment, error) {
	p, err := s.paths.Clean(c.Path)
	if err != nil {
		return c, err
	}
	c.Path, c.Text = []byte(p), strings.TrimSpace(strings.ReplaceAll(strings.ToValidUTF8(c.Text, "\uFFFD"), "\r\n", "\n"))
	c.Quote = strings.ToValidUTF8(c.Quote[:min(len(c.Quote), maxQuote)], "\uFFFD")
	switch {
	case c.Text == "":
		return c, wire.Errorf(wire.ErrBadRequest, "", "the comment has no text")
	case utf8.RuneCountInString(c.Text) > maxComment:
		return c, wire.Errorf(wire.ErrTooLarge, "", "the comment has %d characters, and at most %d are allowed", utf8.RuneCountInString(c.Text), maxComment)
	case c.Session == "" || p == "" || c.Line < 1:
		return c, wire.Errorf(wire.ErrBadRequest, "", "a comment is about a line that a session wrote")
	}
	c.Time = s.now()
	c.Claimed, c.Delivered = time.Time{}, time.Time{}
	n := c.Time.UnixNano()
	if len(all) > 0 {
		var last int64
		if _, err := fmt.Sscanf(all[len(all)-1].ID, "com-%x", &last); err == nil {
			n = max(n, last+1) // the clock may have been set back
		}
	}
	c.ID = fmt.Sprintf("com-%016x", n)
	if len(all) >= maxKept {
		i := slices.IndexFunc(all, func(o wire.Comment) bool { return !o.Delivered.IsZero() })
		if i < 0 {
			return c, wire.Errorf(wire.ErrTooLarge, "", "%d comments wait to be delivered", len(all))
		}
		if err := s.kv.Delete(all[i].ID); err != nil {
			return c, err
		}
	}
	if err := s.put(c); err != nil {
		return c, err
	}
	return c, s.store.Sync() // nobody will repeat the comment if it is lost
}

func (s *Comments) put(c wire.Comment) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return s.kv.Set(c.ID, b)
}
