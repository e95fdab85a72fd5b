package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"cachebro/store/leaf/text"
	"cachebro/store/wire"
)

// prunePart is what a prune would drop, before anything is dropped.
type prunePart struct {
	Keep    int
	Sum     string
	Rows    []string
	More    int
	Digest  string
	Nothing bool
	Note    string
}

const shownDue = 100

func (s *server) prunePlan(ctx context.Context, q url.Values) (any, error) {
	a, err := wire.Call[wire.StoreAnswer](ctx, s.c, wire.MStore, wire.StoreRequest{Do: "prune", DryRun: true, Keep: int(number(q, "keep"))})
	if err != nil {
		return nil, err
	}
	var due struct {
		Keep, Versions int
		Paths          []share
		Digest         string
	}
	if err := json.Unmarshal(a.Facts, &due); err != nil {
		return nil, fmt.Errorf("read what would be dropped: %w", err)
	}
	out := prunePart{Keep: due.Keep, Sum: oneLine(a.Text), Digest: due.Digest, Nothing: due.Versions == 0}
	for i, p := range due.Paths {
		if i == shownDue {
			out.More = len(due.Paths) - i
			break
		}
		out.Rows = append(out.Rows, fmt.Sprintf("%s: %s, %s", p.name(), text.Count(p.Versions, "version"), text.Bytes(p.Bytes)))
	}
	return out, nil
}

// prune drops the versions that were shown, if the same ones would still be dropped.
func (s *server) prune(w http.ResponseWriter, r *http.Request) {
	err := r.ParseForm()
	var a wire.StoreAnswer
	if err == nil {
		s.applying.Lock()
		defer s.applying.Unlock()
		ctx := context.WithoutCancel(r.Context()) // closing the page does not withdraw the consent
		a, err = wire.Call[wire.StoreAnswer](ctx, s.c, wire.MStore, wire.StoreRequest{Do: "prune", Keep: int(number(r.PostForm, "keep")), Digest: r.PostForm.Get("digest")})
		if errors.Is(err, wire.ErrConflict) {
			var again any
			again, err = s.prunePlan(ctx, r.PostForm)
			if err == nil {
				part := again.(prunePart)
				part.Note = "Something changed meanwhile, so nothing was done yet. This is what would be dropped now."
				s.render(w, r, "prune", part)
				return
			}
		}
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.render(w, r, "done", donePart{Text: oneLine(a.Text)})
}
