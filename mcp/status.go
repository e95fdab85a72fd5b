package mcp

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"strings"

	"cachebro/store/leaf/text"
	"cachebro/store/wire"

	"github.com/mark3labs/mcp-go/mcp"
)

var cacheStatusTool = &tool{
	name: "cache_status", title: "Cache status", reads: true, idempotent: true,
	desc:   "Mount, capture, store and tokens saved.",
	output: reflect.TypeFor[statusFacts](),
	handler: with(func(ctx context.Context, c *call, _ noArgs) (*mcp.CallToolResult, error) {
		st, err := c.s.status(ctx)
		if err != nil {
			return nil, err
		}
		return mcp.NewToolResultStructured(st, st.String()), nil
	}),
}

// statusFacts is what cache_status and cachebro://status report, as fields and as text.
type statusFacts struct {
	Version       string  `json:"version"`
	Root          string  `json:"root,required"`
	Mounted       bool    `json:"mounted,required"`
	Mountpoint    string  `json:"mountpoint"`
	Capture       string  `json:"capture,required"`
	CaptureReason string  `json:"capture_reason"`
	Baseline      string  `json:"baseline"`
	BaselineFiles int     `json:"baseline_files"`
	BaselineTotal int     `json:"baseline_total"`
	Files         uint64  `json:"files_tracked,required"`
	Versions      uint64  `json:"versions"`
	DiskBytes     int64   `json:"disk_bytes"`
	Healthy       bool    `json:"store_healthy"`
	StoreReason   string  `json:"store_reason"`
	Gaps          int64   `json:"gaps"`
	Saved         int64   `json:"tokens_saved,required"`
	Percent       float64 `json:"percent,required"`
}

func (s *Server) status(ctx context.Context) (statusFacts, error) {
	var st wire.Status
	if _, err := s.backend.ask(ctx, wire.MStatus, wire.Empty{}, nil, &st); err != nil {
		return statusFacts{}, err
	}
	var m wire.Metrics
	if _, err := s.backend.ask(ctx, wire.MMetrics, wire.MetricsQuery{}, nil, &m); err != nil {
		return statusFacts{}, err
	}
	f := statusFacts{
		Version: st.Version, Root: st.Root, Mounted: st.Mounted, Mountpoint: st.Mountpoint,
		Capture: st.Capture.State, CaptureReason: st.Capture.Reason,
		BaselineFiles: st.Baseline.Files, BaselineTotal: st.Baseline.Total,
		Files: st.Store.Files, Versions: st.Store.Versions, DiskBytes: st.Store.DiskBytes,
		Healthy: st.Store.Healthy, StoreReason: st.Store.Reason, Gaps: st.GapCount,
		Saved: m.Saved, Percent: m.Percent, Baseline: "not begun",
	}
	switch {
	case st.Baseline.Running:
		f.Baseline = "running"
	case st.Baseline.Done:
		f.Baseline = "done"
	}
	f.Capture = cmp.Or(f.Capture, "not mounted")
	return f, nil
}

func (f statusFacts) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cachebro %s · %s", f.Version, quote(f.Root))
	if f.Mounted {
		fmt.Fprintf(&b, "\nmounted at %s", quote(f.Mountpoint))
	} else {
		b.WriteString("\nnot mounted: files are checked when they are read")
	}
	fmt.Fprintf(&b, "\ncapture: %s%s", f.Capture, because(f.CaptureReason))
	fmt.Fprintf(&b, "\nbaseline: %s, %s of %s files", f.Baseline, text.Thousands(int64(f.BaselineFiles)), text.Thousands(int64(f.BaselineTotal)))
	health := "healthy"
	if !f.Healthy {
		health = "not healthy" + because(f.StoreReason)
	}
	fmt.Fprintf(&b, "\nstore: %s files tracked, %s versions, %s bytes, %s", text.Thousands(int64(f.Files)), text.Thousands(int64(f.Versions)), text.Thousands(f.DiskBytes), health)
	fmt.Fprintf(&b, "\ngaps: %s", text.Thousands(f.Gaps))
	fmt.Fprintf(&b, "\n~%s tokens saved (%.1f%%)", text.Thousands(f.Saved), f.Percent)
	return b.String()
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + clean(reason) + ")"
}

var deltaMetricsTool = &tool{
	name: "get_delta_metrics", title: "Tokens saved since last asked",
	desc:   "What was saved since the last call.",
	output: reflect.TypeFor[wire.Metrics](),
	handler: with(func(ctx context.Context, c *call, _ noArgs) (*mcp.CallToolResult, error) {
		m, err := c.s.metrics(ctx, wire.MetricsQuery{Delta: true})
		if err != nil {
			return nil, err
		}
		return mcp.NewToolResultStructured(m, metricsText(m)), nil
	}),
}

func (s *Server) metrics(ctx context.Context, q wire.MetricsQuery) (wire.Metrics, error) {
	var m wire.Metrics
	_, err := s.backend.ask(ctx, wire.MMetrics, q, nil, &m)
	if m.Tools == nil {
		m.Tools = []wire.ToolMetric{} // an array in JSON even if empty
	}
	return m, err
}

// metricsText renders everything in the structured form.
func metricsText(m wire.Metrics) string {
	var b strings.Builder
	fmt.Fprintf(&b, "~%s tokens saved (%.1f%%) in %s calls: %s without cachebro, %s sent, %s overhead",
		text.Thousands(m.Saved), m.Percent, text.Thousands(int64(m.Calls)), text.Thousands(m.Full), text.Thousands(m.Sent), text.Thousands(m.Overhead))
	fmt.Fprintf(&b, "\n%d unchanged, %d diffs", m.Cached, m.Diffs)
	if m.Contexts > 0 {
		fmt.Fprintf(&b, ", schema in %d contexts", m.Contexts)
	}
	for _, t := range m.Tools {
		fmt.Fprintf(&b, "\n  %-18s %4dx · %s -> %s · %s saved", quote(t.Tool), t.Calls, text.Thousands(t.Full), text.Thousands(t.Sent), text.Thousands(t.Saved))
	}
	if m.Session != "" {
		fmt.Fprintf(&b, "\nsession %s", quote(m.Session))
	}
	return b.String()
}

var cacheClearTool = &tool{
	name: "cache_clear", title: "Forget what was sent", idempotent: true,
	desc: "The next read of each file gives its full text. History is kept.",
	handler: with(func(ctx context.Context, c *call, _ noArgs) (*mcp.CallToolResult, error) {
		if c.reader == (wire.Reader{}) {
			return textResult("cachebro does not record what this connection was sent, so every read gives the full text. History is kept"), nil
		}
		r := c.reader
		if _, err := c.s.backend.ask(ctx, wire.MForget, r, nil, &r); err != nil {
			return nil, err
		}
		for _, s := range c.s.opened() {
			if s == c.s {
				continue
			}
			if _, err := s.backend.ask(ctx, wire.MForget, r, nil, nil); err != nil {
				return nil, err
			}
		}
		return textResult("cleared: the next read of each file gives its full text. History is kept"), nil
	}),
}
