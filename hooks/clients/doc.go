// Package clients writes cachebro into the configuration of coding agents and of
// git, removes it again, and checks what is there. A file changes exactly as init
// showed beforehand, every byte that is not ours stays, and no file is written through
// a symbolic link that leads elsewhere.
package clients
