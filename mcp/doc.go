// Package mcp is the MCP server behind `cachebro serve`: the end of observe →
// version → index → serve that an agent talks to. It holds no history of its own.
// It asks the store daemon (store/wire) for a file's text, what a reader was shown and what can
// be undone. It writes through the project's own path, so that the overlay, editors and the
// kernel see an ordinary write.
//
// One file per tool; table.go says which profile offers which tool and in what
// words. JSON-RPC is mcp-go's; the stdio loop (stdio.go) is ours, because a
// connection is a reader here and needs its own identity, subscriptions and
// cancellation. `--http` (http.go) is mcp-go's streamable HTTP behind a token.
//
// Law 5 of the design holds here too: if the daemon is absent or does not answer in time, reads
// give the whole text from the disk and edits are still made; the answer says what is missing.
// Text is counted as shown only by the daemon that composed the answer, so a read answered from
// the disk never leads to a later "unchanged".
//
// Locks: Server.mu guards connections and watchers; keyed locks (lock.go) order
// writers of one path; session.mu guards one connection's subscriptions. No lock
// is held over a socket or the disk except the keyed ones, which exist for that.
package mcp
