// Replay plays recorded agent sessions (testdata/traces, which hold only their shapes) on a
// mounted project. It counts, per session, what the model would have received with cachebro
// and without it, all overhead included. It is at the serve end of observe → version → index →
// serve and uses the real binary with its mount, its daemon, its MCP server and its hooks.
//
// Files are made up from the line numbers and lengths of a recording, so that equalities,
// diffs and sizes are the recorded ones. Every answer is compared with that of an oracle,
// which knows exactly what each context window contains and sends the shortest of full text,
// diff and stub, in the same words. A judge checks every answer against the reader's context
// (judge.go, which shares no code with what it judges): a stub or a diff from which the reader
// cannot reconstruct the file's bytes counts as false. Savings are counted in tokens, and in
// the bill, where a text is paid for again with each request that carries it.
//
//	go run ./scripts/replay               both ways, all sessions
//	go run ./scripts/replay -mode hooks -session 08 -v
//	go run ./scripts/replay -mode hooks -outputs hooks/reshape/testdata/corpus
//	go run ./scripts/replay -mode hooks -vary 7
//	go run ./scripts/replay -mode hooks -client codex
//
// It takes no locks: one goroutine plays one session after the other.
package main
