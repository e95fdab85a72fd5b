package daemon

import "cachebro/store/wire"

// handler finds who answers a method.
func (d *Daemon) handler(method string) (wire.Handler, bool) {
	h, ok := d.table[method]
	return h, ok
}

func (d *Daemon) handlers() map[string]wire.Handler {
	return map[string]wire.Handler{
		wire.MAttach: d.attachMountd, wire.MHeartbeat: d.heartbeat, wire.MDetach: d.detach,
		wire.MStatus: on(d.status), wire.MShutdown: d.shutdown,
		wire.MLog: on(d.logQuery), wire.MShow: on(d.show), wire.MDiff: on(d.diff), wire.MBlame: on(d.blame),
		wire.MPlan: d.plan, wire.MPlanOpen: on(d.openPlans), wire.MPlanFetch: on(d.planFetch), wire.MPlanDone: d.planDone,
		wire.MRead: d.read, wire.MShown: d.shownText, wire.MCommit: d.commit, wire.MOwnEdit: d.ownEdit,
		wire.MSession: d.sessionEvent, wire.MToolBegin: d.toolBegin, wire.MToolEnd: d.toolEnd,
		wire.MWorkingSet: on(d.workingSet), wire.MRecovery: on(d.recovery),
		wire.MMetrics: on(d.metrics), wire.MSpend: d.spend, wire.MIngest: d.ingestGiven,
		wire.MStore:  on(d.maintain),
		wire.MExport: d.export,
		wire.MNotes:  d.notesRequest,
		wire.MDocs:   d.docsRequest,
		wire.MSearch: on(d.search), wire.MIndex: on(d.indexRequest), wire.MResults: d.resultsRequest, wire.MOutline: on(d.outline),
		wire.MContext: d.contextRequest,
		wire.MNames:   on(d.names),
	}
}
