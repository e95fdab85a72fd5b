package reshape

import (
	"fmt"
	"strings"

	"cachebro/store/expr"
	"cachebro/store/text"
)

// The lines of tests that passed are folded where everything passed: what is left
// says how many they were. Lines that a test printed stay, with the line that names
// the test before them.

// passed says what a line is about a test that passed, in the words of the usual
// runners: its beginning, or that it passed.
var (
	testStarts = expr.Lazy(`^\s*=== (?:RUN|PAUSE|CONT|NAME)\s`)
	testPassed = expr.Lazy(`^\s*(?:--- PASS: \S+ \([0-9.]+s\)|\S+::.* PASSED(?:\s+\[\s*\d+%\])?\s*|[✓✔√] .*|test \S.* \.\.\. ok|\w+ \([\w.]+\)(?: \.\.\.)? ok)$`)
	// Any of these, and not everything passed.
	testFailed = expr.Lazy(`(?m)^\s*--- FAIL|^FAIL\b|^\s*FAIL\s|panic:|DATA RACE|FAILED|FAILURES|\bERRORS?\b|^\s*[✕✗✖×] |●|failures:|[1-9][0-9]* (?:failed|failing|errors?|failures?)\b|npm ERR!|make(?:\[\d+\])?: \*\*\*|fatal|Traceback|timed out|Error:|error\[|error:|\[build failed\]|not ok `)
)

const minTests = 5 // that passed, for a text to be worth it

func tests(c *command, output string) (string, string, bool) {
	if c.failed {
		return "", "", false
	}
	lines, last := splitLines(output)
	status := make([]bool, len(lines))
	var others strings.Builder
	total := 0
	for i, l := range lines {
		if !strings.Contains(l, "PASS") && !strings.Contains(l, "=== ") && !strings.Contains(l, "ok") && !strings.ContainsAny(l, "✓✔√") {
			others.WriteString(l + "\n")
			continue
		}
		pass := testPassed().MatchString(l)
		if status[i] = pass || testStarts().MatchString(l); !status[i] {
			others.WriteString(l + "\n")
		} else if pass {
			total++
		}
	}
	if total < minTests || testFailed().MatchString(others.String()) {
		return "", "", false
	}
	// A line before what a test printed names the test.
	for i := range lines {
		if status[i] && i+1 < len(lines) && !status[i+1] && belongs(lines[i], lines[i+1]) {
			status[i] = false
		}
	}
	var out []string
	folded := 0
	for i := 0; i < len(lines); {
		n, passes := 0, 0
		for ; i+n < len(lines) && status[i+n]; n++ {
			if testPassed().MatchString(lines[i+n]) {
				passes++
			}
		}
		if n < 2 || passes == 0 {
			out = append(out, lines[i:i+max(n, 1)]...)
			i += max(n, 1)
			continue
		}
		out = append(out, fmt.Sprintf("[%s%s folded]", Mark, text.Count(passes, "passed test")))
		folded += passes
		i += n
	}
	if folded < minTests {
		return "", "", false
	}
	return joinLines(out, last), fmt.Sprintf("%d passed tests folded", folded), true
}

// belongs: next is what the test of this line printed, and not the runner's.
func belongs(l, next string) bool {
	if strings.TrimSpace(next) == "" {
		return false
	}
	if testStarts().MatchString(l) {
		return true
	}
	indent := func(s string) int { return len(s) - len(strings.TrimLeft(s, " \t")) }
	return indent(next) > indent(l)
}
