package reshape

import (
	"fmt"
	"strconv"
	"strings"
)

// Consecutive lines that differ only in numbers that grow by one become one line with the range of
// each number. Other numbers stay, because a column of bare values is harder to read than the
// lines.
//
//	[cachebro: 50 lines "migrating record {1..50} (batch 7): ok"]

const (
	minRun   = 8 // shorter runs between other lines are harder to read
	maxSlots = 12
)

func numbers(c *command, text string) (string, string, bool) {
	lines, last := splitLines(text)
	var b strings.Builder
	changed := false
	for i := 0; i < len(lines); {
		n := runAt(lines[i:])
		size := 0
		for _, l := range lines[i : i+n] {
			size += len(l) + 1
		}
		if n >= minRun {
			replacement := runLine(lines[i], lines[i+n-1], n)
			if len(replacement)+100 < size && 4*len(replacement) < 3*size {
				i += n
				changed = true
				writeLine(&b, replacement, i == len(lines), last)
				continue
			}
		}
		for ; n > 0; n-- {
			writeLine(&b, lines[i], i == len(lines)-1, last)
			i++
		}
	}
	return b.String(), "", changed
}

// runAt returns how many of the first lines differ only in numbers that grow by one. It returns at
// least 1.
func runAt(lines []string) int {
	skeleton, first := skeletonOf(lines[0])
	var grows []bool
	n := 1
	for prev := first; len(first) > 0 && n < len(lines); n++ {
		s, row := skeletonOf(lines[n])
		if s != skeleton {
			break
		}
		if grows == nil {
			grows = make([]bool, len(row))
			for k := range row {
				grows[k] = row[k] != prev[k]
			}
		}
		if !steps(prev, row, grows) {
			break
		}
		prev = row
	}
	return n
}

// steps reports whether each growing number is one more than in the line before, without leading
// zeros, and every other number is unchanged.
func steps(before, row []string, grows []bool) bool {
	for k, grow := range grows {
		if !grow {
			if row[k] != before[k] {
				return false
			}
			continue
		}
		n, err := strconv.Atoi(before[k])
		if err != nil || strconv.Itoa(n) != before[k] || strconv.Itoa(n+1) != row[k] {
			return false
		}
	}
	return true
}

// slot stands for a number in a skeleton. No text contains it.
const slot = "\x00"

// skeletonOf returns a line with slots for its numbers, and the numbers.
func skeletonOf(l string) (string, []string) {
	if strings.ContainsAny(l, "{}\x1b") || len(l) < 8 || len(l) > 2000 {
		return "", nil
	}
	var b strings.Builder
	var nums []string
	letters := 0
	for i := 0; i < len(l); {
		n := digits(l[i:])
		if n == 0 {
			if c := l[i] | 0x20; c >= 'a' && c <= 'z' {
				letters++
			}
			b.WriteByte(l[i])
			i++
			continue
		}
		if n > 15 || len(nums) == maxSlots {
			return "", nil
		}
		nums = append(nums, l[i:i+n])
		b.WriteString(slot)
		i += n
	}
	if letters < 4 {
		return "", nil // a table of numbers stays as it is
	}
	return b.String(), nums
}

// runLine returns the line that replaces a run of n lines, which have the same skeleton.
func runLine(first, final string, n int) string {
	skeleton, from := skeletonOf(first)
	_, to := skeletonOf(final)
	parts := strings.Split(skeleton, slot)
	var line strings.Builder
	for k := range from {
		line.WriteString(parts[k])
		if from[k] == to[k] {
			line.WriteString(from[k])
		} else {
			line.WriteString("{" + from[k] + ".." + to[k] + "}")
		}
	}
	line.WriteString(parts[len(parts)-1])
	return fmt.Sprintf("[%s%d lines %q]", Mark, n, line.String())
}

// unnumber is the inverse of numbers.
func unnumber(text string) (string, bool) {
	lines, last := splitLines(text)
	var out []string
	for i := 0; i < len(lines); i++ {
		l := lines[i]
		rest, ok := strings.CutPrefix(l, "["+Mark)
		count, rest, ok2 := strings.Cut(rest, " lines ")
		n, _ := strconv.Atoi(count) // 0 if count is no number, the largest int if count is larger
		if !ok || !ok2 || n < 1 || n > MaxText {
			out = append(out, l)
			continue
		}
		form, err := strconv.Unquote(strings.TrimSuffix(rest, "]"))
		if err != nil {
			return "", false
		}
		for k := range n {
			line, ok := fill(form, k)
			if !ok {
				return "", false
			}
			out = append(out, line)
		}
	}
	return joinLines(out, last), true
}

// fill returns the k-th line of a run. form is the line that replaced the run.
func fill(form string, k int) (string, bool) {
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(form, "{")
		b.WriteString(before)
		if !ok {
			return b.String(), true
		}
		what, rest, ok := strings.Cut(after, "}")
		first, _, stepping := strings.Cut(what, "..")
		n, err := strconv.Atoi(first)
		if !ok || !stepping || err != nil {
			return "", false
		}
		b.WriteString(strconv.Itoa(n + k))
		form = rest
	}
}
