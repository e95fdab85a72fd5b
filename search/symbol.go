package search

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"cachebro/store"
	"cachebro/store/leaf/text"

	index "github.com/blevesearch/bleve_index_api"
)

// SymbolHit is a definition that a query found.
type SymbolHit struct {
	Symbol
	Path  store.Path
	Score float64
}

// maxParsed bounds the files that one symbol query parses.
const maxParsed = 300

// Symbols finds definitions whose name equals, begins with or contains the text name, regardless of
// case. "Type.Method" finds the method. notSearched has the number and the names of the files in
// the query's scope whose definitions were not searched.
func (x *Index) Symbols(ctx context.Context, name string, q Query, h Hints, limit int) (out []SymbolHit, notSearched string, err error) {
	_, base, qualified := strings.Cut(name, ".")
	if !qualified {
		base = name
	}
	low := strings.ToLower(base)
	if low == "" {
		return nil, "", nil
	}
	var left leftOut
	defines := func(p store.Path, kind Kind) bool { return q.admits(p, kind) && kind != Other && kind != Config }
	left.addBinary(x, defines)
	// Read the table before the index, so that files indexed in between are searched too.
	x.mu.RLock()
	ready, seq, loose := x.ready, x.seq, maps.Clone(x.loose)
	x.mu.RUnlock()
	candidates, err := x.defining(ctx, base)
	if err != nil {
		return nil, "", err
	}
	type weighed struct {
		p store.Path
		w float64
	}
	var order []weighed
	x.live(func(p store.Path, f *file) bool {
		if !defines(p, f.kind) {
			return true
		}
		// unasked files are not in the index with their newest text, so defining does not know them.
		_, unasked := loose[p]
		unasked = unasked || !ready || f.seq > seq || !f.indexed
		switch {
		case candidates == nil || candidates[p] || unasked && f.size <= int64(x.opt.MaxFile):
			order = append(order, weighed{p, weight(p, f, nil, h)})
		case unasked:
			left.add(leftLarge, p)
		}
		return true
	})
	slices.SortFunc(order, func(a, b weighed) int {
		return cmp.Or(cmp.Compare(b.w, a.w), cmp.Compare(a.p, b.p))
	})
	for i, c := range order {
		if i >= maxParsed {
			left.add(leftBeyond, c.p)
			continue
		}
		if ctx.Err() != nil {
			return nil, "", ctx.Err()
		}
		content, err := x.corpus.Read(c.p, nil)
		if err != nil {
			left.failed(c.p, err)
			continue
		}
		content, ok := text.Shown(content)
		if !ok {
			left.add(leftBinary, c.p)
			continue
		}
		for _, s := range Outline(string(c.p), content) {
			found := strings.ToLower(s.Name)
			fit := 0.0
			switch {
			case s.Name == base:
				fit = 4
			case found == low:
				fit = 3
			case strings.HasPrefix(found, low):
				fit = 2
			case strings.Contains(found, low):
				fit = 1
			}
			if fit == 0 {
				continue
			}
			if owner, _, _ := strings.Cut(name, "."); qualified && strings.Contains(s.Signature, owner) {
				fit += 4
			}
			if s.Kind == "type" || s.Kind == "class" || s.Kind == "interface" || s.Kind == "struct" {
				fit += 0.3
			}
			out = append(out, SymbolHit{s, c.p, fit * c.w})
		}
	}
	slices.SortStableFunc(out, func(a, b SymbolHit) int { return cmp.Compare(b.Score, a.Score) })
	if limit > 0 && len(out) > limit {
		out = out[:limit]
	}
	return out, left.String(), nil
}

// defining returns the files that may define a name. These are the files with a chunk whose defined
// names contain all parts of the name. If there are none, they are the files with a word that
// contains the name. A nil result means that any file may define the name.
func (x *Index) defining(ctx context.Context, name string) (map[store.Path]bool, error) {
	x.mu.RLock()
	ready, block := x.ready, x.terms.block
	x.mu.RUnlock()
	if !ready {
		return nil, nil
	}
	reader, err := x.reader()
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	stems := x.stems.Get().(*stemmer)
	parts := stemCounts([]byte(name), stems)
	x.stems.Put(stems)
	counts := map[store.Path]map[string]bool{}
	for t := range parts {
		tfr, err := reader.TermFieldReader(ctx, []byte(t), fieldSym, false, false, false)
		if err != nil {
			return nil, err
		}
		err = eachDoc(tfr, func(d *index.TermFieldDoc) error {
			id, err := reader.ExternalID(d.ID)
			p, _, _ := strings.Cut(id, "\x00")
			if counts[store.Path(p)] == nil {
				counts[store.Path(p)] = map[string]bool{}
			}
			counts[store.Path(p)][t] = true
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	out := map[store.Path]bool{}
	x.mu.RLock()
	for p, has := range counts {
		if _, known := x.files[p]; known && len(has) == len(parts) {
			out[p] = true
		}
	}
	x.mu.RUnlock()
	if len(out) > 0 {
		return out, nil
	}
	hits, ok, err := x.lookUp(simplify(needLit(lit{name, true, true})), block)
	if err != nil || !ok {
		return out, err
	}
	return hits, nil
}

// Outline returns the definitions in a text with their lines, in order.
func Outline(p string, content []byte) []Symbol {
	syms := symbolsOf(p, KindOf(p), content)
	lines := strings.Split(string(content), "\n")
	for i := range syms {
		if syms[i].Last == 0 {
			syms[i].Last = blockEnd(syms, i, lines)
		}
	}
	return syms
}

// blockEnd returns the last line of a definition whose first line is known. A definition ends
// before the next line that is not indented more deeply and does not close the definition. A
// section of a document ends before the next heading of the same or a higher level.
func blockEnd(syms []Symbol, at int, lines []string) int {
	s := syms[at]
	if s.Kind == "heading" {
		level := len(s.Signature) - len(strings.TrimLeft(s.Signature, "#"))
		for _, next := range syms[at+1:] {
			if len(next.Signature)-len(strings.TrimLeft(next.Signature, "#")) <= level {
				return next.First - 1
			}
		}
		return len(lines)
	}
	indent := indentOf(lines[s.Line-1])
	last := s.Line
	for n := s.Line; n < len(lines); n++ {
		text := strings.TrimSpace(lines[n])
		if text == "" {
			continue
		}
		if indentOf(lines[n]) <= indent {
			switch text[0] {
			case '}', ')', ']':
				return n + 1
			case '{':
				last = n + 1
				continue
			}
			if strings.HasPrefix(text, "end") {
				return n + 1
			}
			return last
		}
		last = n + 1
	}
	return last
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

// Enclosing returns the smallest definition that contains a line.
func Enclosing(syms []Symbol, line int) (Symbol, bool) {
	var best Symbol
	found := false
	for _, s := range syms {
		if s.First <= line && line <= s.Last && (!found || s.Last-s.First <= best.Last-best.First) {
			best, found = s, true
		}
	}
	return best, found
}
