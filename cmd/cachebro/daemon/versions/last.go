package versions

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cachebro/store"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

const maxLooked = 500

// Session resolves the name of a session. "last" is the newest one that changed something, even if
// no hook reported it and only the environment of its processes names it.
func Session(st *store.Store, name string) (store.SessionID, error) {
	id, err := SessionWith(st, name, func(s store.Session) (bool, error) { return Changed(st, store.Filter{Session: s.ID}) })
	if name != "last" || err != nil && !errors.Is(err, wire.ErrNotFound) {
		return id, err
	}
	newest, nerr := newestOf(st, id)
	ids, ierr := st.Sessions.Beginning("")
	if err := errors.Join(nerr, ierr); err != nil {
		return "", err
	}
	for _, other := range ids {
		seq, serr := newestOf(st, store.SessionID(other))
		if serr != nil {
			return "", serr
		}
		if seq > newest {
			id, err = store.SessionID(other), nil
			newest = seq
		}
	}
	return id, err
}

// SessionStart returns the number of the newest version before a session began. For name see Session.
func SessionStart(st *store.Store, name string) (uint64, error) {
	id, err := Session(st, name)
	if err != nil {
		return 0, err
	}
	seq, err := st.SessionStart(id)
	if errors.Is(err, store.ErrNotFound) {
		err = wire.Errorf(wire.ErrNotFound, "cachebro log shows the sessions", "session %q has changed nothing", string(id))
	}
	return seq, err
}

// newestOf returns the newest version of a session, 0 if it has none.
func newestOf(st *store.Store, id store.SessionID) (uint64, error) {
	if id == "" {
		return 0, nil
	}
	vs, _, err := st.Log(store.Filter{Session: id, Limit: 1})
	if err != nil || len(vs) == 0 {
		return 0, err
	}
	return vs[0].Seq, nil
}

// SessionWith resolves the name of a session. "last" is the newest session for which has
// returns true or, if there is none, the newest of all.
func SessionWith(st *store.Store, name string, has func(store.Session) (bool, error)) (store.SessionID, error) {
	if name == "" {
		return "", nil
	}
	if _, known, err := st.Sessions.Get(store.SessionID(name)); known || err != nil {
		return store.SessionID(name), err
	}
	if name != "last" {
		id, err := sessionByPrefix(st, name)
		return store.SessionID(id), err
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
		return "", wire.Errorf(wire.ErrNotFound, "cachebro log shows what changed; cachebro run -- COMMAND makes a session of a command", "no session is known, because no client has reported one")
	}
	return all[0].ID, nil
}

// Prompt resolves the name of a prompt. "last" is the newest prompt of a session, or of all
// sessions if session is "". If that prompt changed nothing, Prompt returns an error that names the
// newest prompt with a change, because only the person knows which one is meant. command is the
// command that asks, and asker is the session that runs it, "" in a person's shell. An asker's own
// newest prompt does not count until it has changed something, because that prompt runs the
// command. Changes by the asker's own undos do not count either, so that asking twice does not
// reverse the first undo.
func Prompt(st *store.Store, command string, asker, session store.SessionID, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	if name != "last" {
		return promptByPrefix(st, session, name)
	}
	all, err := st.Sessions.LastPrompts(session, maxLooked)
	if err != nil {
		return "", err
	}
	if len(all) == 0 {
		return "", wire.Errorf(wire.ErrNotFound, "cachebro undo undoes the last action, cachebro undo --since 10m the last ten minutes", "no prompt is known, because no client has reported one")
	}
	i := slices.IndexFunc(all, func(p store.Prompt) bool {
		var ok bool
		if err == nil {
			ok, err = Changed(st, store.Filter{Prompt: p.ID, Match: NotOwn(asker)})
		}
		return ok
	})
	switch {
	case err != nil:
		return "", err
	case i < 0:
		return "", wire.Errorf(wire.ErrNotFound, "cachebro undo undoes the last action, cachebro log shows what changed", "no prompt has changed anything yet")
	case i == 1 && asker != "" && all[0].Session == asker:
		return all[1].ID, nil
	case i > 0:
		return "", wire.Errorf(wire.ErrNotFound, "cachebro "+command+" --prompt "+all[i].ID+" selects the one before it, of "+onwire.Clock(all[i].Time), "the last prompt, of %s, changed nothing in this project", onwire.Clock(all[0].Time))
	}
	return all[0].ID, nil
}

// NotOwn returns a filter that skips the changes by the asker's own undos and restores.
func NotOwn(asker store.SessionID) func(store.Version) bool {
	return func(v store.Version) bool { return v.Plan == "" || asker == "" || v.Actor.Session != asker }
}

// sessionByPrefix returns the only session whose name begins with a text; see byPrefix. It also
// searches the versions, for sessions that no client reported.
func sessionByPrefix(st *store.Store, name string) (string, error) {
	all, err := st.Sessions.List(0)
	if err != nil {
		return "", err
	}
	ids, err := st.Sessions.Beginning(name)
	for _, s := range all {
		ids = append(ids, string(s.ID))
	}
	if err != nil {
		return "", err
	}
	return byPrefix("session", name, ids)
}

// promptByPrefix is sessionByPrefix for the prompts of a session, or of all sessions if session is "".
func promptByPrefix(st *store.Store, session store.SessionID, name string) (string, error) {
	all, err := st.Sessions.LastPrompts(session, 0)
	if err != nil {
		return "", err
	}
	var ids []string
	if session == "" {
		ids, err = st.Sessions.PromptsBeginning(name)
		if err != nil {
			return "", err
		}
	}
	for _, p := range all {
		ids = append(ids, p.ID)
	}
	return byPrefix("prompt", name, ids)
}

const maxListed = 4

// byPrefix returns name if all contains it, or else the only element of all that begins with name.
// If there is none, it returns name itself. If there are several, it returns an error.
func byPrefix(what, name string, all []string) (string, error) {
	if slices.Contains(all, name) {
		return name, nil
	}
	var found []string
	for _, id := range all {
		if strings.HasPrefix(id, name) && !slices.Contains(found, id) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return name, nil
	case 1:
		return found[0], nil
	}
	slices.Sort(found)
	more := ""
	if n := len(found) - maxListed; n > 0 {
		found, more = found[:maxListed], fmt.Sprintf(" and %d more", n)
	}
	return "", wire.Errorf(wire.ErrBadRequest, "give more of it", "%s %s is ambiguous: %s%s begin with it", what, name, strings.Join(found, ", "), more)
}

// Changed reports whether a version matches a filter.
func Changed(st *store.Store, f store.Filter) (bool, error) {
	f.Limit = 1
	vs, _, err := st.Log(f)
	return len(vs) > 0, err
}
