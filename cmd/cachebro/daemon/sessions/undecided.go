package sessions

import (
	"sync"

	"cachebro/store"
)

// undecided holds the newest prompt of each session, as long as the client's transcript has not
// shown whether a person typed it. The zero value is usable.
type undecided struct {
	mu sync.Mutex // guards the map
	of map[store.SessionID]pending
}

// pending is an undecided prompt and the one before it.
type pending struct{ prompt, before string }

func (u *undecided) add(id store.SessionID, prompt, before string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of == nil {
		u.of = map[store.SessionID]pending{}
	}
	u.of[id] = pending{prompt, before}
}

// has reports whether a prompt is undecided.
func (u *undecided) has(id store.SessionID, prompt string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return prompt != "" && u.of[id].prompt == prompt
}

// take removes an undecided prompt and returns the prompt before it.
func (u *undecided) take(id store.SessionID, prompt string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := u.of[id]
	if p.prompt != prompt {
		return ""
	}
	delete(u.of, id)
	return p.before
}
