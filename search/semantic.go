package search

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"cachebro/store"
	"cachebro/store/leaf/loop"
)

// Embedder turns texts into vectors. The smaller the angle between two vectors, the closer the
// texts' meanings. Without an Embedder, or while it fails, ranked queries search only by words.
type Embedder interface {
	// Embed returns a vector for each text, all of the same length. If query is set, the texts are
	// questions, otherwise passages of files.
	Embed(ctx context.Context, texts []string, query bool) ([][]float32, error)
	// Model names the model. Vectors of different models are not compared.
	Model() string
}

const (
	embedBatch = 16               // texts in one request
	embedText  = 2000             // bytes at the beginning of a chunk that are embedded
	embedWait  = time.Minute      // limit for one request, in the background
	askWait    = time.Second      // limit for a question
	embedPause = 30 * time.Second // pause after a failure; doubles up to embedLast
	embedLast  = 10 * time.Minute
)

// fuse is the constant of reciprocal rank fusion. The larger it is, the smaller is the advantage of
// the first places.
const fuse = 60

// Rank answers a natural query with files, best first. It searches by words and, if there is an
// Embedder, also by meaning.
func (x *Index) Rank(ctx context.Context, text string, q Query, h Hints, limit int) ([]Ranked, error) {
	if x.vectors == nil || h.WordsOnly {
		return x.rankWords(ctx, text, q, h, limit)
	}
	meant := make(chan []Ranked, 1)
	go func() { meant <- x.rankMeaning(ctx, text, q) }()
	byWords, err := x.rankWords(ctx, text, q, h, 0)
	near := <-meant
	if err != nil || len(near) == 0 {
		return byWords[:limited(len(byWords), limit)], err
	}
	score := map[store.Path]float64{}
	var out []Ranked
	for _, list := range [][]Ranked{byWords, near} {
		for i, r := range list {
			if score[r.Path] == 0 {
				out = append(out, r)
			}
			score[r.Path] += 1 / float64(fuse+i)
		}
	}
	for i := range out {
		out[i].Score = 100 * score[out[i].Path]
	}
	slices.SortStableFunc(out, func(a, b Ranked) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(string(a.Path), string(b.Path)))
	})
	return out[:limited(len(out), limit)], nil
}

func limited(n, limit int) int {
	if limit > 0 {
		return min(n, limit)
	}
	return n
}

// maxNear bounds the hits by meaning, because every text is close to some degree.
const maxNear = 50

// rankMeaning returns the files with the chunks whose meaning is closest to a question. It returns
// none if the Embedder does not answer in time.
func (x *Index) rankMeaning(ctx context.Context, text string, q Query) []Ranked {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	vs, err := x.opt.Embedder.Embed(ctx, []string{text}, true)
	if err != nil || len(vs) != 1 {
		x.opt.Logger.Warn("search by meaning", "err", err)
		return nil
	}
	asked := quantize(vs[0])
	var out []Ranked
	x.mu.RLock()
	defer x.mu.RUnlock()
	x.vectors.mu.RLock()
	defer x.vectors.mu.RUnlock()
	for p, f := range x.files {
		if !q.admits(p, f.kind) {
			continue
		}
		best := Ranked{Path: p}
		for _, c := range x.vectors.byBlob[f.hash] {
			if s := cosine(asked, c.V); s > best.Score {
				best = Ranked{Path: p, Score: s, First: c.First, Last: c.Last}
			}
		}
		if best.Score > 0 {
			out = append(out, best)
		}
	}
	slices.SortFunc(out, func(a, b Ranked) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(string(a.Path), string(b.Path)))
	})
	return out[:min(len(out), maxNear)]
}

// quantize scales a vector to length 127 and rounds it to whole numbers from -127 to 127, each in one
// byte. That saves three quarters of the memory and has almost no effect on the ranking.
func quantize(v []float32) []byte {
	sum := 0.0
	for _, c := range v {
		sum += float64(c) * float64(c)
	}
	out := make([]byte, len(v))
	if sum == 0 || math.IsNaN(sum) || math.IsInf(sum, 0) {
		return out
	}
	scale := 127 / math.Sqrt(sum)
	for i, c := range v {
		out[i] = byte(int8(math.Round(float64(c) * scale)))
	}
	return out
}

func cosine(a, b []byte) float64 {
	if len(a) != len(b) {
		return 0
	}
	sum := int32(0)
	for i := range a {
		sum += int32(int8(a[i])) * int32(int8(b[i]))
	}
	return float64(sum) / (127 * 127)
}

// embed makes missing vectors until ctx ends. It begins when the index has caught up, because a
// newly opened index may be older than the files, and vectors of old contents would be useless.
// After a failure, it tries again later.
func (x *Index) embed(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-x.grown:
		}
		for pause := embedPause; ; pause = min(2*pause, embedLast) {
			err := x.embedNew(ctx)
			if err == nil || ctx.Err() != nil {
				break
			}
			x.opt.Logger.Warn("embed", "err", err)
			if !loop.Pause(ctx, pause) {
				return
			}
		}
	}
}

func (x *Index) embedNew(ctx context.Context) error {
	type todo struct {
		p store.Path
		f file
	}
	var all []todo
	live := map[store.Hash]bool{}
	x.mu.RLock()
	for p, f := range x.files {
		live[f.hash] = true
		if f.indexed && !f.gen && !x.vectors.has(f.hash) {
			all = append(all, todo{p, f})
		}
	}
	x.mu.RUnlock()
	if err := x.vectors.tidy(live); err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b todo) int { return cmp.Compare(b.f.time, a.f.time) }) // the files that are being worked on come first
	for _, t := range all {
		if x.vectors.has(t.f.hash) {
			continue // two files have the same content
		}
		content, err := x.corpus.Content(t.f.hash)
		if err != nil {
			continue // the content was pruned in the meantime
		}
		cut := chunks(t.f.kind, content, symbolsOf(string(t.p), t.f.kind, content))
		made := make([]vector, 0, len(cut))
		for part := range slices.Chunk(cut, embedBatch) {
			texts := make([]string, len(part))
			for i, c := range part {
				body := content[c.Start:c.End]
				texts[i] = strings.ToValidUTF8(string(t.p)+"\n"+string(body[:min(len(body), embedText)]), "")
			}
			limited, cancel := context.WithTimeout(ctx, embedWait)
			vs, err := x.opt.Embedder.Embed(limited, texts, false)
			cancel()
			if err != nil {
				return err
			}
			if len(vs) != len(texts) {
				return fmt.Errorf("%d vectors for %d texts", len(vs), len(texts))
			}
			for i, c := range part {
				made = append(made, vector{First: c.First, Last: c.Last, V: quantize(vs[i])})
			}
		}
		if err := x.vectors.add(t.f.hash, made); err != nil {
			return err
		}
	}
	return nil
}
