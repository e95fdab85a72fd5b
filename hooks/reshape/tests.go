package reshape

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cachebro/store/leaf/text"
)

// The lines of passed tests are replaced by their number, but only if the runner reports at the end
// that all tests passed. A run that was cut off or crashed reports no such thing. Lines that a test
// printed stay, after the line that names the test.

// runner matches the lines with which a test runner reports that a test passed and, at the end,
// that all tests passed. The final report counts only for the same runner's tests, because another
// runner may have crashed. If the report has a number of tests, it must be at least the number of
// tests that passed.
type runner struct{ passed, ended func() *regexp.Regexp }

// runners are the usual test runners. A task runner may add the task's name in brackets before each
// line.
var runners = []runner{
	{line(`\s*--- PASS: \S+ \([0-9.]+s\)`), line(`PASS|ok  \t\S+\t.*`)},
	{line(`\S+::.* PASSED(?:\s+\[\s*\d+%\])?\s*`), line(pytestEnd)},
	{line(`PASSED \S+::\S.*`), line(pytestEnd)},
	{line(`test \S.* \.\.\. ok`), line(`test result: ok\. (\d+) passed.*|\s*Summary \[.*\] *\d+ tests? run: \d+ passed.*`)},
	{line(`\w+ \([\w.]+\)(?: \.\.\.)? ok`), line(`OK(?: \(.*\))?`)},
	{line(`\(pass\) .*`), line(`\s*0 fail`)},
	// jest, vitest (which counts files and tests), mocha, node, bun, playwright.
	{line(`\s*[✓✔√] .*`), line(`Tests: +(?:\d+ (?:skipped|todo), )*(\d+) passed, \d+ total|\s*Tests  ?\d+ passed.*|\s+(\d+) passing\b.*|ℹ fail 0|\s*0 fail|\s+\d+ passed \(.*\)`)},
}

const pytestEnd = `=* ?(\d+) passed\b.* in [0-9.]+s.*`

func line(expression string) func() *regexp.Regexp {
	return text.LazyRegexp(`^(?:\[\S+\] )?(?:` + expression + `)$`)
}

// runnerOf returns the index of the runner for which l reports a passed test, or -1.
func runnerOf(l string) int {
	return slices.IndexFunc(runners, func(r runner) bool { return r.passed().MatchString(l) })
}

// endsAll reports whether l is the runner's report that all tests passed. A number in l must be at
// least passed.
func (r runner) endsAll(l string, passed int) bool {
	m := r.ended().FindStringSubmatch(l)
	return m != nil && !slices.ContainsFunc(m[1:], func(count string) bool {
		n, err := strconv.Atoi(count)
		return err == nil && n < passed
	})
}

var (
	testStarts = text.LazyRegexp(`^(?:\[\S+\] )?\s*=== (?:RUN|PAUSE|CONT|NAME)\s`)
	// Signs that not everything passed.
	testFailed = text.LazyRegexp(`(?m)^\s*--- FAIL|^FAIL\b|^\s*FAIL\s|\(fail\)|panic:|DATA RACE|FAILED|FAILURES|\bERRORS?\b|^\s*[✕✗✖×❯] |●|failures:|[1-9][0-9]* (?:failed|failing|fail|errors?|failures?)\b|npm ERR!|make(?:\[\d+\])?: \*\*\*|fatal|Traceback|timed out|Error:|error\[|error:|\[build failed\]|not ok |core dumped|Segmentation fault|\bKilled\b|\bAborted\b|exit(?:ed)?(?: with)? (?:status|code):? -?[1-9]`)
)

const minTests = 5 // passed tests that are worth folding

func tests(c *command, output string) (string, string, bool) {
	lines, last := splitLines(output)
	status := make([]bool, len(lines))
	var others strings.Builder
	total, starts := 0, 0
	open := make([]int, len(runners)) // by runner: passed tests that no final report has covered yet
	for i, l := range lines {
		by := runnerOf(l)
		switch status[i] = by >= 0 || testStarts().MatchString(l); {
		case by >= 0:
			total++
			open[by]++
		case status[i]:
			starts++
		default:
			others.WriteString(l + "\n")
			for k, r := range runners {
				if open[k] > 0 && r.endsAll(l, open[k]) {
					open[k] = 0
				}
			}
			if runners[0].endsAll(l, 0) {
				starts = 0
			}
		}
	}
	unended := starts > 0 || slices.ContainsFunc(open, func(n int) bool { return n > 0 })
	if total < minTests || unended || testFailed().MatchString(others.String()) {
		return "", "", false
	}
	// If a test printed something, keep the line before, which names the test.
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
			if runnerOf(lines[i+n]) >= 0 {
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

// belongs reports whether the line next was printed by the test that the line l names.
func belongs(l, next string) bool {
	if strings.TrimSpace(next) == "" {
		return false
	}
	if testStarts().MatchString(l) {
		return true
	}
	return len(indentOf(next)) > len(indentOf(l))
}
