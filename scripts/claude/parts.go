package main

import "strings"

// parts checks that one Bash command can read several files.
func parts(b *bench, c *checks) {
	m := b.conv("parts")
	small := "src/small.go"
	m.do(shell("head -100 src/mid.go > " + small))
	first := m.do(shell("cat " + small + " && echo --- && sed -n '1,50p' src/mid.go"))
	again := m.do(shell("cat " + small + "; echo ---; sed -n '1,50p' src/mid.go 2>/dev/null"))
	m.do(shell("sed -i 's/^var v1050.*/var v1050 = -1 \\/\\/ of this/' " + small))
	changed := m.do(shell("cat -n " + small + " && git status --short"))
	pipe := m.do(shell("cat src/mid.go | head -40"))
	read := m.do(b.read(small, "offset", 1, "limit", 40))
	m.say("finished")
	ended(c, b.with(m.ready()), "the session")
	d := m.got(first)
	c.that(isFull(d, 150) && strings.Contains(d.text, "\n---\n"), "the first time all of it comes: %d bytes", d.size())
	d = m.got(again)
	c.that(strings.Count(d.text, "cachebro: not repeated") == 2 && strings.Contains(d.text, "\n---\n") && d.size() < 400, "the second time two sentences: %s", head(d.text))
	d = m.got(changed)
	c.that(strings.Contains(d.text, "    50\tvar v1050 = -1") && strings.Contains(d.text, "?? src/small.go") && d.size() < 800, "cat -n after sed -i: the changed lines, and git's own: %s", head(d.text))
	d = m.got(pipe)
	c.that(strings.HasPrefix(d.text, "cachebro: not repeated. Lines 1-40 of src/mid.go are"), "a simple pipe: %s", head(d.text))
	d = m.got(read)
	c.that(isStub(d), "and a Read knows what cat showed: %s", head(d.text))
}
