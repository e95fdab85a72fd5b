// Package e2e holds the tests that use cachebro as its users do: the real binary, real mounts,
// real processes that write through them, and the command line as the only witness. Nothing here
// imports the packages under test.
//
// Every test has its own project, state and runtime directories, and fails if a mount or a
// process of its own outlives it. Long tests that look only at their own project run in
// parallel. Tests about mounts that bypass the overlay do not, because a mount namespace that another
// test makes would count as one. Without /dev/fuse the tests are skipped, unless CACHEBRO_NEED_FUSE=1 makes that
// a failure.
package e2e
