package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// Error is the error sent over the socket. It has a stable code for programs, a message for the
// user, and a hint with a command or step that helps. errors.Is matches it with the sentinel of the
// same code.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Session and Prompt are the resolved IDs if an undo by session or prompt finds nothing in this
	// project. The session or prompt may have changed other projects.
	Session string `json:"session,omitempty"`
	Prompt  string `json:"prompt,omitempty"`
}

// Error returns the message alone; see Hint.
func (e *Error) Error() string { return e.Message }

// Is compares codes, so that a sentinel also matches an error received over the socket.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// The sentinels, with general messages that Errorf makes specific.
var (
	ErrBadRequest  = &Error{Code: "bad-request", Message: "malformed request"}
	ErrNotFound    = &Error{Code: "not-found", Message: "not found"}
	ErrOutside     = &Error{Code: "outside", Message: "path is outside the project"}
	ErrBinary      = &Error{Code: "binary", Message: "file is binary"}
	ErrIsDir       = &Error{Code: "is-dir", Message: "path is a directory"}
	ErrNotRegular  = &Error{Code: "not-regular", Message: "not a regular file"}
	ErrTooLarge    = &Error{Code: "too-large", Message: "too large"}
	ErrPermission  = &Error{Code: "permission", Message: "permission denied"}
	ErrPruned      = &Error{Code: "pruned", Message: "the content of this version is no longer stored"}
	ErrConflict    = &Error{Code: "conflict", Message: "file is not as expected"}
	ErrNoDaemon    = &Error{Code: "no-daemon", Message: "the store daemon is not running"}
	ErrVersion     = &Error{Code: "version", Message: "the store daemon is of another version"}
	ErrTimeout     = &Error{Code: "timeout", Message: "the store daemon did not answer in time"}
	ErrCanceled    = &Error{Code: "canceled", Message: "cancelled"}
	ErrDamaged     = &Error{Code: "damaged", Message: "the store is damaged"}
	ErrNewer       = &Error{Code: "newer", Message: "the store was written by a newer cachebro"}
	ErrNoSpace     = &Error{Code: "no-space", Message: "no space for the store"}
	ErrLocked      = &Error{Code: "locked", Message: "another store daemon owns this project"}
	ErrForeign     = &Error{Code: "foreign", Message: "belongs to another user"}
	ErrUnsupported = &Error{Code: "unsupported", Message: "the store daemon does not offer this"}
	ErrInternal    = &Error{Code: "internal", Message: "internal error of the store daemon"}
)

// Errorf returns an Error with the code of sentinel, a message, and a hint. If hint is "",
// the sentinel's hint is used.
func Errorf(sentinel *Error, hint, format string, args ...any) *Error {
	hint = cmp.Or(hint, sentinel.Hint)
	return &Error{Code: sentinel.Code, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// Hint returns the hint of the first Error in err's chain, or "" if there is none.
func Hint(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}

// AsError converts any error into one that can be sent. Text wrapped around an Error is preserved.
// Any other error becomes ErrInternal with its own message.
func AsError(err error) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return &Error{Code: e.Code, Message: err.Error(), Hint: e.Hint, Session: e.Session, Prompt: e.Prompt}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: ErrTimeout.Code, Message: err.Error()}
	case errors.Is(err, context.Canceled):
		return &Error{Code: ErrCanceled.Code, Message: err.Error()}
	}
	return &Error{Code: ErrInternal.Code, Message: err.Error(), Hint: "look at the daemon's log, whose path cachebro status shows"}
}
