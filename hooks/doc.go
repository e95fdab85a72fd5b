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
//   - A result of Read is {"type":"text","file":{filePath,content,numLines,startLine,
//     totalLines}}, with truncatedByTokenCap if it was cut. Up to 2.1.316 it can also be
//     {"type":"file_unchanged","file":{filePath}}.
//   - A result of Bash has stdout without leading blank lines and without white space at the
//     end. Above 30,000 characters it has only their beginning and persistedOutputPath.
//   - PostToolBatch contains the text that the model gets. In it the lines of a Read are
//     numbered as "12\ttext".
//   - At UserPromptSubmit the transcript does not yet contain the prompt. At PreToolUse and
//     PostToolUse it contains the tool call itself.
//
// The package stores small files in the directory "hooks" of a project's state: an index of each
// live session's transcript (see transcript.go), and the files that go with it. Two more files are
// shared by all projects. One lists the projects that a session works in (see projects.go), the
// other the forms of results that a version of a client refused (see refused.go). Most files need
// no lock: processes of one session append lines in single writes, and a line may occur twice.
package hooks
