// Package cli holds what every command needs: the environment (streams, arguments, the user's
// paths), errors with a hint and an exit status, the project that an argument names, and the
// connection to its daemon. It also formats times, sizes and versions.
package cli
