package reshape

import (
	"strconv"
	"strings"

	"cachebro/store/expr"
)

// A terminal shows no colours' codes, and of a bar that drew itself a hundred times
// only the last. A line that has colours only loses their codes, and nothing else;
// where something is drawn over, what remains is drawn on a screen as wide and high
// as the text, on which nothing is wrapped and nothing scrolls away.
//
// The screen knows only what all terminals agree on; a text with anything else is
// left alone. It is ours because hooks start in milliseconds and an emulator's
// package brings what they would wait for; the tests hold it against one
// (buildkite/terminal-to-html, made for the logs of builds).

const (
	maxDrawn = 256 << 10 // bytes that are drawn
	maxCells = 1 << 20   // of the screen
)

const knownExpr = "\x1b\\[(?:[0-9;]*m|[012]?K|0?J|[0-9]{0,3}[ABCDG]|\\?25[hl])"

var (
	colours = expr.Lazy("\x1b\\[[0-9;]*m")
	// known are the sequences that terminals agree on: colours, erasing, moving in
	// relation to where the cursor is, showing and hiding it.
	known = expr.Lazy(knownExpr)
	next  = expr.Lazy("^(?:" + knownExpr + ")")
	// moves leave their line.
	moves = expr.Lazy("\x1b\\[(?:0?J|[0-9]*[AB])")
)

func terminal(c *command, text string) (string, string, bool) {
	if !strings.ContainsAny(text, "\x1b\r\b") {
		return "", "", false
	}
	if moves().MatchString(text) {
		drawn, ok := draw(text)
		return drawn, "", ok && drawn != text
	}
	lines, last := splitLines(text)
	for i, l := range lines {
		body, crlf := strings.CutSuffix(l, "\r")
		if !strings.ContainsAny(body, "\x1b\r\b") {
			continue
		}
		plain := colours().ReplaceAllString(body, "")
		if strings.ContainsAny(plain, "\x1b\r\b") {
			var ok bool
			if plain, ok = draw(body); !ok {
				return "", "", false
			}
		}
		if crlf {
			plain += "\r"
		}
		lines[i] = plain
	}
	out := joinLines(lines, last)
	return out, "", out != text
}

// draw is what a terminal shows of a text; ok: it has nothing in it that terminals
// take differently.
func draw(text string) (string, bool) {
	if len(text) > maxDrawn {
		return "", false
	}
	for _, r := range known().ReplaceAllString(text, "") {
		if r < ' ' && r != '\n' && r != '\r' && r != '\b' || r == 0x7f || !narrow(r) {
			return "", false
		}
	}
	var s screen
	for len(text) > 0 {
		if at := next().FindStringIndex(text); at != nil {
			if !s.act(text[2:at[1]-1], text[at[1]-1]) {
				return "", false
			}
			text = text[at[1]:]
			continue
		}
		n := strings.IndexByte(text, '\x1b')
		if n < 0 {
			n = len(text)
		}
		if !s.write(text[:n]) {
			return "", false
		}
		text = text[n:]
	}
	return s.text(), true
}

// screen is what has been drawn; the cursor stands at column x of row y.
type screen struct {
	rows  [][]rune
	x, y  int
	cells int
}

func (s *screen) write(text string) bool {
	for _, r := range text {
		switch r {
		case '\n':
			s.x, s.y = 0, s.y+1
			s.row() // a line that is ended is there
			continue
		case '\r':
			s.x = 0
			continue
		case '\b':
			s.x = max(0, s.x-1)
			continue
		}
		row := s.row()
		for len(*row) <= s.x {
			*row = append(*row, ' ')
			s.cells++
		}
		(*row)[s.x] = r
		s.x++
		if s.cells > maxCells {
			return false
		}
	}
	return true
}

// row is the cursor's.
func (s *screen) row() *[]rune {
	for len(s.rows) <= s.y {
		s.rows = append(s.rows, nil)
	}
	return &s.rows[s.y]
}

// act does what a sequence says. Where it leads off the screen, terminals differ.
func (s *screen) act(args string, what byte) bool {
	n, err := strconv.Atoi(args)
	if err != nil || n == 0 {
		n = 1
	}
	row := s.row()
	switch what {
	case 'A':
		s.y -= n
	case 'B':
		s.y += n
		return s.y < len(s.rows) // not below what is there
	case 'C':
		s.x += n
	case 'D':
		s.x -= n
	case 'G':
		s.x = n - 1
	case 'J':
		*row = (*row)[:min(s.x, len(*row))]
		for i := s.y + 1; i < len(s.rows); i++ {
			s.rows[i] = nil
		}
	case 'K':
		switch args {
		case "", "0":
			*row = (*row)[:min(s.x, len(*row))]
		case "1":
			for i := range min(s.x+1, len(*row)) {
				(*row)[i] = ' '
			}
		case "2":
			*row = nil
		}
	}
	return s.x >= 0 && s.y >= 0
}

// text is what is seen: blanks behind a line are not.
func (s *screen) text() string {
	var b strings.Builder
	for i, row := range s.rows {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(strings.TrimRight(string(row), " "))
	}
	return b.String()
}

// narrow: one column in every terminal.
func narrow(r rune) bool {
	switch {
	case r < 0x300 && r != 0xad && (r < 0x80 || r >= 0xa0):
		return true
	case r >= 0x2010 && r <= 0x2027, r >= 0x2190 && r <= 0x21ff, r >= 0x2500 && r <= 0x25ff, r >= 0x2800 && r <= 0x28ff, r == 0x2713, r == 0x2714, r == 0x2715, r == 0x2717, r == 0x2718, r == 0x276f:
		return true
	}
	return false
}
