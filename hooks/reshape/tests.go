package reshape

import (
	"fmt"
	"strings"

	"cachebro/store/leaf/expr"
	"cachebro/store/leaf/text"
)

// The lines of tests that passed are folded where the runner itself says at the end
// that all of them did: what is left says how many they were. A run that was cut off
// or crashed says no such thing, whatever its status was. Lines that a test printed
// stay, with the line that names the test before them.

// Lines in the words of the usual runners; a task runner may put the name of the task
// in brackets before each.
var (
	testStarts = expr.Lazy(`^(?:\[\S+\] )?\s*=== (?:RUN|PAUSE|CONT|NAME)\s`)
	testPassed = expr.Lazy(`^(?:\[\S+\] )?\s*(?:--- PASS: \S+ \([0-9.]+s\)|\S+::.* PASSED(?:\s+\[\s*\d+%\])?\s*|PASSED \S+::\S.*|[✓✔√] .*|\(pass\) .*|test \S.* \.\.\. ok|\w+ \([\w.]+\)(?: \.\.\.)? ok)$`)
	// allPassed is how a runner ends when every test passed: go, pytest, cargo, nextest,
	// unittest, jest, vitest, mocha, node, bun, playwright.
	allPassed = expr.Lazy(`^(?:\[\S+\] )?(?:PASS|ok  \t\S+\t.*|=* ?\d+ passed\b.* in [0-9.]+s.*|test result: ok\. .*|\s*Summary \[.*\] *\d+ tests? run: \d+ passed.*|OK(?: \(.*\))?|Tests: +(?:\d+ (?:skipped|todo), )*\d+ passed, \d+ total|\s*Tests  ?\d+ passed.*|\s+\d+ passing\b.*|ℹ fail 0|\s*0 fail|\s+\d+ passed \(.*\))$`)
	// Any of these, and not everything passed.
	testFailed = expr.Lazy(`(?m)^\s*--- FAIL|^FAIL\b|^\s*FAIL\s|\(fail\)|panic:|DATA RACE|FAILED|FAILURES|\bERRORS?\b|^\s*[✕✗✖×❯] |●|failures:|[1-9][0-9]* (?:failed|failing|fail|errors?|failures?)\b|npm ERR!|make(?:\[\d+\])?: \*\*\*|fatal|Traceback|timed out|Error:|error\[|error:|\[build failed\]|not ok |core dumped|Segmentation fault|\bKilled\b|\bAborted\b|exit(?:ed)?(?: with)? (?:status|code):? -?[1-9]`)
)

const minTests = 5 // that passed, for a text to be worth it

func tests(c *command, output string) (string, string, bool) {
	if c.failed {
		return "", "", false
	}
	lines, last := splitLines(output)
	status := make([]bool, len(lines))
	var others strings.Builder
	total, open := 0, 0 // open: passed, and no end of the run has said so yet
	for i, l := range lines {
		pass := testPassed().MatchString(l)
		switch status[i] = pass || testStarts().MatchString(l); {
		case pass:
			total, open = total+1, open+1
		case status[i]:
			open++
		default:
			others.WriteString(l + "\n")
			if allPassed().MatchString(l) {
				open = 0
			}
		}
	}
	if total < minTests || open > 0 || testFailed().MatchString(others.String()) {
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
