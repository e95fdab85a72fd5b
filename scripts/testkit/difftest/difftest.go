// Package difftest applies unified diffs, for tests of the code that makes and reads them. It
// shares no code with the tested packages.
package difftest

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrApply means that the diff does not fit the text or is not a unified diff.
var ErrApply = errors.New("diff does not apply")

// Apply applies a unified diff exactly: every context and removed line must be at the
// position given by the hunk, without fuzz or offsets. It skips file headers before the first
// hunk and does not change old.
func Apply(old, patch []byte) ([]byte, error) {
	a := &applier{old: lines(old)}
	rows := lines(patch)
	for len(rows) > 0 && !bytes.HasPrefix(rows[0], []byte("@@ ")) {
		rows = rows[1:]
	}
	for len(rows) > 0 {
		n, err := a.hunk(rows)
		if err != nil {
			return nil, err
		}
		rows = rows[n:]
	}
	for ; a.at < len(a.old); a.at++ {
		a.out = append(a.out, a.old[a.at]...)
	}
	return a.out, nil
}

type applier struct {
	old [][]byte
	at  int // number of old lines consumed
	out []byte
}

// hunk applies the hunk at the start of rows and returns how many rows it has.
func (a *applier) hunk(rows [][]byte) (int, error) {
	start, oldLeft, newLeft, err := ParseHeader(string(rows[0]))
	if err != nil {
		return 0, err
	}
	if oldLeft > 0 {
		start--
	}
	if start < a.at || start > len(a.old) {
		return 0, fmt.Errorf("%w: hunk starts at old line %d of %d", ErrApply, start+1, len(a.old))
	}
	for ; a.at < start; a.at++ {
		a.out = append(a.out, a.old[a.at]...)
	}
	i := 1
	for oldLeft > 0 || newLeft > 0 {
		if i >= len(rows) {
			return 0, fmt.Errorf("%w: hunk is cut short", ErrApply)
		}
		prefix, line := rows[i][0], rows[i][1:]
		i++
		if i < len(rows) && rows[i][0] == '\\' {
			line = bytes.TrimSuffix(line, []byte("\n"))
			i++
		}
		if prefix != '+' {
			if a.at >= len(a.old) || !bytes.Equal(a.old[a.at], line) {
				return 0, fmt.Errorf("%w: old line %d differs", ErrApply, a.at+1)
			}
			a.at++
			oldLeft--
		}
		switch prefix {
		case ' ', '+':
			a.out = append(a.out, line...)
			newLeft--
		case '-':
		default:
			return 0, fmt.Errorf("%w: unexpected row %q", ErrApply, rows[i-1])
		}
	}
	if oldLeft < 0 || newLeft < 0 {
		return 0, fmt.Errorf("%w: hunk is longer than its header says", ErrApply)
	}
	return i, nil
}

// ParseHeader parses "@@ -a,b +c,d @@". If ",b" or ",d" is missing, the number is 1.
func ParseHeader(s string) (start, oldLines, newLines int, err error) {
	f := strings.Fields(s)
	if len(f) < 4 || f[0] != "@@" || f[3] != "@@" || !strings.HasPrefix(f[1], "-") || !strings.HasPrefix(f[2], "+") {
		return 0, 0, 0, fmt.Errorf("%w: bad hunk header %q", ErrApply, s)
	}
	start, oldLines, ok1 := parseRange(f[1][1:])
	_, newLines, ok2 := parseRange(f[2][1:])
	if !ok1 || !ok2 {
		return 0, 0, 0, fmt.Errorf("%w: bad hunk header %q", ErrApply, s)
	}
	return start, oldLines, newLines, nil
}

func parseRange(s string) (start, lines int, ok bool) {
	first, rest, has := strings.Cut(s, ",")
	start, err := strconv.Atoi(first)
	lines = 1
	if err == nil && has {
		lines, err = strconv.Atoi(rest)
	}
	return start, lines, err == nil && start >= 0 && lines >= 0
}

// lines splits a text into lines with their line ends.
func lines(text []byte) [][]byte {
	all := bytes.SplitAfter(text, []byte("\n"))
	if n := len(all) - 1; len(all[n]) == 0 {
		all = all[:n]
	}
	return all
}
