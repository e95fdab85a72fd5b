package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"cachebro/hooks/reshape"

	"github.com/rogpeppe/go-internal/txtar"
)

// A recording holds the length and the kind of a command's output, but not its text. In place of
// the text, the replay uses the output of a real tool of the same kind and about the same length.

// sample is a command and the text that it printed.
type sample struct{ command, text string }

// kinds maps the kinds of recorded commands to the files of the corpus that have such outputs.
var kinds = map[string][]string{
	"grep": {"rg", "grep"}, "search": {"rg", "grep"}, "glob": {"find"}, "list": {"ls", "find", "tree"},
	"test/build": {"go", "pytest", "cargo", "js", "make"}, "git-read": {"git"}, "git-write": {"git"}, "other": {"never"}, "script": {"never"},
}

// corpus holds samples by kind, ordered by length.
type corpus map[string][]sample

func loadCorpus(dir string) (corpus, error) {
	c := corpus{}
	for kind, names := range kinds {
		for _, name := range names {
			raw, err := os.ReadFile(filepath.Join(dir, name+".txtar"))
			if err != nil {
				return nil, err
			}
			files := txtar.Parse(raw).Files
			for i, f := range files {
				if strings.HasSuffix(f.Name, ".cmd") && i+1 < len(files) {
					if text := strings.TrimRight(string(files[i+1].Data), " \t\r\n"); text != "" {
						c[kind] = append(c[kind], sample{strings.TrimSpace(string(f.Data)), text})
					}
				}
			}
		}
		slices.SortFunc(c[kind], func(a, b sample) int { return len(a.text) - len(b.text) })
	}
	return c, nil
}

// near returns a sample of a kind with a length near chars. n selects one of the nearest samples.
func (c corpus) near(kind string, chars, n int) (sample, bool) {
	all := c[kind]
	if len(all) == 0 || chars <= 0 {
		return sample{}, false
	}
	i, _ := slices.BinarySearchFunc(all, chars, func(s sample, n int) int { return len(s.text) - n })
	from := max(0, min(i, len(all)-1)-2)
	few := all[from:min(len(all), from+5)]
	return few[n%len(few)], true
}

// command plays a command whose output is meant for people.
func (pl *player) command(st step) error {
	s, ok := pl.o.corpus.near(st.kind, st.chars, pl.n)
	if !ok {
		n := st.chars * 10 / 34
		pl.res.other += n
		pl.bills[st.agent].request()
		pl.bills[st.agent].enter(n, n)
		pl.transcript(st.agent).other(st.chars)
		return nil
	}
	pl.call(st.agent)
	input := fields{"command": s.command}
	out, err := pl.bash(st.agent, input, s.text)
	if err != nil {
		return err
	}
	final := s.text
	if out != "" {
		final = out
		if len(final) >= len(s.text) {
			pl.res.wrong = append(pl.res.wrong, fmt.Sprintf("trace %s: the output of %s became longer", pl.res.name, s.command))
		}
		pl.judgeOutput(s, out)
	}
	full, sent := pl.o.tokens(s.text), pl.o.tokens(final)
	pl.res.outChars, pl.res.outSent = pl.res.outChars+len(s.text), pl.res.outSent+len(final)
	pl.res.outFull, pl.res.outGiven = pl.res.outFull+full, pl.res.outGiven+sent
	pl.bills[st.agent].enter(full, sent)
	if r, ok := reshape.Output(s.command, s.text, reshape.Options{}); ok && out != "" {
		for _, p := range r.Parts {
			e := pl.res.rule(string(p.Rule))
			e.times, e.chars = e.times+1, e.chars+p.Saved
			pl.bills[st.agent].ruled(string(p.Rule), (full-sent)*p.Saved/max(1, len(s.text)-len(r.Text)))
		}
	}
	return pl.batch(st.agent, "Bash", input, final)
}

// judgeOutput counts an output as wrong if its replacement lacks some of its words, unless the
// replacement names an id under which the whole output is saved.
func (pl *player) judgeOutput(s sample, out string) {
	if _, rest, ok := strings.Cut(out, " output "); ok && strings.HasPrefix(out, "cachebro: ") && strings.Contains(out, "folded") {
		id := strings.FieldsFunc(rest, func(r rune) bool { return r == '\n' || r == ' ' || r == ';' })[0]
		cmd := pl.p.command("output", id)
		cmd.Dir = pl.p.dir
		whole, err := cmd.Output()
		if err != nil || strings.TrimSpace(string(whole)) != strings.TrimSpace(s.text) {
			pl.res.wrong = append(pl.res.wrong, fmt.Sprintf("trace %s: the full output of the folded %s is not available: %v", pl.res.name, s.command, err))
		}
		pl.res.folds++
		return
	}
	if strings.ContainsAny(s.text, "\x1b\r\b") {
		return // the text has parts that a terminal does not show
	}
	words := func(r rune) bool { return !unicode.IsLetter(r) }
	has := map[string]bool{}
	for w := range strings.FieldsFuncSeq(out, words) {
		has[w] = true
	}
	missing := 0
	for w := range strings.FieldsFuncSeq(s.text, words) {
		if !has[w] {
			missing++
		}
	}
	if missing > 0 {
		pl.res.wrong = append(pl.res.wrong, fmt.Sprintf("trace %s: %d words of %s are missing", pl.res.name, missing, s.command))
	}
}
