// Package clients adds cachebro to the configuration of coding agents and git, removes it again,
// and checks it. A file changes exactly as init has announced, and no byte of other entries
// changes. A project's files are never written through a symbolic link.
package clients
