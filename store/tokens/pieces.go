package tokens

import "unicode/utf8"

// Byte classes.
const (
	cPunct = iota
	cUpper
	cLower
	cDigit
	cBlank // space, tab, vertical tab, form feed
	cLine  // \n, \r
	cWide  // first or later byte of a multi-byte rune, or invalid
)

var class = func() (t [256]uint8) {
	for i := range t {
		switch {
		case i >= 0x80:
			t[i] = cWide
		case 'a' <= i && i <= 'z':
			t[i] = cLower
		case 'A' <= i && i <= 'Z':
			t[i] = cUpper
		case '0' <= i && i <= '9':
			t[i] = cDigit
		case i == '\n' || i == '\r':
			t[i] = cLine
		case i == ' ' || i == '\t' || i == '\v' || i == '\f':
			t[i] = cBlank
		}
	}
	return t
}()

// Shapes of pieces. Each is a row of costs.
const (
	sLower     = iota // lower case, no leading character
	sSpLower          // lower case after a space
	sPuLower          // lower case after another character
	sCap              // capitalised, no leading character
	sSpCap            // capitalised after a space
	sPuCap            // capitalised after another character
	sUpper            // upper case, no leading character
	sSpUpper          // upper case after a space
	sPuUpper          // upper case after another character
	sMixed            // mixed case as in HTTPServer, no leading character
	sSpMixed          // mixed case after a space
	sPuMixed          // mixed case after another character
	sDigits           // one to three digits
	sPunct            // different characters
	sSame             // one character repeated
	sPunctLine        // punctuation followed by line ends
	sBlank            // blanks
	sLine             // line ends with blanks before them
	sLatin            // the following shapes are single runes
	sCyrillic
	sScript // Greek, Arabic, Indic and other alphabets
	sHan    // CJK, kana, hangul
	sSign   // typographic signs, arrows, box drawing
	sAstral // above U+FFFF
	sBad    // a byte that is not UTF-8
	shapes
)

// longest is the last length with a cost of its own. Longer pieces add perExtra for each further
// byte.
const longest = 24

// piece returns the end, shape and length of the piece at b[i]. The length includes a leading
// character. i must be below len(b).
func piece(b []byte, i int) (end, shape, length int) {
	c := class[b[i]]
	j := i
	lead := 0
	switch c {
	case cDigit:
		for j < len(b) && j < i+3 && class[b[j]] == cDigit {
			j++
		}
		return j, sDigits, j - i
	case cWide:
		return wide(b, i)
	case cLine:
		return blanks(b, i)
	case cBlank:
		if j+1 >= len(b) {
			return j + 1, sBlank, 1
		}
		switch class[b[j+1]] {
		case cUpper, cLower:
			lead = 1
			if b[j] != ' ' {
				lead = 2
			}
			j++
		case cPunct:
			if b[j] == ' ' {
				return punct(b, i, j+1)
			}
			return j + 1, sBlank, 1
		case cDigit, cWide:
			return j + 1, sBlank, 1
		default:
			return blanks(b, i)
		}
	case cPunct:
		if j+1 >= len(b) || class[b[j+1]] != cUpper && class[b[j+1]] != cLower {
			return punct(b, i, j)
		}
		lead = 2
		j++
	}
	return word(b, i, j, lead)
}

// word scans upper case letters followed by lower case ones, starting at b[j].
func word(b []byte, i, j, lead int) (end, shape, length int) {
	start := j
	for j < len(b) && class[b[j]] == cUpper {
		j++
	}
	upper := j - start
	for j < len(b) && class[b[j]] == cLower {
		j++
	}
	switch lower := j - start - upper; {
	case upper == 0:
		shape = sLower
	case lower == 0:
		shape = sUpper
	case upper == 1:
		shape = sCap
	default:
		shape = sMixed
	}
	return j, shape + lead, j - i
}

// punct scans punctuation starting at b[j], with the slashes and line ends that the encoding adds
// to it.
func punct(b []byte, i, j int) (end, shape, length int) {
	start, same := j, true
	for j < len(b) && class[b[j]] == cPunct {
		same = same && b[j] == b[start]
		j++
	}
	n := j - i
	if j < len(b) && class[b[j]] == cLine {
		for j < len(b) && (class[b[j]] == cLine || b[j] == '/') {
			j++
		}
		return j, sPunctLine, n
	}
	if same {
		return j, sSame, n
	}
	return j, sPunct, n
}

// blanks scans white space up to its last line end. Without a line end, it scans all but the last
// blank, which belongs to the next piece.
func blanks(b []byte, i int) (end, shape, length int) {
	last := -1
	j := i
	for j < len(b) && (class[b[j]] == cBlank || class[b[j]] == cLine) {
		if class[b[j]] == cLine {
			last = j
		}
		j++
	}
	if last >= 0 {
		return last + 1, sLine, last + 1 - i
	}
	if j < len(b) && j-i > 1 {
		j--
	}
	return j, sBlank, j - i
}

// wide scans one rune outside ASCII. Its length is always 1.
func wide(b []byte, i int) (end, shape, length int) {
	r, n := utf8.DecodeRune(b[i:])
	switch {
	case r == utf8.RuneError && n == 1:
		shape = sBad
	case r < 0xC0:
		shape = sSign
	case r < 0x370, 0x1E00 <= r && r < 0x2000:
		shape = sLatin
	case 0x400 <= r && r < 0x530:
		shape = sCyrillic
	case 0x2000 <= r && r < 0x2E00, 0x3000 <= r && r < 0x3040, 0xFE00 <= r && r < 0x10000:
		shape = sSign
	case 0x2E00 <= r && r < 0xD800, 0xF900 <= r && r < 0xFB00:
		shape = sHan
	case r >= 0x10000:
		shape = sAstral
	default:
		shape = sScript
	}
	return i + n, shape, 1
}
