package daemon

import (
	"fmt"

	"cachebro/store/daemon/onwire"
	"cachebro/store/wire"
)

// handler finds who answers a method.
func (d *Daemon) handler(method string) (wire.Handler, bool) {
	h, ok := d.table[method]
	return h, ok
}

// handlers are those of the daemon itself.
func (d *Daemon) handlers() map[string]wire.Handler {
	return map[string]wire.Handler{
		wire.MStatus: onwire.Decoded(d.status), wire.MShutdown: d.shutdown,
		wire.MSession: d.sessionEvent, wire.MToolBegin: d.toolBegin, wire.MToolEnd: d.toolEnd,
		wire.MRecovery: onwire.Decoded(d.recovery),
		wire.MStore:    onwire.Decoded(d.maintain),
		wire.MExport:   d.export,
		wire.MNotes:    d.notesRequest,
		wire.MDocs:     d.docsRequest,
		wire.MSearch:   onwire.Decoded(d.search), wire.MIndex: onwire.Decoded(d.indexRequest), wire.MOutline: onwire.Decoded(d.outline),
		wire.MContext: d.contextRequest,
		wire.MNames:   onwire.Decoded(d.names),
	}
}

// merge makes one table of all services'. A method that two of them answer is an error.
func merge(tables ...map[string]wire.Handler) (map[string]wire.Handler, error) {
	all := map[string]wire.Handler{}
	for _, t := range tables {
		for method, h := range t {
			if all[method] != nil {
				return nil, fmt.Errorf("two services answer %q", method)
			}
			all[method] = h
		}
	}
	return all, nil
}
