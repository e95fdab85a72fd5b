// Package last resolves "last", as clients call a session or a prompt: the newest one
// that changed something. A session that is merely the newest may be that of a wrapper
// around the client, or one that only read; nobody means those. It resolves the
// beginnings of names too, which are what the log shows.
package last
