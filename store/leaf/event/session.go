package event

// RunSession is the environment variable by which cachebro run names the session of what
// it starts.
const RunSession = "CACHEBRO_SESSION"

// ClientSessions are the environment variables by which agents name their sessions to
// what they start.
var ClientSessions = []string{"CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID"}

// SessionVariables are all of these; the first one that is set counts.
var SessionVariables = append([]string{RunSession}, ClientSessions...)
