// Package wire is the protocol between the store daemon and its clients (CLI, MCP server,
// hooks, mountd). In observe → version → index → serve it carries the "serve" end.
//
// A unix stream socket carries frames, one request in flight per connection:
//
//	u32 length of the header, u32 length of the body (little-endian)
//	header: JSON, {id, method, params} or {id, result | error{code, message, hint}}
//	body:   raw bytes; file content need not be UTF-8, so it is not in the JSON
//
// A descriptor (MAttach, MExport, MFork) travels as SCM_RIGHTS with the first byte of its
// frame. The first request of every connection is MHello. Closing a connection cancels the
// handler that works for it. Each side checks that the other runs under the same uid.
//
// paths.go alone knows where the socket and the state of a project are.
//
// Locks: Client.mu (idle connections), Server.mu (open connections). Neither is held over a
// system call that can block.
package wire
