// Package clients writes cachebro into the configuration of coding agents and of
// git, takes it out again, and checks what is there. A file is changed only as
// init showed it, keeps every byte that is not ours, and is never written through
// a symbolic link that leads elsewhere.
package clients
