package reshape

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkOutput: a hook may take 6 ms for 30 kB and 25 ms for 1 MB, including its process.
func BenchmarkOutput(b *testing.B) {
	for _, size := range []int{30 << 10, 1 << 20} {
		fill := func(line string) string {
			var s strings.Builder
			for i := 0; s.Len() < size; i++ {
				fmt.Fprintf(&s, line, i/20, i, i%7)
			}
			return s.String()
		}
		for _, c := range []struct{ name, command, line string }{
			{"search", "rg -n x", "src/dir/file%d.go:%d:\tif x == %d {\n"},
			{"tree", "find .", "./src/some/dir%d/file%d_%d.go\n"},
			{"tests", "go test -v ./...", "=== RUN   TestSome%d_%d\n--- PASS: TestSome (0.0%ds)\n"},
			{"numbers", "make", "compiling %d of %d parts in %d ms\n"},
			{"terminal", "npm install", "\x1b[32mpart %d of %d\x1b[0m\r\x1b[Kdone %d\n"},
			{"nothing", "make", "%d: a text %d in which nothing repeats but %d numbers\n\n"},
		} {
			text := fill(c.line)
			b.Run(fmt.Sprintf("%s/%dk", c.name, size>>10), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				for range b.N {
					Output(c.command, text, Options{})
				}
			})
		}
	}
}
