package mcp

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
)

// The protocol wants the URI of a missing resource in the error's data. mcp-go cannot add it, so
// this code does before the answer is sent.

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

// nameMissing adds the URI to an answer that a resource does not exist.
func nameMissing(reply mcp.JSONRPCMessage, uri string) mcp.JSONRPCMessage {
	e, ok := reply.(mcp.JSONRPCError)
	notFound := e.Error.Code == mcp.RESOURCE_NOT_FOUND || e.Error.Code == mcp.INVALID_PARAMS
	if ok && uri != "" && notFound && e.Error.Data == nil {
		e.Error.Data = map[string]string{"uri": uri}
		return e
	}
	return reply
}

// namesMissing does so for answers over HTTP.
func namesMissing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, err := io.ReadAll(r.Body)
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.MultiReader(bytes.NewReader(body), failing{err}), r.Body}
			if uri := askedResource(body); uri != "" {
				w = &missingWriter{w, uri}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// failing is a reader that returns an error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return 0, io.EOF
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
	whole, err := jsonBytes(nameMissing(reply, w.uri))
	if err != nil {
		return w.ResponseWriter.Write(b)
	}
	_, err = w.ResponseWriter.Write(whole)
	return len(b), err
}
