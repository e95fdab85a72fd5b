package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// counter counts the tokens of a text.
type counter func(string) int

// ask is one read in the form in which the reader requests it.
type ask struct {
	path        string
	now         []string // the file's lines, including the text after the last newline
	first, last int
	whole       bool
	full        string // what the tool sends without cachebro
}

// result holds the counts of one session.
type result struct {
	name                string
	reads, stubs, diffs int
	edits, unplaced     int
	full, sent, oracle  int // tokens of reads and edits
	expiring            int // like oracle, but known texts expire as they do in cachebro
	schema, injected    int
	other               int // tokens of all other results, as recorded
	contexts            int
	bill, billed        float64 // cost, where a token of new input costs 1; without and with cachebro
	outChars, outSent   int     // characters of the outputs of commands
	outFull, outGiven   int     // tokens of these outputs, without and with cachebro
	folds, cleared      int
	news, newsTokens    int // number and tokens of notices about changes by others
	newsBill            float64
	rules               map[string]*ruled
	wrong               []string       // stubs and diffs that were not true
	lost                map[string]int // tokens sent in addition to what the oracle would have sent, by kind of answer
}

// ruled counts the savings by one rule of package reshape.
type ruled struct {
	times, chars int
	bill         float64
}

func (r *result) rule(name string) *ruled {
	if r.rules == nil {
		r.rules = map[string]*ruled{}
	}
	if r.rules[name] == nil {
		r.rules[name] = &ruled{}
	}
	return r.rules[name]
}

func (r *result) overhead() int { return r.schema + r.injected }
func (r *result) saved() int    { return r.full - r.sent - r.overhead() + r.less() }
func (r *result) best() int     { return r.full - r.oracle + r.less() }
func (r *result) within() int   { return r.full - r.expiring + r.less() }

// less returns the number of tokens by which the outputs of commands were shortened.
func (r *result) less() int { return r.outFull - r.outGiven }

func percent(a, b int) string {
	if b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", 100*float64(a)/float64(b))
}

func share(a, b float64) string { return fmt.Sprintf("%.2f", 100*a/max(b, 1)) }

func (r *result) add(o *result) {
	r.reads, r.stubs, r.diffs, r.edits, r.unplaced = r.reads+o.reads, r.stubs+o.stubs, r.diffs+o.diffs, r.edits+o.edits, r.unplaced+o.unplaced
	r.full, r.sent, r.oracle, r.expiring = r.full+o.full, r.sent+o.sent, r.oracle+o.oracle, r.expiring+o.expiring
	r.schema, r.injected, r.other, r.contexts = r.schema+o.schema, r.injected+o.injected, r.other+o.other, r.contexts+o.contexts
	r.bill, r.billed = r.bill+o.bill, r.billed+o.billed
	r.outChars, r.outSent, r.outFull, r.outGiven = r.outChars+o.outChars, r.outSent+o.outSent, r.outFull+o.outFull, r.outGiven+o.outGiven
	r.news, r.newsTokens, r.newsBill = r.news+o.news, r.newsTokens+o.newsTokens, r.newsBill+o.newsBill
	r.folds, r.cleared = r.folds+o.folds, r.cleared+o.cleared
	for name, x := range o.rules {
		e := r.rule(name)
		e.times, e.chars, e.bill = e.times+x.times, e.chars+x.chars, e.bill+x.bill
	}
	r.wrong = append(r.wrong, o.wrong...)
	for k, v := range o.lost {
		if r.lost == nil {
			r.lost = map[string]int{}
		}
		r.lost[k] += v
	}
}

// table prints a line for each session, for the worst session, and for the sum.
func table(w io.Writer, title string, rs []*result) {
	fmt.Fprintf(w, "\n%s\n", title)
	const row = "%-6s %5s %5s %5s %9s %9s %7s %8s %8s %8s %8s %7s %8s %7s %6s %7s\n"
	fmt.Fprintf(w, row, "trace", "reads", "stubs", "diffs", "full", "sent", "schema", "injected", "saved", "saved %", "oracle", "ratio %", "in 60k", "ratio %", "false", "bill %")
	line := func(r *result) {
		fmt.Fprintf(w, row, r.name, fmt.Sprint(r.reads), fmt.Sprint(r.stubs), fmt.Sprint(r.diffs), fmt.Sprint(r.full), fmt.Sprint(r.sent), fmt.Sprint(r.schema),
			fmt.Sprint(r.injected), fmt.Sprint(r.saved()), percent(r.saved(), r.full+r.outFull), fmt.Sprint(r.best()), percent(r.saved(), r.best()), fmt.Sprint(r.within()), percent(r.saved(), r.within()), fmt.Sprint(len(r.wrong)), share(r.bill-r.billed, r.bill))
	}
	sum := &result{name: "all"}
	worst := rs[0]
	for _, r := range rs {
		line(r)
		sum.add(r)
		if r.saved() < worst.saved() {
			worst = r
		}
	}
	line(sum)
	fmt.Fprintf(w, "worst session: %s, %d tokens (%s %%); of all tool results %s %% were saved; not counting the overhead, the savings are %s %% of the oracle's, and %s %% of those of an oracle whose known texts expire after 60k tokens\n",
		worst.name, worst.saved(), percent(worst.saved(), worst.full+worst.outFull), percent(sum.saved(), sum.full+sum.outFull+sum.other), percent(sum.full-sum.sent+sum.less(), sum.best()), percent(sum.full-sum.sent+sum.less(), sum.within()))
	fmt.Fprintf(w, "%d notices about changes by others: %d tokens, %s %% of the bill\n", sum.news, sum.newsTokens, fmt.Sprintf("%.3f", 100*sum.newsBill/max(sum.bill, 1)))
	if len(sum.lost) > 0 {
		fmt.Fprintf(w, "tokens above the oracle: %s\n", strings.Trim(fmt.Sprint(sum.lost), "map[]"))
	}
	if sum.outFull > 0 {
		outputsTable(w, rs, sum)
	}
	for _, s := range sum.wrong {
		fmt.Fprintln(w, "FALSE:", s)
	}
}

// outputsTable prints the savings in the outputs of commands, by session and by rule.
func outputsTable(w io.Writer, rs []*result, sum *result) {
	const row = "%-9s %8s %9s %9s %7s %7s\n"
	fmt.Fprintf(w, "\noutputs of commands, in characters; %d folds looked up, contexts cleared %d times\n", sum.folds, sum.cleared)
	fmt.Fprintf(w, row, "trace", "", "printed", "given", "less %", "bill %")
	line := func(r *result) {
		bill := 0.0
		for _, x := range r.rules {
			bill += x.bill
		}
		fmt.Fprintf(w, row, r.name, "", fmt.Sprint(r.outChars), fmt.Sprint(r.outSent), percent(r.outChars-r.outSent, r.outChars), share(bill, r.bill))
	}
	for _, r := range rs {
		line(r)
	}
	line(sum)
	fmt.Fprintf(w, row, "rule", "times", "", "saved", "less %", "bill %")
	for _, name := range slices.Sorted(maps.Keys(sum.rules)) {
		x := sum.rules[name]
		fmt.Fprintf(w, row, name, fmt.Sprint(x.times), "", fmt.Sprint(x.chars), percent(x.chars, sum.outChars), share(x.bill, sum.bill))
	}
}
