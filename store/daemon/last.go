package daemon

import (
	"fmt"
	"slices"

	"cachebro/store"
	"cachebro/store/daemon/onwire"
	"cachebro/store/undo"
	"cachebro/store/wire"
)

// "last" is the newest session or prompt that changed something. A session that
// is merely the newest may be that of a wrapper around the client, or one that
// only read; nobody means those.

// maxLooked sessions or prompts are looked at.
const maxLooked = 500

// sessionNamed resolves "last".
func (d *Daemon) sessionNamed(name string) (store.SessionID, error) {
	return d.lastSession(name, func(s store.Session) (bool, error) { return d.changed(store.Filter{Session: s.ID}) })
}

// lastSession is the newest session that has what is asked for, else the newest.
func (d *Daemon) lastSession(name string, has func(store.Session) (bool, error)) (store.SessionID, error) {
	if name != "last" {
		return store.SessionID(name), nil
	}
	all, err := d.store.Sessions(maxLooked)
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

// promptNamed resolves "last" within a session, or among all. Where the newest
// prompt changed nothing, that is said, and the one before it is named: to take
// back another one than a person has in mind is not for us to decide. command is
// what asks.
func (d *Daemon) promptNamed(command string, session store.SessionID, name string) (string, error) {
	if name != "last" {
		return name, nil
	}
	all, err := d.store.LastPrompts(session, maxLooked)
	if err != nil {
		return "", err
	}
	if len(all) == 0 {
		return "", wire.Errorf(wire.ErrNotFound, "cachebro undo takes the last action back, cachebro undo --since 10m what is younger", "no prompt is known: no client has told of one")
	}
	i := slices.IndexFunc(all, func(p store.Prompt) bool {
		var ok bool
		if err == nil {
			ok, err = d.changed(store.Filter{Prompt: p.ID})
		}
		return ok
	})
	switch {
	case err != nil:
		return "", err
	case i < 0:
		return "", wire.Errorf(wire.ErrNotFound, "cachebro undo takes the last action back, cachebro log shows what changed", "no prompt changed anything so far")
	case i > 0:
		return "", wire.Errorf(wire.ErrNotFound, "cachebro "+command+" --prompt "+all[i].ID+" takes the one before it, of "+onwire.Clock(all[i].Time), "the last prompt, of %s, changed nothing", onwire.Clock(all[0].Time))
	}
	return all[0].ID, nil
}

func (d *Daemon) changed(f store.Filter) (bool, error) {
	f.Limit = 1
	vs, _, err := d.store.Log(f)
	return len(vs) > 0, err
}

// whenOf says of what time a prompt or session is, for the title of a plan.
func (d *Daemon) whenOf(q wire.PlanRequest, uq undo.Query) string {
	switch {
	case q.Prompt == "last":
		if all, err := d.store.LastPrompts(uq.Select.Session, 1); err == nil && len(all) > 0 && all[0].ID == uq.Select.Prompt {
			return " of " + onwire.Clock(all[0].Time)
		}
	case q.Session == "last":
		if s, ok, err := d.store.Session(uq.Select.Session); err == nil && ok {
			if s.Client != "" {
				return fmt.Sprintf(" (%s, from %s)", s.Client, onwire.Clock(s.Started))
			}
			return " from " + onwire.Clock(s.Started)
		}
	}
	return ""
}
