package reshape

import (
	"fmt"
	"slices"
	"strings"
)

// A block of lines that occurs again gets a number at its first occurrence. Later occurrences are
// replaced by that number:
//
//	[cachebro: block 1, 24 lines:]
//	[cachebro: block 1 again, 24 lines, "=== a" to "--- b"]
//
// One line that occurs many times in a row is replaced by a count:
//
//	[cachebro: the line above 48 more times]

const (
	minBlock  = 3   // lines
	minSpared = 100 // bytes that replacing a block must save, in addition to the line with its number
	quoted    = 48  // bytes of a line that are quoted
	minTimes  = 3
)

// block is a block of n lines. at is the index of the output line where it first occurs.
type block struct{ at, n int }

func repeats(c *command, text string) (string, string, bool) {
	lines, last := splitLines(text)
	type key [minBlock]string
	first := map[key]int{} // where a key's lines first occur in out
	number := map[block]int{}
	var out []string
	verbatim := 0 // the number of lines at the end of out that were copied from the text
	say := func(s string) { out, verbatim = append(out, s), 0 }
	for i := 0; i < len(lines); {
		if n := sameAs(lines, i); n >= minTimes {
			if replacement := fmt.Sprintf("[%sthe line above %d more times]", Mark, n); len(replacement) < n*(len(lines[i])+1) {
				say(replacement)
				i += n
				continue
			}
		}
		if i+minBlock <= len(lines) {
			if j, ok := first[key(lines[i:i+minBlock])]; ok && strings.TrimSpace(lines[i]) != "" {
				n, size := 0, 0
				for i+n < len(lines) && j+n < len(out) && lines[i+n] == out[j+n] {
					size += len(lines[i+n]) + 1
					n++
				}
				b := block{j, n}
				id, known := number[b]
				if !known {
					id = len(number) + 1
				}
				replacement := fmt.Sprintf("[%sblock %d again, %d lines, %q to %q]", Mark, id, n, quoteLine(lines[i]), quoteLine(lines[i+n-1]))
				if size > len(replacement)+minSpared {
					number[b] = id
					say(replacement)
					i += n
					continue
				}
			}
		}
		out = append(out, lines[i])
		i++
		verbatim++
		if k := len(out) - minBlock; verbatim >= minBlock {
			if _, ok := first[key(out[k:])]; !ok {
				first[key(out[k:])] = k
			}
		}
	}
	starts := map[int][]block{}
	for b := range number {
		starts[b.at] = append(starts[b.at], b)
	}
	var b strings.Builder
	for i, l := range out {
		marked := starts[i]
		slices.SortFunc(marked, func(x, y block) int { return number[x] - number[y] })
		for _, m := range marked {
			fmt.Fprintf(&b, "[%sblock %d, %d lines:]\n", Mark, number[m], m.n)
		}
		writeLine(&b, l, i == len(out)-1, last)
	}
	return b.String(), "", len(out) < len(lines)
}

// sameAs counts the lines from i on that equal line i-1.
func sameAs(lines []string, i int) (n int) {
	for i > 0 && i+n < len(lines) && lines[i+n] == lines[i-1] {
		n++
	}
	return n
}

// quoteLine quotes the beginning of a line.
func quoteLine(l string) string {
	if len(l) <= quoted {
		return l
	}
	return strings.ToValidUTF8(l[:quoted], "")
}

// unrepeat is the inverse of repeats.
func unrepeat(text string) (string, bool) {
	lines, last := splitLines(text)
	var out []string
	blocks := map[int]block{}
	for _, l := range lines {
		var id, n int
		if _, err := fmt.Sscanf(l, "["+Mark+"the line above %d more times]", &n); err == nil && len(out) > 0 && n < MaxText {
			for range n {
				out = append(out, out[len(out)-1])
			}
			continue
		}
		if _, err := fmt.Sscanf(l, "["+Mark+"block %d, %d lines:]", &id, &n); err == nil {
			blocks[id] = block{len(out), n}
			continue
		}
		if _, err := fmt.Sscanf(l, "["+Mark+"block %d again, ", &id); err == nil {
			b, ok := blocks[id]
			if !ok || b.at+b.n > len(out) {
				return "", false
			}
			out = append(out, out[b.at:b.at+b.n]...)
			continue
		}
		out = append(out, l)
	}
	return joinLines(out, last), true
}
