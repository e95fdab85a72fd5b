// Package wire is the protocol between the store daemon and its clients (CLI, MCP server, hooks,
// mountd).
//
// A unix stream socket carries frames. Each connection has one request in flight:
//
//	u32 length of the header, u32 length of the body (little-endian)
//	header: JSON, {id, method, params} or {id, result | error{code, message, hint}}
//	body:   raw bytes; file content need not be UTF-8, so it is not in the JSON
//
// A descriptor (MAttach, MExport, MFork) is sent as SCM_RIGHTS with the first byte of its frame.
// The first request of every connection is MHello. Closing a connection cancels its handler. Each
// side checks that the other runs under the same uid.
//
// Only paths.go determines where the socket and the state of a project are.
//
// Client.mu guards the idle connections and Server.mu the open ones. Neither is held during a
// system call that can block.
package wire
