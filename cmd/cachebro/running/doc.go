// Package running starts a command, usually an agent, as a separate session. The project is mounted
// for all processes or, in a mount namespace, for the command alone. A recorder, called the net,
// saves files outside mounts before the command changes them.
package running
