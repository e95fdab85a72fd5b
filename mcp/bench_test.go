package mcp

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkReread measures a second read over the pipe, including the daemon. The file is
// unchanged, or one of its lines has changed. Before each measured read, a forced read gets the
// full text, because an unforced second request would get it too. The forced read is not timed.
func BenchmarkReread(b *testing.B) {
	for _, size := range []int{2, 20, 60} {
		text := numbered(size*1024/60, "line")
		for kind, prefix := range map[string]string{"unchanged": "[unchanged", "diff": "[changed"} {
			b.Run(fmt.Sprintf("%s/%dkB", kind, size), func(b *testing.B) {
				l := liveProject(b, files{"a.txt": text})
				p := l.connect(ProfileDefault)
				var took []time.Duration
				for i := 0; b.Loop(); i++ {
					b.StopTimer()
					full := map[string]any{"path": "a.txt", "force": true}
					p.ok("read_file", full)
					if kind == "diff" {
						write(b, l.dir+"/a.txt", strings.Replace(text, "line 5:", fmt.Sprintf("line %d five:", i), 1))
					}
					b.StartTimer()
					start := time.Now()
					got := p.ok("read_file", at("a.txt"))
					took = append(took, time.Since(start))
					if !strings.HasPrefix(got, prefix) {
						b.Fatalf("got %.80q", got)
					}
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			})
		}
	}
}
