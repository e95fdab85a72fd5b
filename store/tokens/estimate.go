package tokens

import "unsafe"

// Estimate returns the approximate number of o200k_base tokens of b. It is 0 only for an empty b.
func Estimate(b []byte) int {
	sum := 0
	for i := 0; i < len(b); {
		end, cost := next(b, i)
		sum += cost
		i = end
	}
	return rounded(sum, len(b))
}

// next returns the end of the piece at b[i], and its cost in units.
func next(b []byte, i int) (end, cost int) {
	end, shape, n := piece(b, i)
	if n <= longest {
		return end, int(costs[shape][n])
	}
	return end, int(costs[shape][longest]) + (n-longest)*perExtra[shape]
}

// rounded converts units to tokens, at least 1 for a text that is not empty.
func rounded(sum, size int) int {
	return max((sum+unit/2)/unit, min(1, size))
}

// EstimateString is like Estimate, but takes a string. It does not copy the string.
func EstimateString(s string) int {
	return Estimate(unsafe.Slice(unsafe.StringData(s), len(s)))
}
