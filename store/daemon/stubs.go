package daemon

import "sync"

// stubTable remembers the sentence of a stub until its tool call is committed:
// a client may print its own "file unchanged" line in its place, which says the
// same in words that no text here equals.
type stubTable struct {
	// mu guards what follows.
	mu    sync.Mutex
	texts map[string]string // by tool use
	order []string
}

const maxStubs = 256

func (t *stubTable) put(toolUse, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.texts == nil {
		t.texts = map[string]string{}
	}
	if _, ok := t.texts[toolUse]; !ok {
		t.order = append(t.order, toolUse)
	}
	t.texts[toolUse] = text
	if len(t.order) > maxStubs {
		delete(t.texts, t.order[0])
		t.order = t.order[1:]
	}
}

func (t *stubTable) get(toolUse string) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text, ok := t.texts[toolUse]
	return text, ok
}
