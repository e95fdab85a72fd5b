// Package hooks answers the events of a coding agent's client, so that the client's built-in tools
// save tokens and every change is attributed to its prompt and tool call. It talks only to the
// daemon's socket.
//
// Each event runs one process, which reads the event as JSON from stdin, writes the answer as JSON
// to stdout, and ends. A hook must never disturb the client. So its exit status is always 0, and it
// prints nothing if anything goes wrong. The daemon has 100 ms to accept and 200 ms to answer.
// After a timeout, a marker file makes every hook return at once for 30 s.
//
// Claude Code 2.1.197 and 2.1.330 were observed to send this:
//   - A result of Read is {"type":"text","file":{filePath,content,numLines,startLine,
//     totalLines}}, with truncatedByTokenCap if it was cut. Up to 2.1.316 it can also be
//     {"type":"file_unchanged","file":{filePath}}.
//   - A result of Bash has stdout without leading blank lines and without white space at the
//     end. Of more than 30,000 characters it has only the beginning, and persistedOutputPath.
//   - PostToolBatch contains the text that the model gets. In it the lines of a Read are
//     numbered as "12\ttext".
//   - At UserPromptSubmit the transcript does not contain the prompt. At PreToolUse and
//     PostToolUse it contains the tool call itself.
//
// The package stores small files in the directory "hooks" of a project's state: an index of each
// live session's transcript (transcript.go), and other records of that session. All projects share
// a list of each session's projects (projects.go), and a list of the replaced results that a
// version of a client did not show its model (refused.go). Most files need no lock, because the
// processes of a session append each line in one write, and a line may occur twice.
package hooks
