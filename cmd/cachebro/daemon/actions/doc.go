// Package actions groups the versions of the log into actions: all that one tool call, one
// job of a shell or one undo changed, with what became of each file. The log, diff --stat and
// the pages show the history to people in these words.
//
// At a terminal an action is a line: what the foreground did between two inputs, the shell
// itself included (fusefs/capture/lines.go says how that is known). Elsewhere it is a job:
// the processes of one process group, named after the topmost one, so make and its hundred
// compilers are one job. If no group is known, it is the process. A sandbox's placeholders
// that are removed again belong to what made them (words.doer). After half a minute without
// a change a new action begins.
//
// Undo without a choice takes back the newest action that is in effect (Of), so that it
// never means more or less than one line of the log.
//
// A page is read from one snapshot of the log, and no further than its actions reach:
// some seconds beyond the last one, because jobs run side by side. There are no locks.
package actions
