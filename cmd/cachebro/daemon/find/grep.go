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

// mostKept is the greatest number of lines that a cached answer may have.
const mostKept = 5000

// grepAnswer is search.Result as it is stored. Paths and lines are bytes.
type grepAnswer struct {
	Lines []grepLine `cbor:"1,keyasint,omitempty"`
	Files int        `cbor:"2,keyasint,omitempty"`
	Cut   bool       `cbor:"3,keyasint,omitempty"`
	Read  int        `cbor:"4,keyasint,omitempty"`
	All   bool       `cbor:"5,keyasint,omitempty"`
	Total int        `cbor:"6,keyasint,omitempty"`
	Left  string     `cbor:"7,keyasint,omitempty"`
	Least bool       `cbor:"8,keyasint,omitempty"`
}

type grepLine struct {
	_                struct{} `cbor:",toarray"`
	Path             []byte
	No               int
	Text             []byte
	At, Before, Size int
}

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
	raw, _, err := f.Answers.Shared(ctx, results.Call{
		Tool: "search", Args: []any{"grep/4", q, token},
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
			if !still || after != seq || r.Warning != "" || len(r.Lines) > mostKept {
				return results.Answer{Once: true}, nil
			}
			raw, err := encodeGrep(r)
			return results.Answer{Value: raw, Uses: []results.Used{{Path: string(scope), Version: token}}}, err
		},
	})
	if fresh != nil || err != nil {
		if fresh == nil {
			return search.Result{}, err
		}
		return *fresh, err
	}
	r, err := decodeGrep(raw)
	if err != nil { // an answer from another machine is not trusted
		f.Log.Warn("results: an answer cannot be read", "err", err)
		return f.Index.Grep(ctx, q)
	}
	return r, nil
}

func encodeGrep(r search.Result) ([]byte, error) {
	a := grepAnswer{Lines: make([]grepLine, len(r.Lines)), Files: r.Files, Cut: r.Truncated, Read: r.Candidates, All: r.Scanned, Total: r.Total, Left: r.NotSearched, Least: r.AtLeast}
	for i, l := range r.Lines {
		a.Lines[i] = grepLine{Path: []byte(l.Path), No: l.No, Text: l.Text, At: l.At, Before: l.Before, Size: l.Size}
	}
	return cbor.Marshal(a)
}

func decodeGrep(raw []byte) (search.Result, error) {
	var a grepAnswer
	if err := cbor.Unmarshal(raw, &a); err != nil {
		return search.Result{}, err
	}
	r := search.Result{Files: a.Files, Truncated: a.Cut, Candidates: a.Read, Scanned: a.All, Total: a.Total, NotSearched: a.Left, AtLeast: a.Least}
	if len(a.Lines) > 0 {
		r.Lines = make([]search.Line, len(a.Lines))
	}
	for i, l := range a.Lines {
		r.Lines[i] = search.Line{Path: store.Path(l.Path), No: l.No, Text: l.Text, At: l.At, Before: l.Before, Size: l.Size}
	}
	return r, nil
}
