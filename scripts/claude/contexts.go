package main

import (
	"strings"
)

// compacted makes the client compact its context. For this it reports a large token count and sets
// a small window (CLAUDE_CODE_AUTO_COMPACT_WINDOW).
func compacted(b *bench, c *checks) {
	m := b.conv("compact")
	first := m.do(b.read("src/big.go"))
	m.do(shell(`sed -i 's/^var v0500.*/var v0500 = -1 \/\/ changed/' src/big.go`))
	// Read the file again, so that enough tokens are saved to pay for the recovery block.
	m.do(b.read("src/big.go"))
	m.do(shell("false"))
	before := m.do(b.read("src/mid.go"))
	m.steps[before].usage = 99_000 // makes the client compact before the next answer
	after := m.do(b.read("src/big.go"))
	stub := m.do(b.read("src/big.go"))
	cat := m.do(shell("cat src/mid.go"))
	m.say("finished")
	b.extra = []string{"CLAUDE_CODE_AUTO_COMPACT_WINDOW=100000"}
	r := b.with(m.ready())
	b.extra = nil
	ended(c, r, "the session")
	c.that(len(b.api.of("compact/summary")) == 1, "the client compacted")
	d := m.got(first)
	c.that(isFull(d, 900), "Read before: %d bytes", d.size())
	d = m.got(after)
	c.that(isFull(d, 899), "the first Read after the compaction is full: %d bytes: %s", d.size(), head(d.text))
	d = m.got(stub)
	c.that(isStub(d), "the next is a stub: %d bytes", d.size())
	d = m.got(cat)
	c.that(isFull(d, 300), "cat of a file that was read before the compaction is full: %d bytes", d.size())
	block := ""
	for _, e := range b.api.of("compact") {
		if w := e.body.words(); strings.Contains(w, "## cachebro session state") {
			block = w[strings.Index(w, "## cachebro session state"):]
			break
		}
	}
	c.that(strings.Contains(block, "Branch: main") && strings.Contains(block, "src/big.go (1 edit, last ") && strings.Contains(block, "by sed") && strings.Contains(block, "src/mid.go (read-only)"),
		"the recovery block reached the model: %s", head(block))
}

// resumed starts the client again in the same conversation.
func resumed(b *bench, c *checks) {
	m := b.conv("resume")
	m.do(b.read("src/mid.go"))
	known := m.do(b.read("src/mid.go"))
	m.say("finished")
	r := b.with(m.ready())
	ended(c, r, "the session")
	d := m.got(known)
	c.that(isStub(d), "in the first process the second Read is a stub: %d bytes", d.size())
	id := r.session()
	for _, how := range [][]string{{"--resume", id}, {"--continue"}, {"--resume", id, "--fork-session"}} {
		name := "again" + strings.Trim(strings.Join(how[len(how)-1:], ""), "-")[:4]
		name = strings.ToLower(strings.ReplaceAll(name, "-", ""))
		n := b.conv(name)
		read := n.do(b.read("src/mid.go"))
		stub := n.do(b.read("src/mid.go"))
		edit := n.do(b.edit("src/mid.go", "line 7 of this", "line 7 of this, after "+name))
		n.say("finished")
		r := b.with(n.ready(), how...)
		ended(c, r, strings.Join(how, " "))
		d := n.got(read)
		c.that(isFull(d, 300), "its first Read is full: %d bytes: %s", d.size(), head(d.text))
		d = n.got(stub)
		c.that(isStub(d), "its second is a stub: %d bytes: %s", d.size(), head(d.text))
		d = n.got(edit)
		c.that(strings.Contains(d.text, "updated successfully"), "Edit after the stub: %s", head(d.text))
	}
	// Two prompts are sent to one session. The reads of the second prompt rely on the texts that
	// the first prompt has read.
	n := b.conv("second")
	read := n.do(b.read("src/huge.go", "offset", 1, "limit", 200))
	n.say("finished")
	first := n.ready()
	o := b.conv("third")
	next := o.do(b.read("src/huge.go", "offset", 1, "limit", 200))
	o.say("finished")
	r = b.converse(first, o.ready())
	ended(c, r, "two prompts in one process")
	d = n.got(read)
	c.that(isFull(d, 200), "the first prompt's Read is full: %d bytes", d.size())
	d = o.got(next)
	c.that(isStub(d), "the second prompt's is a stub: %d bytes: %s", d.size(), head(d.text))
}
