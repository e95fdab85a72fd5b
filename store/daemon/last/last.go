package last

import (
	"slices"
	"strings"

	"cachebro/store"
	"cachebro/store/daemon/onwire"
	"cachebro/store/wire"
)

// maxLooked sessions or prompts are looked at.
const maxLooked = 500

// Session resolves the name of a session; "last" is the newest that changed something.
func Session(st *store.Store, name string) (store.SessionID, error) {
	return SessionWith(st, name, func(s store.Session) (bool, error) { return Changed(st, store.Filter{Session: s.ID}) })
}

// SessionWith resolves the name of a session; "last" is the newest of which has is true,
// else the newest.
func SessionWith(st *store.Store, name string, has func(store.Session) (bool, error)) (store.SessionID, error) {
	if name == "" {
		return "", nil
	}
	if _, known, err := st.Sessions.Get(store.SessionID(name)); known || err != nil {
		return store.SessionID(name), err
	}
	all, err := st.Sessions.List(maxLooked)
	if name != "last" && err == nil {
		ids := make([]string, len(all))
		for i, s := range all {
			ids[i] = string(s.ID)
		}
		id, err := begins("session", name, ids)
		return store.SessionID(id), err
	}
	if err != nil {
		return "", err
	}
	for _, s := range all {
		if ok, err := has(s); ok || err != nil {
			return s.ID, err
		}
	}
	if len(all) == 0 {
		return "", wire.Errorf(wire.ErrNotFound, "cachebro log shows what changed; cachebro run -- COMMAND makes a session of a command", "no session is known: no client has told of one")
	}
	return all[0].ID, nil
}

// Prompt resolves the name of a prompt; "last" is the newest of a session, or of all where
// session is "". If it changed nothing, the error names the newest that did: whether a
// person means that one is not for us to decide. command is the command that asks, asker
// the session that it runs in, "" for a person's shell: where the newest prompt is that
// session's and has changed nothing, it is the one that asks and not the one that is meant.
func Prompt(st *store.Store, command string, asker, session store.SessionID, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	all, err := st.Sessions.LastPrompts(session, maxLooked)
	if err != nil {
		return "", err
	}
	if name != "last" {
		ids := make([]string, len(all))
		for i, p := range all {
			ids[i] = p.ID
		}
		return begins("prompt", name, ids)
	}
	if len(all) == 0 {
		return "", wire.Errorf(wire.ErrNotFound, "cachebro undo takes the last action back, cachebro undo --since 10m what is younger", "no prompt is known: no client has told of one")
	}
	i := slices.IndexFunc(all, func(p store.Prompt) bool {
		var ok bool
		if err == nil {
			ok, err = Changed(st, store.Filter{Prompt: p.ID})
		}
		return ok
	})
	switch {
	case err != nil:
		return "", err
	case i < 0:
		return "", wire.Errorf(wire.ErrNotFound, "cachebro undo takes the last action back, cachebro log shows what changed", "no prompt changed anything so far")
	case i == 1 && asker != "" && all[0].Session == asker:
		return all[1].ID, nil
	case i > 0:
		return "", wire.Errorf(wire.ErrNotFound, "cachebro "+command+" --prompt "+all[i].ID+" takes the one before it, of "+onwire.Clock(all[i].Time), "the last prompt, of %s, changed nothing", onwire.Clock(all[0].Time))
	}
	return all[0].ID, nil
}

// shortest is how much of a name is enough: the log shows eight characters.
const shortest = 6

// begins is the one of the names that is this one or begins with it; where none does,
// the name itself.
func begins(what, name string, all []string) (string, error) {
	if len(name) < shortest || slices.Contains(all, name) {
		return name, nil
	}
	found := name
	for _, id := range all {
		if !strings.HasPrefix(id, name) || id == found {
			continue
		}
		if found != name {
			return "", wire.Errorf(wire.ErrBadRequest, "give more of it", "%s %s: %s and %s begin with it", what, name, found, id)
		}
		found = id
	}
	return found, nil
}

// Changed reports whether a version matches a filter.
func Changed(st *store.Store, f store.Filter) (bool, error) {
	f.Limit = 1
	vs, _, err := st.Log(f)
	return len(vs) > 0, err
}
