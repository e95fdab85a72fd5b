// Package actions tells the log by what somebody did, instead of by version: all that
// one tool call, one job of a shell or one undo changed is one action, with what became
// of each file. The log, what-changed and whoever else shows the history to a person
// get the same words from here.
//
// A job is what a shell starts as one: the processes of a process group, named by the
// topmost one. make and its hundred compilers are one job. Where no group is known, it
// is the process. A job that is silent for half a minute is another action from then on.
//
// A page is read from one snapshot of the log, and no further than its actions reach:
// some seconds beyond the last one, because jobs run side by side. There are no locks.
package actions
