// Package wire is the language between the store daemon and its clients (CLI,
// MCP server, hooks, mountd): in observe → version → index → serve it is what
// "serve" speaks.
//
// A unix stream socket carries frames, one request in flight per connection:
//
//	u32 length of the header, u32 length of the body (little-endian)
//	header: JSON, {id, method, params} or {id, result | error{code, message, hint}}
//	body:   raw bytes; file content need not be UTF-8, so it is not in the JSON
//
// A descriptor (MAttach, MExport, MFork) travels as SCM_RIGHTS with the first byte of its
// frame. The first request of every connection is MHello. Closing a connection
// cancels the handler that works for it. Both sides check that the other end
// runs under their own uid.
//
// paths.go is the one place that knows where socket and state of a project lie.
//
// Locks: Client.mu (idle connections), Server.mu (open connections); neither is
// held over a system call that can wait.
package wire
