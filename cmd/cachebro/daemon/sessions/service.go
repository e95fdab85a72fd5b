// Package sessions records what clients report about their sessions, prompts and tool calls. It
// also tells clients what a session should be reminded of.
package sessions

import (
	"log/slog"
	"sync"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/knowledge"
	"cachebro/cmd/cachebro/daemon/reads"
	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/cmd/cachebro/daemon/survey"
	"cachebro/store"
	"cachebro/store/onwire"
	"cachebro/store/readers"
	"cachebro/store/wire"
)

// Options configure New. All are required.
type Options struct {
	Store       *store.Store
	Source      *source.Source
	Ingest      *ingest.Ingester
	Attribution *attribution.Attribution
	Survey      *survey.Survey
	Sets        *reads.WorkingSets
	Reads       *reads.Reads
	Knowledge   *knowledge.Knowledge
	Shown       *readers.Tracker
	Outputs     *SavedOutputs
	Paths       onwire.Paths
	Log         *slog.Logger
	Places      wire.Paths // where the daemons of other projects are
	Version     string     // of this program
}

// Sessions answers the requests of clients about their sessions.
type Sessions struct {
	Options

	met       meetings
	undecided undecided
}

// New makes the service.
func New(o Options) *Sessions {
	ss := &Sessions{Options: o}
	o.Attribution.OnSession(ss.meetOnce)
	return ss
}

// Handlers returns the handlers of the requests about sessions, and about the names that a
// shell completes, by method.
func (ss *Sessions) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{
		wire.MSession: onwire.WithRequest(ss.sessionEvent), wire.MToolBegin: onwire.WithRequest(ss.toolBegin), wire.MToolEnd: onwire.WithRequest(ss.toolEnd),
		wire.MToolPlace: onwire.Decoded(ss.toolPlace),
		wire.MShared:    onwire.Decoded(ss.shared), wire.MRecovery: onwire.Decoded(ss.recovery), wire.MNames: onwire.Decoded(ss.names),
	}
}

// undecided holds the newest prompt of each session until the client's transcript shows whether a
// person typed it. The zero value is usable.
type undecided struct {
	mu        sync.Mutex // guards bySession
	bySession map[store.SessionID]pending
}

// pending is an undecided prompt and the one before it.
type pending struct{ prompt, before string }

func (u *undecided) add(id store.SessionID, prompt, before string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.bySession == nil {
		u.bySession = map[store.SessionID]pending{}
	}
	u.bySession[id] = pending{prompt, before}
}

func (u *undecided) has(id store.SessionID, prompt string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return prompt != "" && u.bySession[id].prompt == prompt
}

// take removes an undecided prompt and returns the prompt before it.
func (u *undecided) take(id store.SessionID, prompt string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := u.bySession[id]
	if p.prompt != prompt {
		return ""
	}
	delete(u.bySession, id)
	return p.before
}
