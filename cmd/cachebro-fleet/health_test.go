package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"cachebro/store/fleet"
)

// TestHealth checks that monitoring can see what an indexer has done, and when it makes no
// progress.
func TestHealth(t *testing.T) {
	h := newHealth(time.Second)
	var down error
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer h.serve(l, func(context.Context) error { return down })()
	get := func(path string) (int, string) {
		t.Helper()
		r, err := http.Get("http://" + l.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(b)
	}
	if status, said := get("/healthz"); status != http.StatusOK {
		t.Errorf("at first: %d %s", status, said)
	}
	h.round(`s3://b/"app"`, fleet.FeedResult{Machines: 3, Segments: 2, Versions: 40, Problems: 1}, errors.New("one"), 1500*time.Millisecond)
	h.round(`s3://b/"app"`, fleet.FeedResult{Machines: 3, Versions: 2}, nil, time.Second)
	h.round("s3://b/lib", fleet.FeedResult{}, errors.New("no bucket"), time.Second)
	_, said := get("/metrics")
	for _, want := range []string{
		"# TYPE cachebro_fleet_versions_total counter\n", "cachebro_fleet_versions_total{project=\"s3://b/\\\"app\\\"\"} 42\n",
		"cachebro_fleet_machines_problem{project=\"s3://b/\\\"app\\\"\"} 0\n", "cachebro_fleet_rounds_failed_total{project=\"s3://b/lib\"} 1\n",
		"cachebro_fleet_last_round_timestamp_seconds{project=\"s3://b/lib\"} 0\n",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the metrics lack %q:\n%s", want, said)
		}
	}
	down = errors.New("down")
	if status, _ := get("/healthz"); status != http.StatusServiceUnavailable {
		t.Errorf("without a database: %d", status)
	}
	down = nil
	h.mu.Lock()
	h.since = h.since.Add(-time.Hour)
	h.mu.Unlock()
	if status, said := get("/healthz"); status != http.StatusServiceUnavailable || !strings.Contains(said, "s3://b/lib") {
		t.Errorf("a project of which nothing comes: %d %s", status, said)
	}
}
