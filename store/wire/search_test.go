package wire

import (
	"strings"
	"testing"
)

func TestAround(t *testing.T) {
	long := strings.Repeat("a", 300) + "needle" + strings.Repeat("b", 300)
	for _, tc := range []struct {
		h    SearchHit
		want string
	}{
		{SearchHit{Text: "short needle\r"}, "short needle"},
		{SearchHit{Text: long, At: 302}, "…" + long[252:352] + "… [bytes 252-352 of 606]"},
		{SearchHit{Text: long, At: 10}, long[:100] + "… [bytes 0-100 of 606]"},
		{SearchHit{Text: long, At: 604}, "…" + long[506:] + " [bytes 506-606 of 606]"},
		{SearchHit{Text: long, At: 302, Before: 1000, LineBytes: 5000}, "…" + long[252:352] + "… [bytes 1252-1352 of 5000]"},
		{SearchHit{Text: "needle", Before: 1000, LineBytes: 5000}, "…needle… [bytes 1000-1006 of 5000]"},
	} {
		if got := tc.h.Around(100); got != tc.want {
			t.Errorf("got  %q\nwant %q", got, tc.want)
		}
	}
}
