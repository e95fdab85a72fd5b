package mcp

import (
	"context"
	"net/http"
	"sync/atomic"
)

// The protocol wants no answer to a cancelled request. Over HTTP mcp-go answers it with the
// cancellation's error. This code suppresses that answer, so the response is a stream without
// messages.

// cancelledKey is the context key of the flag for a cancelled request over HTTP.
type cancelledKey struct{}

// cancelled marks a request over HTTP whose context has ended.
func cancelled(ctx context.Context) {
	if mark, ok := ctx.Value(cancelledKey{}).(*atomic.Bool); ok && ctx.Err() != nil {
		mark.Store(true)
	}
}

func unanswered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mark := new(atomic.Bool)
		next.ServeHTTP(&cancelledWriter{w, mark}, r.WithContext(context.WithValue(r.Context(), cancelledKey{}, mark)))
	})
}

// cancelledWriter writes nothing after its request was cancelled.
type cancelledWriter struct {
	http.ResponseWriter
	cancelled *atomic.Bool
}

func (w *cancelledWriter) WriteHeader(status int) {
	if w.cancelled.Load() {
		w.Header().Set("Content-Type", "text/event-stream")
		status = http.StatusOK
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *cancelledWriter) Write(b []byte) (int, error) {
	if w.cancelled.Load() {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

func (w *cancelledWriter) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}
