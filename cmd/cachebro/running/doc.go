// Package running starts a command, mostly an agent, as a session of its own on a
// watched project: mounted for all, or in a mount namespace that only it sees.
package running
