package search

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"cachebro/store"
)

// Chunk consists of the lines First to Last of a file, both included and counted from 1.
type Chunk struct {
	First, Last int
	Start, End  int // byte range
	Symbols     []Symbol
}

// The sizes of chunks. A chunk of prose has 50 to 200 words, and neighbouring chunks overlap by 50
// words. A chunk of code has about 60 lines.
const (
	proseWords   = 200
	proseOverlap = 50
	proseMin     = 50
	codeLines    = 60
	codeMax      = 120 // a longer symbol is split
)

// chunks splits a file into chunks that cover every line.
func chunks(kind Kind, content []byte, symbols []Symbol) []Chunk {
	lines := lineStarts(content)
	if len(lines) == 0 {
		return nil
	}
	var cut []Chunk
	if kind == Doc {
		cut = proseChunks(content, lines)
	} else {
		cut = codeChunks(lines, symbols)
	}
	for i := range cut {
		c := &cut[i]
		c.Start = lines[c.First-1]
		c.End = len(content)
		if c.Last < len(lines) {
			c.End = lines[c.Last]
		}
		for _, s := range symbols {
			if s.Line >= c.First && s.Line <= c.Last {
				c.Symbols = append(c.Symbols, s)
			}
		}
	}
	return cut
}

// lineStarts returns the offset of the first byte of each line.
func lineStarts(content []byte) []int {
	if len(content) == 0 {
		return nil
	}
	starts := make([]int, 1, len(content)/30+1)
	for i := 0; ; {
		n := bytes.IndexByte(content[i:], '\n')
		if n < 0 || i+n+1 == len(content) {
			return starts
		}
		i += n + 1
		starts = append(starts, i)
	}
}

// proseChunks splits prose at the ends of lines, and where possible at the end of a sentence.
func proseChunks(content []byte, lines []int) []Chunk {
	words := make([]int, len(lines)) // words up to the end of each line
	total := 0
	for i := range lines {
		line := lineAt(content, lines, i)
		total += len(bytes.Fields(line))
		words[i] = total
	}
	var cut []Chunk
	for first := 0; first < len(lines); {
		before := 0
		if first > 0 {
			before = words[first-1]
		}
		last := first
		for last+1 < len(lines) && words[last+1]-before <= proseWords {
			last++
		}
		if last+1 < len(lines) {
			for end := last; end > first && words[end]-before >= proseWords*3/4; end-- {
				line := bytes.TrimSpace(lineAt(content, lines, end))
				if len(line) == 0 || bytes.HasSuffix(line, []byte(".")) || bytes.HasSuffix(line, []byte("?")) || bytes.HasSuffix(line, []byte("!")) {
					last = end
					break
				}
			}
			if total-words[last] < proseMin {
				last = len(lines) - 1
			}
		}
		cut = append(cut, Chunk{First: first + 1, Last: last + 1})
		if last+1 >= len(lines) {
			break
		}
		next := last + 1
		for next > first+1 && words[last]-words[next-1] < proseOverlap && words[last]-words[next-2] <= proseOverlap {
			next--
		}
		first = next
	}
	return cut
}

func lineAt(content []byte, lines []int, i int) []byte {
	if i+1 < len(lines) {
		return content[lines[i]:lines[i+1]]
	}
	return content[lines[i]:]
}

// codeChunks splits code before a top-level symbol once the chunk is long enough, and at the latest
// after codeMax lines.
func codeChunks(lines []int, symbols []Symbol) []Chunk {
	starts := map[int]bool{}
	for _, s := range symbols {
		if s.Top {
			starts[s.First] = true
		}
	}
	var cut []Chunk
	first := 1
	for line := 2; line <= len(lines); line++ {
		size := line - first
		enough := codeMax
		switch {
		case starts[line]:
			enough = codeLines / 2
		case len(starts) == 0:
			enough = codeLines
		}
		if size >= enough {
			cut = append(cut, Chunk{First: first, Last: line - 1})
			first = line
		}
	}
	return append(cut, Chunk{First: first, Last: len(lines)})
}

// chunkID returns the document id of a chunk. It contains everything that is needed to show the
// chunk as a hit.
func chunkID(p store.Path, lines span) string {
	return fmt.Sprintf("%s\x00%d-%d", p, lines.first, lines.last)
}

// parseID splits the id of a chunk. It returns false for any other id.
func parseID(id string) (p store.Path, lines span, ok bool) {
	path, rest, _ := strings.Cut(id, "\x00")
	first, last, _ := strings.Cut(rest, "-")
	a, err1 := strconv.Atoi(first)
	b, err2 := strconv.Atoi(last)
	return store.Path(path), span{int32(a), int32(b)}, err1 == nil && err2 == nil
}
