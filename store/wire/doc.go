// Package wire is the protocol between the store daemon and its clients (CLI, MCP server,
// hooks, mountd). It belongs to the "serve" stage of observe → version → index → serve.
//
// A unix stream socket carries frames, one request in flight per connection:
//
//	u32 length of the header, u32 length of the body (little-endian)
//	header: JSON, {id, method, params} or {id, result | error{code, message, hint}}
//	body:   raw bytes; file content need not be UTF-8, so it is not in the JSON
//
// A descriptor (MAttach, MExport, MFork) travels as SCM_RIGHTS with the first byte of its
// frame. The first request of every connection is MHello. Closing a connection cancels its
// handler. Each side checks that the other runs under the same uid.
//
// Only paths.go determines where the socket and the state of a project are.
//
// Locks: Client.mu (idle connections), Server.mu (open connections). Neither is held over a
// system call that can block.
package wire
