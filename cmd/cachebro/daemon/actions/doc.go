// Package actions groups the versions of the log into actions. An action is everything that one
// tool call, one shell job or one undo changed, with the outcome for each file. The log, diff
// --stat and the web pages present the history as actions.
//
// At a terminal, an action is one typed line. It consists of everything that the shell and its
// foreground processes did between two inputs (fusefs/capture/lines.go explains how that is known).
// Without a terminal an action is a job, that is, the processes of one process group, named after the
// topmost process. A make with a hundred compilers is one job. If the group is not known, the
// action is a single process. A sandbox (bubblewrap) makes empty files and directories as mount
// points; their later removal belongs to the action that made them (describer.attributedTo). After
// half a minute without a change a new action begins.
//
// Undo without arguments undoes the newest action that is in effect, which is exactly one row in
// the output of cachebro log.
//
// A page is read from one snapshot of the log. Because jobs run concurrently, reading goes on after
// the page is full, until all of its actions are complete (see walk). There are no locks.
package actions
