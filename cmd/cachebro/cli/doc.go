// Package cli is what every command stands on: the environment (streams,
// arguments, the user's paths), errors with a hint and their exit statuses, the
// project that an argument names, the connection to its daemon, and how times,
// sizes and versions are written for people.
package cli
