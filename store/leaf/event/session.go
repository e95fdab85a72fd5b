package event

// RunSession is the environment variable in which cachebro run passes its session's name to the
// processes that it starts.
const RunSession = "CACHEBRO_SESSION"

// ClientSessions are the environment variables in which agents pass their session's name to the
// processes that they start.
var ClientSessions = []string{"CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID"}

// SessionVariables lists all of these variables. The first one that is set counts.
var SessionVariables = append([]string{RunSession}, ClientSessions...)
