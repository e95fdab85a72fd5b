package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"cachebro/store/leaf/text"
	"cachebro/store/wire"
	"cachebro/store/wire/visible"

	"github.com/mark3labs/mcp-go/mcp"
	"golang.org/x/text/unicode/norm"
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

// The protocol wants the URI of a missing resource in the error's data. mcp-go cannot add it, so
// the following functions do.

// askedResource returns the URI of the resource that a message asks to read, or "" for other
// requests.
func askedResource(message []byte) string {
	if !bytes.Contains(message, []byte(mcp.MethodResourcesRead)) {
		return ""
	}
	var req struct {
		Method mcp.MCPMethod `json:"method"`
		Params struct {
			URI string `json:"uri"`
		} `json:"params"`
	}
	if json.Unmarshal(message, &req) != nil || req.Method != mcp.MethodResourcesRead {
		return ""
	}
	return req.Params.URI
}

// nameMissing adds the URI to an answer that reports a missing resource.
func nameMissing(reply mcp.JSONRPCMessage, uri string) mcp.JSONRPCMessage {
	e, ok := reply.(mcp.JSONRPCError)
	notFound := e.Error.Code == mcp.RESOURCE_NOT_FOUND || e.Error.Code == mcp.INVALID_PARAMS
	if ok && uri != "" && notFound && e.Error.Data == nil {
		e.Error.Data = map[string]string{"uri": uri}
		return e
	}
	return reply
}

// namesMissing wraps an HTTP handler. The result adds the URI to answers about missing resources.
func namesMissing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, err := io.ReadAll(r.Body)
			if err == nil { // otherwise the next handler gets the error too
				r.Body = io.NopCloser(bytes.NewReader(body)) // net/http closes the original body
			}
			if uri := askedResource(body); uri != "" {
				w = &missingWriter{w, uri}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// missingWriter adds the URI to an answer, which mcp-go writes in one call.
type missingWriter struct {
	http.ResponseWriter
	uri string
}

func (w *missingWriter) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

func (w *missingWriter) Write(b []byte) (int, error) {
	var reply mcp.JSONRPCError
	if json.Unmarshal(b, &reply) != nil || reply.Error.Code == 0 {
		return w.ResponseWriter.Write(b)
	}
	whole, err := text.JSONLine(nameMissing(reply, w.uri))
	if err != nil {
		return w.ResponseWriter.Write(b)
	}
	_, err = w.ResponseWriter.Write(whole)
	return len(b), err
}

// nearest returns the file that was probably meant, which is in the same directory and whose name
// differs only in case or a few letters. It returns "" if there is none.
func (s *Server) nearest(rel string) string {
	dir, base := path.Split(rel)
	root, err := os.OpenRoot(s.dir())
	if err != nil {
		return ""
	}
	defer root.Close()
	d, err := root.Open(name(path.Clean(dir)))
	if err != nil {
		return ""
	}
	defer d.Close()
	names, _ := d.Readdirnames(5000)
	best, bestAt := "", max(2, utf8.RuneCountInString(base)/4)+1
	for _, n := range names {
		at := text.Distance(foldName(base), foldName(n))
		if strings.TrimSuffix(n, path.Ext(n)) == strings.TrimSuffix(base, path.Ext(base)) {
			at = min(at, 2) // main.js for main.ts
		}
		if at < bestAt || at == bestAt && best != "" && n < best {
			best, bestAt = n, at
		}
	}
	if best == "" {
		return ""
	}
	return dir + best
}

// foldName removes differences of case and Unicode form.
func foldName(n string) string { return strings.ToLower(norm.NFC.String(n)) }
