package find

import (
	"context"
	"strings"
	"unicode/utf8"

	"cachebro/search"
	"cachebro/store"
	"cachebro/store/memo/results"

	"github.com/fxamacker/cbor/v2"
)

// maxKeptLines is the greatest number of lines that a cached answer may have.
const maxKeptLines = 5000

// grep is Index.Grep with a cache. The state of the files is part of the key. So when the files
// return to an earlier state, the answers cached for that state are valid again, even on other
// machines.
func (f *Finder) grep(ctx context.Context, q search.Query) (search.Result, error) {
	scope := store.Path(q.Path)
	token, seq, ok := f.Answers.Token(ctx, scope)
	if !ok || !utf8.ValidString(q.Path+q.Pattern+strings.Join(q.Include, "")+strings.Join(q.Exclude, "")) { // JSON cannot distinguish strings that are not UTF-8
		return f.Index.Grep(ctx, q)
	}
	var fresh *search.Result
	raw, _, err := f.Answers.Anywhere.Do(ctx, results.Call{
		Tool: "search", Args: []any{"grep/6", q, token},
		Holds: func(ctx context.Context, uses []results.Used) bool {
			if len(uses) != 1 || uses[0].Version != token {
				return false
			}
			now, _, ok := f.Answers.Token(ctx, scope)
			return ok && now == token
		},
		Compute: func(ctx context.Context) (results.Answer, error) {
			r, err := f.Index.Grep(ctx, q)
			if err != nil {
				return results.Answer{}, err
			}
			fresh = &r
			// Cache the answer only if no file changed during the search. A file that changed and
			// changed back counts as changed.
			_, after, still := f.Answers.Token(ctx, scope)
			if !still || after != seq || r.Warning != "" || len(r.Lines) > maxKeptLines {
				return results.Answer{Once: true}, nil
			}
			raw, err := cbor.Marshal(r)
			return results.Answer{Value: raw, Uses: []results.Used{{Path: string(scope), Version: token}}}, err
		},
	})
	if fresh != nil || err != nil {
		if fresh == nil {
			return search.Result{}, err
		}
		return *fresh, err
	}
	var r search.Result
	if err := store.DecMode.Unmarshal(raw, &r); err != nil { // an answer from another machine is not trusted
		f.Log.Warn("results: an answer cannot be read", "err", err)
		return f.Index.Grep(ctx, q)
	}
	return r, nil
}
