package sessions

import (
	"sync"

	"cachebro/store"
)

// undecided holds, for each session, its newest prompt if the client's record has not yet
// shown whether a person typed it. The zero value is ready.
type undecided struct {
	mu sync.Mutex // guards of
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

// is reports whether a prompt is undecided.
func (u *undecided) is(id store.SessionID, prompt string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return prompt != "" && u.of[id].prompt == prompt
}

// take removes a prompt from the undecided ones, and returns the prompt before it.
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
