// Package mcp is the MCP server behind `cachebro serve`, through which agents use cachebro. It
// holds no history. It asks the daemon (store/wire) for a file's text, for what a reader was shown
// and for what can be undone. It writes through the project's own path, so that the overlay,
// editors and the kernel see an ordinary write.
//
// Each file holds one tool or a few related ones. table.go lists the tools. mcp-go implements
// JSON-RPC. The loop that serves stdio (stdio.go) is our own, because each connection is a reader
// and needs its own identity, subscriptions and cancellation. `--http` (http.go) is mcp-go's
// streamable HTTP with a required token.
//
// If the daemon does not answer in time, reads return the whole text from the disk, edits are still
// made, and the answer says what is missing. Only a text from the daemon counts as shown, so a read
// from the disk never leads to a later "unchanged".
//
// Locks: hub.mu guards what the servers of all projects share. Keyed locks (write_file.go) order the
// writers of one path. conn.mu and session.mu guard the state of one connection. Only the keyed
// locks are held during socket or disk access.
package mcp
