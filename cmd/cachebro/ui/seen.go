package ui

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
)

// seenMarks say up to which version a person has looked at each session; "" is what was
// done outside of sessions. The file is the page's own: losing it loses no history.
type seenMarks struct {
	mu   sync.Mutex // guards the file
	file string
}

func seenFile(state string) string { return filepath.Join(state, "ui-seen.json") }

func (m *seenMarks) read() map[string]uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	marks := map[string]uint64{}
	if b, err := os.ReadFile(m.file); err == nil {
		_ = json.Unmarshal(b, &marks) // a broken file: nothing was seen
	}
	return marks
}
