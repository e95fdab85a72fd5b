package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"cachebro/store/fleet"
)

// health holds the state that an indexer reports on /healthz and /metrics.
type health struct {
	overdueAfter time.Duration // a project is overdue after this time without a successful round

	mu       sync.Mutex // guards the fields below; no other lock is taken while it is held
	since    time.Time
	projects map[string]*projectCounts
}

// projectCounts counts what happened in one project's rounds.
type projectCounts struct {
	rounds, failed     int64
	segments, versions int64
	machines, problems int
	took               time.Duration
	last               time.Time // end of the last round that did not fail completely
}

func newHealth(every time.Duration) *health {
	return &health{overdueAfter: max(5*every, 5*time.Minute), since: time.Now(), projects: map[string]*projectCounts{}}
}

// round records one round of imports of a project. A problem with one machine is not a failure of
// the round.
func (h *health) round(project string, f fleet.FeedResult, err error, took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.projects[project]
	if w == nil {
		w = &projectCounts{}
		h.projects[project] = w
	}
	w.rounds++
	w.took = took
	w.segments += int64(f.Segments)
	w.versions += f.Versions
	if err != nil && f.Problems == 0 {
		w.failed++
		return
	}
	w.machines, w.problems = f.Machines, f.Problems
	w.last = time.Now()
}

// overdue returns a project without a successful round for the time overdueAfter, or "" if there is
// none. If no round of any project has ended for that time, it returns "any project".
func (h *health) overdue() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(h.projects)) {
		last := h.projects[name].last
		if last.Before(h.since) {
			last = h.since
		}
		if time.Since(last) > h.overdueAfter {
			return name
		}
	}
	if len(h.projects) == 0 && time.Since(h.since) > h.overdueAfter {
		return "any project"
	}
	return ""
}

func (h *health) write(w io.Writer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range []struct {
		name, kind, help string
		value            func(*projectCounts) float64
	}{
		{"rounds_total", "counter", "Rounds that looked at the project.", func(p *projectCounts) float64 { return float64(p.rounds) }},
		{"rounds_failed_total", "counter", "Rounds that failed as a whole.", func(p *projectCounts) float64 { return float64(p.failed) }},
		{"segments_total", "counter", "Segments that were imported.", func(p *projectCounts) float64 { return float64(p.segments) }},
		{"versions_total", "counter", "Versions that were imported.", func(p *projectCounts) float64 { return float64(p.versions) }},
		{"machines", "gauge", "Machines that write to the project.", func(p *projectCounts) float64 { return float64(p.machines) }},
		{"machines_problem", "gauge", "Machines whose history could not be read completely.", func(p *projectCounts) float64 { return float64(p.problems) }},
		{"round_seconds", "gauge", "How long the last round took.", func(p *projectCounts) float64 { return p.took.Seconds() }},
		{"last_round_timestamp_seconds", "gauge", "When a round last succeeded; 0: never.", func(p *projectCounts) float64 {
			if p.last.IsZero() {
				return 0
			}
			return float64(p.last.UnixMilli()) / 1000
		}},
	} {
		fmt.Fprintf(w, "# HELP cachebro_fleet_%s %s\n# TYPE cachebro_fleet_%s %s\n", m.name, m.help, m.name, m.kind)
		for _, name := range slices.Sorted(maps.Keys(h.projects)) {
			fmt.Fprintf(w, "cachebro_fleet_%s{project=\"%s\"} %v\n", m.name, escape.Replace(name), m.value(h.projects[name]))
		}
	}
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (h *health) handler(ping func(context.Context) error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		h.write(w)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		defer cancel()
		if err := ping(ctx); err != nil {
			http.Error(w, "the database does not answer", http.StatusServiceUnavailable)
			return
		}
		if project := h.overdue(); project != "" {
			http.Error(w, "no import from "+project+" has succeeded for "+h.overdueAfter.String(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}

// serve answers HTTP requests until stop is called.
func (h *health) serve(l net.Listener, ping func(context.Context) error) (stop func()) {
	srv := &http.Server{Handler: h.handler(ping), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = srv.Serve(l) // returns once the server is closed
	}()
	return func() {
		_ = srv.Close()
		<-ended
	}
}
