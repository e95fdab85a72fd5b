package reshape

import (
	"fmt"
	"strconv"
	"strings"
)

// Lines in a row that differ in their numbers only are said by the line they have
// in common. A number that grows by one from line to line stands as its first and
// last value, any other as {} whose values follow, one row a line:
//
//	[cachebro: 298 lines "Item {1..298} of 300 in {} ms", the values of {}:]
//	12
//	15

const (
	minRun   = 5
	maxSlots = 12
)

func numbers(c *command, text string) (string, string, bool) {
	lines, last := splitLines(text)
	var b strings.Builder
	changed := false
	for i := 0; i < len(lines); {
		skeleton, first := skeletonOf(lines[i])
		rows := [][]string{first}
		size := len(lines[i]) + 1
		for j := i + 1; len(first) > 0 && j < len(lines); j++ {
			s, row := skeletonOf(lines[j])
			if s != skeleton {
				break
			}
			rows = append(rows, row)
			size += len(lines[j]) + 1
		}
		if n := len(rows); n >= minRun {
			said := sayRun(skeleton, rows)
			if said != "" && len(said)+100 < size && 4*len(said) < 3*size {
				i += n
				changed = true
				writeLine(&b, said, i == len(lines), last)
				continue
			}
		}
		writeLine(&b, lines[i], i == len(lines)-1, last)
		i++
	}
	return b.String(), "", changed
}

// slot stands in a skeleton for a number; no text has it.
const slot = "\x00"

// skeletonOf is a line without its numbers, and these.
func skeletonOf(l string) (string, []string) {
	if strings.ContainsAny(l, "{}") || len(l) < 8 || len(l) > 2000 {
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
		return "", nil // a table of numbers is one already
	}
	return b.String(), nums
}

// sayRun is what stands for lines of one skeleton.
func sayRun(skeleton string, rows [][]string) string {
	parts := strings.Split(skeleton, slot)
	var line strings.Builder
	var open []int
	for k := range rows[0] {
		line.WriteString(parts[k])
		first, final := rows[0][k], rows[len(rows)-1][k]
		switch {
		case steps(rows, k, 0):
			line.WriteString(first)
		case steps(rows, k, 1):
			line.WriteString("{" + first + ".." + final + "}")
		default:
			line.WriteString("{}")
			open = append(open, k)
		}
	}
	line.WriteString(parts[len(parts)-1])
	said := fmt.Sprintf("[%s%d lines %q", Mark, len(rows), line.String())
	if len(open) == 0 {
		return said + "]"
	}
	var b strings.Builder
	b.WriteString(said + ", the values of {}:]")
	for _, r := range rows {
		b.WriteByte('\n')
		for i, k := range open {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(r[k])
		}
	}
	return b.String()
}

// steps: the numbers of a column grow by so much from row to row, and are written
// without leading zeros where they grow.
func steps(rows [][]string, k, by int) bool {
	for i := 1; i < len(rows); i++ {
		if by == 0 && rows[i][k] != rows[0][k] {
			return false
		}
		if by == 0 {
			continue
		}
		a, err1 := strconv.Atoi(rows[i-1][k])
		b, err2 := strconv.Atoi(rows[i][k])
		if err1 != nil || err2 != nil || b != a+by || strconv.Itoa(a) != rows[i-1][k] || strconv.Itoa(b) != rows[i][k] {
			return false
		}
	}
	return true
}

// unnumber is the inverse of numbers.
func unnumber(text string) (string, bool) {
	lines, last := splitLines(text)
	var out []string
	for i := 0; i < len(lines); i++ {
		l := lines[i]
		rest, ok := strings.CutPrefix(l, "["+Mark)
		count, rest, ok2 := strings.Cut(rest, " lines ")
		n, err := strconv.Atoi(count)
		if !ok || !ok2 || err != nil || n < 1 || n > MaxText {
			out = append(out, l)
			continue
		}
		q, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return "", false
		}
		form, err := strconv.Unquote(q)
		if err != nil {
			return "", false
		}
		valued := rest[len(q):] == ", the values of {}:]"
		if valued && i+n >= len(lines) {
			return "", false
		}
		for k := range n {
			var row []string
			if valued {
				i++
				row = strings.Split(lines[i], " ")
			}
			line, ok := fill(form, row, k)
			if !ok {
				return "", false
			}
			out = append(out, line)
		}
	}
	return joinLines(out, last), true
}

// fill makes the k-th line of a form.
func fill(form string, row []string, k int) (string, bool) {
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(form, "{")
		b.WriteString(before)
		if !ok {
			return b.String(), len(row) == 0
		}
		what, rest, ok := strings.Cut(after, "}")
		if !ok {
			return "", false
		}
		form = rest
		if what == "" {
			if len(row) == 0 {
				return "", false
			}
			b.WriteString(row[0])
			row = row[1:]
			continue
		}
		first, _, _ := strings.Cut(what, "..")
		n, err := strconv.Atoi(first)
		if err != nil {
			return "", false
		}
		b.WriteString(strconv.Itoa(n + k))
	}
}
