package tokens

import "strconv"

// Format prints an amount for a label: "~1.8k" from 1,000 on, else "~87".
// Negative amounts keep their sign: "~-87".
func Format(n int) string {
	if n >= 1000 || n <= -1000 {
		return "~" + strconv.FormatFloat(float64(n)/1000, 'f', 1, 64) + "k"
	}
	return "~" + strconv.Itoa(n)
}

// Thousands prints an amount for a report, with separators: "45,230".
func Thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}
