package tokens

import (
	"bytes"
	"sort"
)

// Sum is the estimate of a text. Its marks allow computing the estimate of a similar text quickly.
// It is immutable.
type Sum struct {
	size  int
	total int // in units
	marks []mark
}

// mark is the offset of a piece, and the cost in units of everything before it.
type mark struct{ at, sum int }

// minMarkDistance is the shortest distance between two marks in bytes.
const minMarkDistance = 1 << 10

// Tokens returns what Estimate returns for the text.
func (s Sum) Tokens() int { return rounded(s.total, s.size) }

// Size returns the approximate memory of the Sum in bytes.
func (s Sum) Size() int { return 16 * len(s.marks) }

// Measure returns the Sum of a text.
func Measure(b []byte) Sum {
	s := Sum{size: len(b)}
	for i := 0; i < len(b); {
		s.mark(i)
		end, cost := next(b, i)
		s.total += cost
		i = end
	}
	return s
}

// mark adds a mark at i, where a piece begins, if the last mark is far enough away.
func (s *Sum) mark(i int) {
	last := 0
	if n := len(s.marks); n > 0 {
		last = s.marks[n-1].at
	}
	if i >= last+minMarkDistance {
		s.marks = append(s.marks, mark{i, s.total})
	}
}

// Changed returns Measure(new), where s is Measure(old). It divides into pieces only the text from
// the first to the last difference, and a little around it.
func (s Sum) Changed(old, new []byte) Sum {
	if len(s.marks) == 0 || len(old) != s.size {
		return Measure(new)
	}
	prefix := commonPrefix(old, new)
	suffix := commonSuffix(old[prefix:], new[prefix:])
	shift := len(new) - len(old)
	// Where a piece ends may depend on the blanks after it and on the byte after these. A broken
	// rune may depend on the next three bytes.
	safe := prefix - 4
	for safe >= 0 && blank(old[safe]) {
		safe--
	}
	k := sort.Search(len(s.marks), func(i int) bool { return s.marks[i].at > safe })
	out := Sum{size: len(new), marks: append(make([]mark, 0, len(s.marks)+max(0, shift)/minMarkDistance+1), s.marks[:k]...)}
	i := 0
	if k > 0 {
		i, out.total = s.marks[k-1].at, s.marks[k-1].sum
	}
	for i < len(new) {
		for k < len(s.marks) && (s.marks[k].at < len(old)-suffix || s.marks[k].at+shift < i) {
			k++
		}
		if k < len(s.marks) && s.marks[k].at+shift == i {
			more := out.total - s.marks[k].sum
			for _, m := range s.marks[k:] {
				out.marks = append(out.marks, mark{m.at + shift, m.sum + more})
			}
			out.total = s.total + more
			return out
		}
		out.mark(i)
		end, cost := next(new, i)
		out.total += cost
		i = end
	}
	return out
}

func blank(c byte) bool { return class[c] == cBlank || class[c] == cLine }

func commonPrefix(a, b []byte) int {
	const step = 512
	n := 0
	for len(a) >= n+step && len(b) >= n+step && bytes.Equal(a[n:n+step], b[n:n+step]) {
		n += step
	}
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func commonSuffix(a, b []byte) int {
	const step = 512
	n := 0
	for len(a) >= n+step && len(b) >= n+step && bytes.Equal(a[len(a)-n-step:len(a)-n], b[len(b)-n-step:len(b)-n]) {
		n += step
	}
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}
