// Package running starts a command, mostly an agent, as a session of its own. The project is
// mounted for all processes or, in a mount namespace, for the command alone. A net saves files
// outside of mounts before the command changes them.
package running
