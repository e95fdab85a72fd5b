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

var deltaMetricsTool = &tool{
	name: "get_delta_metrics", title: "Tokens saved since last asked", profile: ProfileAll,
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
