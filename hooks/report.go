package hooks

import (
	"fmt"
	"strings"

	"cachebro/store/wire"
)

const (
	styleLabel  = "1;36" // cyan bold
	styleSaved  = "32"   // green
	styleNone   = "2;90" // dim grey
	styleDim    = "2"
	styleTotal  = "1;32" // bold green
	styleStrong = "1"
)

// SessionReport is shown when a session ends and by "cachebro metrics". Colours
// only when color is set.
func SessionReport(m wire.Metrics, branch string, color bool) string {
	paint := func(style, s string) string {
		if !color || s == "" {
			return s
		}
		return "\x1b[" + style + "m" + s + "\x1b[0m"
	}
	rule := paint(styleDim, strings.Repeat("─", 50)) + "\n"
	var b strings.Builder
	b.WriteString(rule)
	b.WriteString(" " + paint(styleLabel, "cachebro") + "  ·  session complete")
	if branch = clean(branch); branch != "" {
		b.WriteString("  ·  " + paint(styleDim, branch))
	}
	b.WriteString("\n" + rule)
	for _, t := range m.Tools {
		fmt.Fprintf(&b, "  %-16s%5dx  →", clean(t.Tool), t.Calls)
		if t.Saved == 0 {
			// One column less than the others: as in the text's first design.
			fmt.Fprintf(&b, "  %s tokens saved\n", paint(styleNone, fmt.Sprintf("%7s", "0")))
			continue
		}
		style := styleSaved
		if t.Saved < 0 {
			style = styleNone
		}
		fmt.Fprintf(&b, "  %s tokens saved\n", paint(style, fmt.Sprintf("%8s", amount(t.Saved))))
	}
	b.WriteString(rule)
	b.WriteString("  " + paint(styleTotal, fmt.Sprintf("Total: %s tokens saved", amount(m.Saved))))
	if m.Full > 0 {
		b.WriteString("  (" + paint(styleStrong, fmt.Sprintf("%.1f%%", m.Percent)) + ")")
	}
	b.WriteString("\n" + rule)
	return b.String()
}
