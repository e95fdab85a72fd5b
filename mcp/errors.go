package mcp

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"unicode"

	"cachebro/store/wire"
	"cachebro/store/wire/visible"

	"github.com/mark3labs/mcp-go/mcp"
)

// badInput returns the error for a mistake that the caller can correct.
func badInput(message, hint string) *wire.Error {
	return &wire.Error{Code: wire.ErrBadRequest.Code, Message: message, Hint: hint}
}

// toolError returns the error for the model: what is wrong, then how to correct it.
func toolError(err error) *mcp.CallToolResult {
	text := clean(err.Error())
	if h := wire.Hint(err); h != "" {
		text += "\nhint: " + clean(h)
	}
	return mcp.NewToolResultError(text)
}

// fileError gives an error of the file system a readable message.
func fileError(rel string, err error) error {
	name := quote(rel)
	if rel == "" {
		name = "the project directory"
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return wire.Errorf(wire.ErrNotFound, "", "no such file: %s", name)
	case errors.Is(err, syscall.EISDIR):
		return wire.Errorf(wire.ErrIsDir, "", "%s is a directory", name)
	case errors.Is(err, syscall.ENOTDIR):
		return wire.Errorf(wire.ErrNotFound, "", "no such file: %s (a part of the path is a file)", name)
	case errors.Is(err, fs.ErrPermission):
		return wire.Errorf(wire.ErrPermission, "", "permission denied: %s", name)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return wire.Errorf(wire.ErrNoSpace, "free some space, then try again; the file is as it was", "no space left to write %s", name)
	case errors.Is(err, syscall.EROFS):
		return wire.Errorf(wire.ErrPermission, "", "%s is on a read-only file system", name)
	case errors.Is(err, syscall.ELOOP):
		return wire.Errorf(wire.ErrOutside, "", "%s is a loop of symlinks", name)
	case strings.Contains(err.Error(), "path escapes from parent"): // os.Root has no sentinel for it
		return wire.Errorf(wire.ErrOutside, "", "%s leads out of the project", name)
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// quote returns a plain path unchanged, any other as a Go string, so that no file name can add a
// line or a control sequence to an answer.
func quote(p string) string {
	plain := p != "" && !strings.ContainsFunc(p, func(r rune) bool {
		return r == unicode.ReplacementChar || !unicode.IsPrint(r)
	})
	if plain {
		return p
	}
	return fmt.Sprintf("%q", p)
}

// clean removes control characters and others that a terminal would interpret, but no newlines.
func clean(t string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && visible.Acts(r) {
			return -1
		}
		return r
	}, t)
}
