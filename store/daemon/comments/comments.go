// Package comments keeps what a person says to an agent about lines that it wrote, until
// the session's next prompt takes it along. It stands beside the sessions at the serve
// end of observe → version → index → serve.
//
// A comment is one record of the store, in JSON, under its id; ids grow with time. It is
// marked as delivered before the hook prints it: an agent never gets it twice.
package comments

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"cachebro/store"
	"cachebro/store/daemon/onwire"
	"cachebro/store/wire"
)

const (
	maxText  = 4000 // bytes of one comment
	maxQuote = 300  // bytes of its line
	maxKept  = 1000 // comments; the oldest that were delivered go first
)

// Service answers for comments.
type Service struct {
	store *store.Store
	kv    store.KV
	paths onwire.Paths
	mu    sync.Mutex // held by who writes, over the store
}

// New makes the service.
func New(st *store.Store, paths onwire.Paths) *Service {
	return &Service{store: st, kv: st.KV("comments"), paths: paths}
}

// Handlers is the one of its request.
func (s *Service) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{wire.MComments: onwire.Decoded(s.answer)}
}

func (s *Service) answer(_ context.Context, q wire.CommentsRequest) (wire.CommentsAnswer, []byte, error) {
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
			if (q.Session == "" || c.Session == q.Session) && (len(q.Path) == 0 || string(c.Path) == string(q.Path)) && (q.Do == "list" || c.Delivered.IsZero()) {
				out.Comments = append(out.Comments, c)
			}
		}
		return out, nil, nil
	case "delivered":
		for _, c := range all {
			if slices.Contains(q.IDs, c.ID) && c.Delivered.IsZero() {
				c.Delivered = time.Now()
				if err := s.put(c); err != nil {
					return out, nil, err
				}
				out.Comments = append(out.Comments, c)
			}
		}
		return out, nil, s.store.Sync()
	}
	return out, nil, wire.Errorf(wire.ErrBadRequest, "add, list, pending or delivered", "there is no %q for comments", q.Do)
}

// all are the comments, oldest first. One that cannot be read is left alone.
func (s *Service) all() (out []wire.Comment, err error) {
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

func (s *Service) add(c wire.Comment, all []wire.Comment) (wire.Comment, error) {
	p, err := s.paths.Clean(c.Path)
	if err != nil {
		return c, err
	}
	c.Path, c.Text = []byte(p), strings.TrimSpace(strings.ToValidUTF8(c.Text, "\uFFFD"))
	c.Quote = strings.ToValidUTF8(c.Quote[:min(len(c.Quote), maxQuote)], "\uFFFD")
	switch {
	case c.Text == "":
		return c, wire.Errorf(wire.ErrBadRequest, "", "the comment has no text")
	case len(c.Text) > maxText:
		return c, wire.Errorf(wire.ErrTooLarge, "", "the comment has %d bytes, and %d are kept", len(c.Text), maxText)
	case c.Session == "" || p == "" || c.Line < 1:
		return c, wire.Errorf(wire.ErrBadRequest, "", "a comment is about a line that a session wrote")
	}
	c.Time, c.Delivered = time.Now(), time.Time{}
	c.ID = fmt.Sprintf("com-%016x", c.Time.UnixNano())
	if n := len(all); n > 0 && c.ID <= all[n-1].ID { // the clock was set back
		c.ID = all[n-1].ID + "+"
	}
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
	return c, s.store.Sync() // nobody will say it again
}

func (s *Service) put(c wire.Comment) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return s.kv.Set(c.ID, b)
}
