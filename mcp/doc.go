// Package mcp is the MCP server behind `cachebro serve`, which is the last stage of observe →
// version → index → serve and the one that an agent talks to. It holds no history of its own.
// It asks the store daemon (store/wire) for a file's text, for what a reader was shown and for
// what can be undone. It writes through the project's own path, so that the overlay, editors
// and the kernel see an ordinary write.
//
// There is one file per tool; table.go lists the tools, the profiles that offer them and their
// descriptions. mcp-go implements JSON-RPC. The stdio loop (stdio.go) is ours, because each
// connection is a reader and needs its own identity, subscriptions and cancellation. `--http`
// (http.go) is mcp-go's streamable HTTP with a required token.
//
// Law 5 of the design holds here too: if the daemon is absent or does not answer in time, reads
// give the whole text from the disk and edits are still made, and the answer says what is
// missing. Only a text that the daemon itself sent counts as shown, so a read answered from the
// disk never leads to a later "unchanged".
//
// Locks: Server.mu guards connections and watchers; keyed locks (lock.go) order
// writers of one path; session.mu guards one connection's subscriptions. No lock
// is held over a socket or the disk except the keyed ones, which exist for that.
package mcp
