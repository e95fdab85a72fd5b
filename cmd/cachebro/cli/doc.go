// Package cli holds what every command needs: the environment (streams, arguments,
// the user's paths), errors with a hint and their exit statuses, the project that an
// argument names, the connection to its daemon, and the way times, sizes and versions
// are printed.
package cli
