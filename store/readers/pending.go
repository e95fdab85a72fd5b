package readers

import (
	"slices"
	"strings"
	"sync"

	"cachebro/store"
	"cachebro/store/tokens"
	"cachebro/store/wire"
)

// entry is a decided delivery that is not confirmed yet.
type entry struct {
	path               store.Path // key of the file's record
	shown              store.Path // the path as shown in texts
	hash               store.Hash
	n                  uint64 // reader.n at the time of the decision
	span               span
	tool               string
	answer             Answer
	replacesClientText bool // the delivery replaces or confirms the result of a client's own tool
	part               int  // Rewrite.Part
	forms              []form
}

// form is a text that the model may have received, with its effect.
type form struct {
	text   string
	start  int  // number of the text's first line, for clients that number lines
	any    bool // any result counts, except an error
	effect effect
	answer Answer // for the accounts
}

func newEntry(q Request, key store.Path, d decision, n uint64) *entry {
	e := &entry{path: key, shown: q.Path, hash: q.Hash, n: n, span: d.span, tool: q.Tool, answer: d.Answer}
	if q.Rewrite != nil {
		e.part = q.Rewrite.Part
	}
	e.replacesClientText = q.Rewrite != nil
	if !e.replacesClientText {
		e.forms = []form{{text: d.Sent(), start: d.Start, effect: d.effect, answer: d.Answer}}
		return e
	}
	if d.Kind != wire.ReadKeep {
		f := form{text: d.Text, start: d.Start, effect: d.effect, answer: d.Answer}
		e.forms = append(e.forms, f)
		if d.Note != "" {
			for _, text := range []string{d.Note + "\n" + d.Text, d.Text + "\n" + d.Note} {
				f.text = text
				e.forms = append(e.forms, f)
			}
		}
	}
	if q.Rewrite.ClientUnchanged {
		return e
	}
	own := form{text: q.Rewrite.Text, start: max(1, q.Rewrite.StartLine), effect: d.effect, answer: d.Answer}
	if d.Kind != wire.ReadKeep {
		// Another hook's result may have been used instead. Then the model has the client's own
		// text.
		own.effect = d.clientTextEffect
		own.answer = Answer{ReadAnswer: wire.ReadAnswer{Kind: wire.ReadKeep}, FullTokens: d.FullTokens, Tokens: d.FullTokens}
	}
	e.forms = append(e.forms, own)
	return e
}

// informs reports whether the delivery, if it happened, gave the reader new knowledge of the
// content. The file is then in doubt until the delivery is confirmed. A stub only confirms known
// content.
func (e *entry) informs() bool {
	return slices.ContainsFunc(e.forms, func(f form) bool {
		return f.answer.Kind == e.answer.Kind && (len(f.effect.pieces) > 0 || f.effect.forget)
	})
}

