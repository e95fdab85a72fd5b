package tokens

import "strconv"

// Format formats an amount for a label: "~1.8k" from 1,000, otherwise "~87". Negative amounts keep
// their sign: "~-87".
func Format(n int) string {
	if n >= 1000 || n <= -1000 {
		return "~" + strconv.FormatFloat(float64(n)/1000, 'f', 1, 64) + "k"
	}
	return "~" + strconv.Itoa(n)
}
