package mcp

import "sync"

// keyed orders the writers of one path within this process, so that no edit is lost. The zero value
// is ready.
type keyed struct {
	mu   sync.Mutex // guards held
	held map[string]*keyLock
}

type keyLock struct {
	sync.Mutex
	users int
}

func (k *keyed) lock(key string) (unlock func()) {
	k.mu.Lock()
	if k.held == nil {
		k.held = make(map[string]*keyLock)
	}
	l := k.held[key]
	if l == nil {
		l = &keyLock{}
		k.held[key] = l
	}
	l.users++
	k.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(k.held, key)
		}
	}
}
