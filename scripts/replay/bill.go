package main

// A text in a context is paid for with each request that carries it. The prices are relative to the
// price of a token of new input. A token costs 1.25 when a new text is written to the provider's
// cache, 0.1 when an old text is read from it, and 5 in an answer.
const (
	cacheWrite, cacheRead, output = 1.25, 0.1, 5.0
	answerTokens                  = 60 // tokens of the answer to a request that calls a tool
)

// bill is the cost of one context window, without cachebro and with it.
type bill struct {
	requests int
	entries  []entry
}

type entry struct {
	request, without, with int
	rules                  map[string]int // tokens saved by rule
	news                   int            // tokens saved by notices about changes by others; they are also counted in rules
}

// request adds a request and its answer, which stays in the context.
func (b *bill) request() {
	if b.requests == 0 {
		b.enter(firstTokens, firstTokens)
	}
	b.requests++
	b.enter(answerTokens, answerTokens)
}

// enter adds a text to the context. The text is part of all later requests.
func (b *bill) enter(without, with int) {
	b.entries = append(b.entries, entry{request: b.requests, without: without, with: with})
}

// ruled records that a rule saved this many tokens in the newest entry.
func (b *bill) ruled(rule string, tokens int) {
	e := &b.entries[len(b.entries)-1]
	if e.rules == nil {
		e.rules = map[string]int{}
	}
	e.rules[rule] += tokens
}

// end adds the window to the cost of the session.
func (b *bill) end(r *result) {
	for _, e := range b.entries {
		weight := cacheWrite + cacheRead*float64(max(0, b.requests-e.request-1))
		r.bill += weight * float64(e.without)
		r.billed += weight * float64(e.with)
		r.newsBill += weight * float64(e.news)
		for rule, n := range e.rules {
			r.rule(rule).bill += weight * float64(n)
		}
	}
	r.bill += output * answerTokens * float64(b.requests)
	r.billed += output * answerTokens * float64(b.requests)
	*b = bill{}
}
