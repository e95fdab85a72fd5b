// Package tokens estimates how many tokens a text costs a model, without a vocabulary. Package
// readers uses the estimates to choose between full text, diff and stub, and to count what sessions
// have saved.
//
// The text is divided into pieces like those that o200k_base makes before its byte pair encoding:
// words with one leading character, groups of three digits, punctuation, line ends, blanks. Each
// piece costs the average of pieces of its shape and length in source code. TestFit computes the
// averages, which are in costs.go. Over a code corpus the sum is within ±10 % of the real count.
// For a single short text the error can be larger.
//
// The package has no state and no locks. Estimate and Units do not allocate memory.
package tokens

import (
	"bytes"
	"strconv"
	"unsafe"
)

// Estimate returns the approximate number of o200k_base tokens of b. It is 0 only for an empty b.
func Estimate(b []byte) int { return Rounded(Units(b)) }

// Units returns the estimate of b in units. It is 0 only for an empty b.
func Units(b []byte) int {
	sum := 0
	for i := 0; i < len(b); {
		end, cost := next(b, i)
		sum += cost
		i = end
	}
	return sum
}

// Rounded converts units to tokens, at least 1 for a text that is not empty.
func Rounded(units int) int { return max((units+unit/2)/unit, min(1, units)) }

// BeginAt reports whether a piece begins at this line of every text that contains it. Then the units
// of the text before the line and those from the line on add up to those of the whole text. A piece
// goes on after a line end only with blank lines, or with slashes after punctuation.
func BeginAt(line []byte) bool {
	rest := bytes.TrimLeft(line, " \t\v\f")
	return len(rest) > 0 && class[rest[0]] != cLine && line[0] != '/'
}

// next returns the end of the piece at b[i], and its cost in units.
func next(b []byte, i int) (end, cost int) {
	end, shape, n := piece(b, i)
	if n <= longest {
		return end, int(costs[shape][n])
	}
	return end, int(costs[shape][longest]) + (n-longest)*perExtra[shape]
}

// EstimateString is like Estimate, but takes a string. It does not copy the string.
func EstimateString(s string) int {
	return Estimate(unsafe.Slice(unsafe.StringData(s), len(s)))
}

// Format formats an amount for a label: "~1.8k" from 1,000, otherwise "~87". Negative amounts keep
// their sign: "~-87".
func Format(n int) string {
	if n >= 1000 || n <= -1000 {
		return "~" + strconv.FormatFloat(float64(n)/1000, 'f', 1, 64) + "k"
	}
	return "~" + strconv.Itoa(n)
}
