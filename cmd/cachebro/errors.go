package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"cachebro/store/wire"
)

// errHelp: help was asked for and has been printed.
var errHelp = errors.New("help was printed")

// errDeclined: the person said no.
var errDeclined = errors.New("nothing was changed")

// hinted is an error with a step that helps.
type hinted struct {
	err  error
	hint string
}

func (h *hinted) Error() string { return h.err.Error() }
func (h *hinted) Unwrap() error { return h.err }

// Hint is a command to run, or what to do.
func (h *hinted) Hint() string { return h.hint }

// hintf makes an error with a hint.
func hintf(hint, format string, args ...any) error {
	return &hinted{fmt.Errorf(format, args...), hint}
}

// usage is a mistake on the command line: exit status 2.
type usage struct{ hinted }

func (e *env) usagef(format string, args ...any) error {
	hint := "cachebro help"
	if e.cmd.name != "" {
		hint += " " + e.cmd.name
	}
	return &usage{hinted{fmt.Errorf(format, args...), hint}}
}

// exitStatus passes the status of a child on, without a message.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// hintOf finds a hint in err's chain, ours or one that came over the socket.
func hintOf(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return wire.Hint(err)
}

// report prints err as the user should see it and returns the exit status.
func (e *env) report(err error) int {
	var status exitStatus
	var bad *usage
	var nothing errNothingDone
	failed := 1
	if errors.As(err, &bad) || errors.As(err, &nothing) {
		failed = 2
	}
	switch {
	case err == nil, errors.Is(err, errHelp):
		return 0
	case errors.As(err, &status):
		return int(status)
	case errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrClosedPipe):
		return failed // the reader of our output has gone: nobody to tell
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(e.stderr, "cachebro: interrupted")
		return failed
	}
	shown := err
	if dead := explainDead(err); dead != nil {
		shown = dead
	}
	fmt.Fprintf(e.stderr, "cachebro: %s\n", oneLine(shown.Error()))
	if hint := hintOf(shown); hint != "" {
		fmt.Fprintf(e.stderr, "hint: %s\n", hint)
	}
	return failed
}
