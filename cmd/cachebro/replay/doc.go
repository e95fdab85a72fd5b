// Replay plays the shapes of recorded agent sessions (testdata/traces) on a
// mounted project and counts, per session, what the model would have been
// given with cachebro and without it, all overhead included. It stands at the
// serve end of observe → version → index → serve and uses the real binary, its
// mount, its daemon, its MCP server and its hooks.
//
// Files are made up from the line numbers and lengths of a recording, so that
// equalities, diffs and sizes are the recorded ones. Beside every answer stands
// that of an oracle which knows exactly what each context window holds and
// sends the shortest of full text, diff and stub, in the same words. Everything
// that is sent is judged by what stands in the reader's context (judge.go, which
// shares no code with what it judges): a stub or a diff that does not lead to the
// file's bytes is counted as false. What is saved is counted in tokens and by the
// bill, where a text is paid again with each request that carries it.
//
//	go run ./cmd/cachebro/replay               both ways, all sessions
//	go run ./cmd/cachebro/replay -mode hooks -session 08 -v
//	go run ./cmd/cachebro/replay -mode hooks -outputs hooks/reshape/testdata/corpus
//	go run ./cmd/cachebro/replay -mode hooks -vary 7
//	go run ./cmd/cachebro/replay -mode hooks -client codex
//
// It takes no locks; one goroutine plays one session after the other.
package main
