package last

import (
	"slices"

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
	if name != "last" {
		return store.SessionID(name), nil
	}
	all, err := st.Sessions.List(maxLooked)
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
	if name != "last" {
		return name, nil
	}
	all, err := st.Sessions.LastPrompts(session, maxLooked)
	if err != nil {
		return "", err
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

// Changed reports whether a version matches a filter.
func Changed(st *store.Store, f store.Filter) (bool, error) {
	f.Limit = 1
	vs, _, err := st.Log(f)
	return len(vs) > 0, err
}
