package reshape

import (
	"fmt"
	"slices"
	"strings"
)

// A block of lines that stood before is said by its size, first and last line:
//
//	[cachebro: here again the 24 lines from "=== a" to "--- b" above]
//
// and one line many times in a row by how often:
//
//	[cachebro: the line above 48 more times]

const (
	minBlock  = 3  // lines
	minSpared = 60 // bytes, by what stands for a block
	quoted    = 48 // bytes of a line that are named
	minTimes  = 3
)

func repeats(c *command, text string) (string, string, bool) {
	lines, last := splitLines(text)
	type key [minBlock]string
	at := map[key]int{} // the last place where so many lines stood
	var b strings.Builder
	changed := false
	starts := places{}
	noted := 0 // lines before this are in starts, and blocks of them in at
	for i := 0; i < len(lines); {
		for ; noted < i; noted++ {
			starts.add(lines[noted], noted)
			if k := noted - minBlock + 1; k >= 0 {
				at[key(lines[k:noted+1])] = k
			}
		}
		if i > 0 && lines[i] == lines[i-1] {
			n := 1
			for i+n < len(lines) && lines[i+n] == lines[i] {
				n++
			}
			if said := fmt.Sprintf("[%sthe line above %d more times]", Mark, n); n >= minTimes && len(said) < n*(len(lines[i])+1) {
				i += n
				writeLine(&b, said, i == len(lines), last)
				changed = true
				continue
			}
		}
		if i+minBlock <= len(lines) {
			if j, ok := at[key(lines[i:i+minBlock])]; ok {
				n, size := 0, 0
				for i+n < len(lines) && j+n < i && lines[i+n] == lines[j+n] {
					size += len(lines[i+n]) + 1
					n++
				}
				said := ""
				if n >= minBlock {
					said = fmt.Sprintf("[%shere again the %d lines from %q to %q above]", Mark, n, named(lines[j]), named(lines[j+n-1]))
				}
				if said != "" && size > len(said)+minSpared && strings.TrimSpace(lines[i]) != "" && starts.find(lines[:i], n, named(lines[j]), named(lines[j+n-1]), lines[j:j+n]) {
					i += n
					writeLine(&b, said, i == len(lines), last)
					changed = true
					continue
				}
			}
		}
		writeLine(&b, lines[i], i == len(lines)-1, last)
		i++
	}
	return b.String(), "", changed
}

// named is as much of a line as is said of it.
func named(l string) string {
	if len(l) <= quoted {
		return l
	}
	return strings.ToValidUTF8(l[:quoted], "")
}

// unrepeat is the inverse of repeats: the block meant is the last one of that size
// that begins and ends so.
func unrepeat(text string) (string, bool) {
	lines, last := splitLines(text)
	var out []string
	starts := places{}
	add := func(ls ...string) {
		for _, l := range ls {
			starts.add(l, len(out))
			out = append(out, l)
		}
	}
	for _, l := range lines {
		var n int
		var from, to string
		if _, err := fmt.Sscanf(l, "["+Mark+"the line above %d more times]", &n); err == nil && len(out) > 0 && n < MaxText {
			for range n {
				add(out[len(out)-1])
			}
			continue
		}
		if _, err := fmt.Sscanf(l, "["+Mark+"here again the %d lines from %q to %q above]", &n, &from, &to); err != nil || n < 1 {
			add(l)
			continue
		}
		j, ok := starts.meant(out, n, from, to)
		if !ok {
			return "", false
		}
		add(slices.Clone(out[j : j+n])...)
	}
	return joinLines(out, last), true
}

// places are where lines stand that begin so.
type places map[string][]int

func (p places) add(l string, at int) { p[named(l)] = append(p[named(l)], at) }

// maxLook is how many places are looked at.
const maxLook = 64

// meant is where the block stands that is named by its size, first and last line:
// the last one of these.
func (p places) meant(lines []string, n int, from, to string) (int, bool) {
	at := p[from]
	for k := len(at) - 1; k >= max(0, len(at)-maxLook); k-- {
		if j := at[k]; j+n <= len(lines) && named(lines[j+n-1]) == to {
			return j, true
		}
	}
	return 0, false
}

// find reports whether the block that is meant is this one.
func (p places) find(lines []string, n int, from, to string, block []string) bool {
	j, ok := p.meant(lines, n, from, to)
	return ok && slices.Equal(lines[j:j+n], block)
}
