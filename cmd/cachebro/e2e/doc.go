// Package e2e tests cachebro as its users use it: with the real binary, real mounts and real
// processes that write through them. It observes only what the command line prints, and imports
// none of the packages under test.
//
// Every test has its own project, state and runtime directories, and fails if a mount or a process
// of its own outlives it. Long tests that look only at their own project run in parallel. Tests of
// mounts that bypass the overlay do not run in parallel, because another test's mount namespace
// would count as such a mount. Without /dev/fuse the tests are skipped, unless CACHEBRO_NEED_FUSE=1
// makes that a failure.
package e2e
