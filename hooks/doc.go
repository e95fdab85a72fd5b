// Package hooks answers the events of a coding agent's client, so that the
// client's built-in tools save tokens and every change is joined to the prompt
// and tool call that made it. It is part of the last stage of observe → version →
// index → serve, and it talks only to the daemon's socket.
//
// One event is one process: the event comes as JSON on stdin, the answer goes
// to stdout as JSON, and the process ends. A hook must never disturb the client. So its exit
// status is always 0, it prints nothing if anything goes wrong, the daemon has 100 ms to accept
// and 200 ms to answer, and after one time-out a marker file makes every hook return at once
// for 30 s.
//
// This is what the client really sends, as observed with Claude Code 2.1.197 and 2.1.330:
//   - Read: {"type":"text","file":{filePath,content,numLines,startLine,
//     totalLines}}, with truncatedByTokenCap when cut; up to 2.1.316 also
//     {"type":"file_unchanged","file":{filePath}};
//   - Bash: stdout without its leading blank lines and without the white space
//     at its end; above 30,000 characters only their beginning and
//     persistedOutputPath;
//   - PostToolBatch: the text that the model gets, a Read's lines numbered as
//     "12\ttext";
//   - at UserPromptSubmit the transcript does not yet hold the prompt; at
//     PreToolUse and PostToolUse it holds the tool call itself.
//
// The package keeps two small files per project, in the state directory under
// "hooks": an index of each live session's transcript (see transcript.go) and
// the marker. Two more are for all projects: one names the projects that a session works
// in (see projects.go), and one says which forms of a result a client's
// version refused (see refused.go). There are no locks: processes of one session
// that write at the same time append in single writes, and a line may be there
// twice.
package hooks
