package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"

	"cachebro/store/wire"
)

// ErrDeclined reports that the person answered no.
var ErrDeclined = errors.New("nothing was changed")

type hinted struct {
	err  error
	hint string
}

func (h *hinted) Error() string { return h.err.Error() }
func (h *hinted) Unwrap() error { return h.err }

// Hint returns advice, usually a command to run.
func (h *hinted) Hint() string { return h.hint }

// Hintf makes an error with a hint.
func Hintf(hint, format string, args ...any) error {
	return &hinted{fmt.Errorf(format, args...), hint}
}

// usage is a mistake on the command line. Its exit status is 2.
type usage struct{ hinted }

// Usagef returns an error for a mistake on the command line, with exit status 2 and the command's
// help as its hint.
func (e *Env) Usagef(format string, args ...any) error {
	return &usage{hinted{fmt.Errorf(format, args...), helpOf(e.Cmd)}}
}

// UsageHint returns an error for a mistake on the command line, with the given hint.
func UsageHint(hint, format string, args ...any) error {
	return &usage{hinted{fmt.Errorf(format, args...), hint}}
}

// ExitStatus is an exit status that is returned without an error message.
type ExitStatus int

func (s ExitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// HintOf returns the hint in err's chain, which Hintf made or the daemon sent.
func HintOf(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return wire.Hint(err)
}

// Report prints err as the user should see it and returns the exit status.
func (e *Env) Report(err error) int {
	var status ExitStatus
	var bad *usage
	var nothing errNothingDone
	failed := 1
	if errors.As(err, &bad) || errors.As(err, &nothing) {
		failed = 2
	}
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	case errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrClosedPipe):
		return failed // the reader of the output is gone, so print nothing
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(e.Stderr, "%s: interrupted\n", e.Cmd.Root().Name())
		return failed
	}
	shown := err
	if dead := explainDead(err); dead != nil {
		shown = dead
	}
	fmt.Fprintf(e.Stderr, "%s: %s\n", e.Cmd.Root().Name(), OneLine(shown.Error()))
	if hint := HintOf(shown); hint != "" {
		fmt.Fprintf(e.Stderr, "hint: %s\n", hint)
	}
	return failed
}

type errNothingDone struct{ error }

func (e errNothingDone) Unwrap() error { return e.error }

// NothingDone wraps an error that prevented every step of a plan, or a whole search. The exit status
// becomes 2.
func NothingDone(err error) error { return errNothingDone{err} }

// ChildStatus converts a child's error into its exit status. If a signal ended the child, the
// status is 128 plus the number of the signal.
func ChildStatus(err error) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return ExitStatus(128 + int(ws.Signal()))
	}
	return ExitStatus(exit.ExitCode())
}
