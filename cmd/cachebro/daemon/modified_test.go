package daemon

import (
	"syscall"
	"testing"

	"cachebro/store/leaf/event"
	"cachebro/store/leaf/spool"
	"cachebro/store/wire"
)

// TestModified checks that the number of changed files, which the Stop hook shows after a prompt, is
// the number of files that an undo would restore. It used to include the temporary files of three
// atomic saves: 13 instead of 10.
func TestModified(t *testing.T) {
	p := newProject(t)
	p.start()
	p.attach()
	h := p.dial("hook")
	p.closed(event.OpWrite, "a", []byte("a\n"), nil)
	p.closed(event.OpWrite, "b", []byte("b\n"), nil)
	p.closed(event.OpWrite, "same", []byte("same\n"), nil)
	p.closed(event.OpWrite, "gone", []byte("gone\n"), nil)
	p.append(&spool.Record{Kind: spool.KindProcess, Time: now(), PID: 4000001, Start: 77, Comm: "sh", Session: map[string]string{"CLAUDE_CODE_SESSION_ID": "S"}})
	ask[wire.SessionAnswer](p, h, wire.MSession, wire.SessionEvent{Session: "S", Event: "prompt", Prompt: "P1"})
	by := func(r *spool.Record) { r.PID, r.Start = 4000001, 77 }
	do := func(op event.Op, path, to string) {
		r := &spool.Record{Kind: spool.KindVersion, Time: now(), Op: op, Path: path, Path2: to, LastName: true,
			Stat: event.Stat{Mode: syscall.S_IFREG | 0o644, Nlink: 1, Size: 2}}
		by(r)
		p.append(r)
	}
	p.closed(event.OpWrite, "a", []byte("aa\n"), by) // 1
	p.closed(event.OpWrite, "a", []byte("aaa\n"), by)
	p.closed(event.OpCreate, "b.tmp.1", []byte("bb\n"), by)
	do(event.OpRename, "b.tmp.1", "b") // 2
	p.closed(event.OpCreate, "scratch", []byte("x\n"), by)
	do(event.OpUnlink, "scratch", "")
	p.closed(event.OpWrite, "same", []byte("other\n"), by)
	p.closed(event.OpWrite, "same", []byte("same\n"), by)
	do(event.OpUnlink, "gone", "")                   // 3
	p.closed(event.OpCreate, "new", []byte("n"), by) // 4
	eventually(t, "everything ingested", func() bool { return ask[wire.Status](p, h, wire.MStatus, wire.Empty{}).Store.Lag == 0 })
	r := ask[wire.Recovery](p, h, wire.MRecovery, wire.SessionQuery{Session: "S"})
	if r.Modified != 4 || r.Prompt != "P1" {
		t.Errorf("%d files of prompt %q, want 4 of P1", r.Modified, r.Prompt)
	}
}