// decided returns the answer that was already decided for a tool call, for example when two hooks
// ask about one call.
func (r *reader) decided(q Request) (Answer, bool) {
	if q.ToolUse == "" || !q.Pending {
		return Answer{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.waiting[q.ToolUse] {
		if e.path == q.key() && e.hash == q.Hash && e.shown == q.Path && sameRange(e, q) {
			return e.answer, true
		}
	}
	return Answer{}, false
}

// sameRange reports whether an entry is for the range of q. One tool call may read several ranges
// of a file.
func sameRange(e *entry, q Request) bool {
	if q.Rewrite != nil {
		return e.part == q.Rewrite.Part
	}
	first := max(1, q.Offset)
	whole := e.span == span{1, 0}
	if q.Limit <= 0 || first+q.Limit-1 >= e.answer.TotalLines {
		return e.span.first == first && (whole || e.span.last == e.answer.TotalLines)
	}
	return e.span == span{first, first + q.Limit - 1}
}

// waitLocked adds a pending entry. If there are too many, it drops the oldest tool use and the
// records of that tool use's files. Without confirmation these files would stay in doubt forever.
// The caller holds r.mu.
func (r *reader) waitLocked(id string, e *entry) {
	if _, ok := r.waiting[id]; !ok {
		r.order = append(r.order, id)
		if len(r.order) > maxWaiting {
			for _, old := range r.waiting[r.order[0]] {
				delete(r.files, old.path)
			}
			delete(r.waiting, r.order[0])
			r.order = slices.Clone(r.order[1:])
		}
	}
	r.waiting[id] = append(r.waiting[id], e)
}

// Commit confirms or drops pending deliveries. calls holds the final texts of a batch of tool
// calls, in the order of the context. A pending delivery counts if its call contains its text, byte
// for byte. Otherwise the file is in doubt and its next read is full. own lists the tool uses that
// delivered the client's own text although another text was decided.
func (s *Tracker) Commit(id store.Reader, calls []wire.CommitCall) (own []string) {
	r := s.reader(id, true)
	if r == nil {
		return nil
	}
	now := s.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	batch := make([][]*entry, len(calls))
	for i, c := range calls {
		batch[i] = append(r.waiting[c.ToolUse], s.orphans.take(c.ToolUse)...)
		delete(r.waiting, c.ToolUse)
		r.order = slices.DeleteFunc(r.order, func(id string) bool { return id == c.ToolUse })
	}
	for i, c := range calls {
		r.deliveredLocked(s, tokens.EstimateString(c.Text))
		for _, e := range batch[i] {
			f, ok := e.formFor(c)
			switch {
			case ok:
				r.noteLocked(e.path, r.stillLocked(e, f.effect), now, s.o)
				s.accounts.answer(id, e.tool, f.answer)
				if e.replacesClientText && f.answer.Kind != e.answer.Kind {
					own = append(own, c.ToolUse)
				}
			case e.informs():
				r.noteLocked(e.path, effect{forget: true}, now, s.o)
			}
			r.dropUnconfirmedLocked(e.path)
		}
	}
	return own
}

func (e *entry) formFor(c wire.CommitCall) (form, bool) {
	if c.Took != "" && len(e.forms) > 0 {
		f := e.forms[0]
		if c.Took == wire.TookOwn {
			f = e.forms[len(e.forms)-1]
		}
		if e.tool == "Bash" && e.part == 0 && c.Text != "" {
			f.effect = f.effect.without(missingLines(c.Text, f.text))
		}
		return f, c.Took == wire.TookOwn || c.Took == wire.TookOurs
	}
	text := c.Text
	for _, f := range e.forms {
		if f.any && text != "" && !strings.Contains(text, "tool_use_error") {
			return f, true
		}
		if f.any {
			continue
		}
		if missing, ok := delivered(text, f.text, f.start, e.shown); ok {
			f.effect = f.effect.without(missing)
			return f, true
		}
	}
	return form{}, false
}

// stillLocked checks that the base of derived lines was not dropped between decision and commit. If
// it was, the delivery cannot be interpreted. The caller holds r.mu.
func (r *reader) stillLocked(e *entry, f effect) effect {
	if len(f.pieces) == 0 || f.fresh {
		return f
	}
	if file := r.files[e.path]; file != nil {
		for i := range file.pieces {
			if h := file.pieces[i].Hash; h == f.base || h == e.hash {
				return f
			}
		}
	}
	return effect{forget: true}
}

// orphans holds pending deliveries to unknown readers. The zero value is usable.
type orphans struct {
	mu    sync.Mutex // guards the fields below
	byUse map[string][]*entry
	order []string
}

const maxOrphans = 256

func (o *orphans) add(id string, e *entry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byUse == nil {
		o.byUse = map[string][]*entry{}
	}
	if _, ok := o.byUse[id]; !ok {
		o.order = append(o.order, id)
		if len(o.order) > maxOrphans {
			delete(o.byUse, o.order[0])
			o.order = slices.Clone(o.order[1:])
		}
	}
	o.byUse[id] = append(o.byUse[id], e)
}

func (o *orphans) take(id string) []*entry {
	o.mu.Lock()
	defer o.mu.Unlock()
	es, ok := o.byUse[id]
	if ok {
		delete(o.byUse, id)
		o.order = slices.DeleteFunc(o.order, func(x string) bool { return x == id })
	}
	return es
}

// paths returns the files that an unknown reader may have received.
func (o *orphans) paths() map[store.Path]bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := map[store.Path]bool{}
	for _, es := range o.byUse {
		for _, e := range es {
			out[e.path] = true
		}
	}
	return out
}
