// Replay plays recorded agent sessions on a mounted project. The recordings (testdata/traces)
// contain only the shapes of sessions, not their texts. For each session, replay counts the tokens
// that the model would have received with cachebro and without it, including all overhead. It uses
// the real binary with its mount, its daemon, its MCP server and its hooks.
//
// Files are made up from the line numbers and lengths in a recording, so that equalities, diffs and
// sizes are the recorded ones. Every answer is compared with that of an oracle. The oracle knows
// exactly what each context window contains, and sends the shortest of full text, diff and stub (a
// line saying that the text has not changed), in the same words as cachebro. A judge checks every
// answer against the reader's context (judge.go, which shares no code with what it judges): a stub
// or a diff from which the reader cannot reconstruct the file's bytes counts as false. Savings are
// counted in tokens and in a bill, where a text is paid for again with each request that carries
// it.
//
//	go run ./scripts/replay               both ways, all sessions
//	go run ./scripts/replay -mode hooks -session 08 -v
//	go run ./scripts/replay -mode hooks -outputs hooks/reshape/testdata/corpus
//	go run ./scripts/replay -mode hooks -vary 7
//	go run ./scripts/replay -mode hooks -client codex
//
// It takes no locks: one goroutine plays one session after the other.
package main
