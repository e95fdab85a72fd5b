package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"cachebro/scripts/testkit/modelserver"
)

type (
	turn = modelserver.Answer
	call = modelserver.Call
	obj  = map[string]any
	list = []any
)

// model is a scripted model. It makes the same calls whichever client asks. A request without tools
// is for a title or a summary. Such a request gets a line of text and does not use up a turn.
type model struct {
	*modelserver.Server
	dir string // directory for the requests

	mu      sync.Mutex // guards the rest
	turns   []turn
	calls   []string // ids in the order of the calls
	results map[string]string
	n       int
	// stubs counts the requests that contain a stub, a line in place of a text that is not repeated.
	// baseless counts the requests among them in which that text is missing.
	stubs, baseless int
}

func startModel(dir string) (m *model, err error) {
	m = &model{dir: dir, results: map[string]string{}}
	m.Server, err = modelserver.Start(dir, m.answer)
	return m, err
}

// play sets the next answers and forgets the calls so far.
func (m *model) play(turns ...turn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turns, m.calls = turns, nil
}

// resultOf returns the result of the n-th call since play.
func (m *model) resultOf(n int) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n >= len(m.calls) {
		return fmt.Sprintf("(call %d was not made)", n+1)
	}
	text, ok := m.results[m.calls[n]]
	if !ok {
		return fmt.Sprintf("(call %d has no result)", n+1)
	}
	return text
}

// bytes returns the size of all results that reached the model.
func (m *model) bytes() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, text := range m.results {
		n += len(text)
	}
	return n
}

// answer records the results in a request, and returns the next turn.
func (m *model) answer(q modelserver.Request) turn {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, r := range q.Results {
		switch {
		case r.ID != "":
			m.results[r.ID] = r.Text
		case i < len(m.calls): // without ids, the k-th result belongs to the k-th call
			m.results[m.calls[i]] = r.Text
		}
	}
	m.judge(q.Results)
	if !q.Tools {
		return turn{Text: "A summary."}
	}
	t := turn{Text: "done"}
	if len(m.turns) > 0 {
		t, m.turns = m.turns[0], m.turns[1:]
	}
	t.IDs = nil
	for range t.Calls {
		m.n++
		t.IDs = append(t.IDs, fmt.Sprintf("call_%03d", m.n))
	}
	m.calls = append(m.calls, t.IDs...)
	return t
}

// judge checks the results in one request, in order. A stub must come after the text that it does
// not repeat. Each file that the scenes read has a line with the words " 150 of a file".
func (m *model) judge(results []modelserver.Result) {
	text, stub := false, false
	for _, r := range results {
		text = text || strings.Contains(r.Text, " 150 of a file")
		if strings.Contains(r.Text, "cachebro: not repeated") || strings.Contains(r.Text, "[unchanged") {
			stub = true
			if !text {
				m.baseless++
				return
			}
		}
	}
	if stub {
		m.stubs++
	}
}

// wasSent reports whether any request so far contains the text.
func (m *model) wasSent(text string) bool {
	names, _ := filepath.Glob(filepath.Join(m.dir, "*.json"))
	return slices.ContainsFunc(names, func(name string) bool {
		b, err := os.ReadFile(name)
		return err == nil && strings.Contains(string(b), text)
	})
}
