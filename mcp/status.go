package mcp

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"cachebro/store/leaf/text"
	"cachebro/store/wire"

	"github.com/mark3labs/mcp-go/mcp"
)

var cacheStatusTool = &tool{
	name: "cache_status", title: "Cache status", profile: ProfileAll, reads: true, idempotent: true,
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
	if f.Capture == "" {
		f.Capture = "not mounted"
	}
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
