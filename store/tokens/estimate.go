package tokens

import "unsafe"

// Estimate is about how many o200k_base tokens b has; 0 only for an empty b.
func Estimate(b []byte) int {
	sum := 0
	for i := 0; i < len(b); {
		end, shape, n := piece(b, i)
		if n <= longest {
			sum += int(costs[shape][n])
		} else {
			sum += int(costs[shape][longest]) + (n-longest)*perExtra[shape]
		}
		i = end
	}
	if sum == 0 && len(b) > 0 {
		return 1
	}
	return max((sum+unit/2)/unit, min(1, len(b)))
}

// EstimateString is Estimate without a copy.
func EstimateString(s string) int {
	return Estimate(unsafe.Slice(unsafe.StringData(s), len(s)))
}
