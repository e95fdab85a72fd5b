package main

import (
	"strings"
)

// words are common words of code. Made-up lines consist of them, so that the lines have as many
// tokens as code.
var words = strings.Fields(`return value const func string error nil if err != for range len result
context type struct import async await function export default null true false this new
request response client server state index name path file line count node list config
options handler event data.items() => { } ( ) [0] == && || + "text" 'id' // note: the user
interface public void int self def None elif try except raise class map filter key`)

// texts makes the text of every line of a trace. Each text has exactly the recorded length, and no
// two texts are equal.
type texts struct {
	lens  []int
	order []int // a line's index among the lines of its length
	made  map[int]string
	mean  int
	next  int // number of the next made-up line
}

func newTexts(lens []int) *texts {
	t := &texts{lens: lens, order: make([]int, len(lens)), made: map[int]string{}, next: len(lens)}
	seen := map[int]int{}
	sum := 0
	for i, n := range lens {
		t.order[i] = seen[n]
		seen[n]++
		sum += n
	}
	t.mean = 30
	if len(lens) > 0 {
		t.mean = max(8, sum/len(lens))
	}
	return t
}

// of returns the text of line number n. Numbers above the recorded ones belong to lines that no
// read showed.
func (t *texts) of(n int) string {
	if s, ok := t.made[n]; ok {
		return s
	}
	size, order := t.mean+n%17, n
	if n < len(t.lens) {
		size, order = t.lens[n], t.order[n]
	} else {
		order += 1 << 20 // so that the text differs from those of recorded lines of the same length
	}
	s := lineText(size, order, n)
	t.made[n] = s
	return s
}

const digits = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_}{)(;:,.<>*&^%$#@!~+=-?/|"

func lineText(size, order, seed int) string {
	tag := ""
	for n := order; ; n /= len(digits) {
		tag = string(digits[n%len(digits)]) + tag
		if n < len(digits) {
			break
		}
	}
	if size <= len(tag)+2 {
		for len(tag) < size {
			tag = "a" + tag
		}
		return tag[len(tag)-size:]
	}
	var b strings.Builder
	b.WriteString(strings.Repeat("  ", min(seed%4, (size-len(tag))/8)))
	x := uint32(seed)*2654435761 + 12345
	for b.Len() < size-len(tag)-1 {
		x = x*1664525 + 1013904223
		w := words[int(x>>16)%len(words)]
		if b.Len()+len(w)+1 > size-len(tag)-1 {
			w = strings.Repeat("x", max(0, size-len(tag)-1-b.Len()))
			b.WriteString(w)
			break
		}
		b.WriteString(w)
		b.WriteByte(' ')
	}
	s := b.String()
	if len(s) > size-len(tag)-1 {
		s = s[:size-len(tag)-1]
	}
	return s + "#" + tag
}

// filler returns the number of a new line that no read in the recording shows.
func (t *texts) filler() int {
	t.next++
	return t.next
}

// empty returns the number of the empty line after a file's last newline.
func (t *texts) empty() int {
	for i, n := range t.lens {
		if n == 0 {
			return i
		}
	}
	t.made[-2] = ""
	return -2
}
