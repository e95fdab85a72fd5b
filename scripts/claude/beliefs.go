package main

import (
	"os"
	"path/filepath"
	"strings"
)

// believed checks that the model learns two things with its next prompt, once each: that others have
// changed a file that it has read, and that its own write has overwritten lines of others.
func believed(b *bench, c *checks) {
	const text = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n"
	note := filepath.Join(b.project, "note.txt")
	prompts := []*conv{b.conv("one"), b.conv("two"), b.conv("three"), b.conv("four"), b.conv("five"), b.conv("six")}
	one, two, three, four, five, six := prompts[0], prompts[1], prompts[2], prompts[3], prompts[4], prompts[5]
	other := *b // another client that runs at the same time
	session := ""
	theirs := func(name string, do call) func() {
		return func() {
			v := other.conv(name)
			v.do(do)
			v.say(name)
			args := []string{}
			if session != "" {
				args = []string{"--resume", session}
			}
			r := other.with(v.ready(), args...)
			ended(c, r, "the other session, "+name)
			session = r.session()
		}
	}
	one.do(call{Name: "Write", Input: map[string]any{"file_path": note, "content": text}})
	one.do(shell("sed -i s/eight/8/ note.txt"))
	one.do(b.read("note.txt"))
	one.say("one")
	one.steps[3].act = theirs("other-one", shell("sed -i s/two/2/ note.txt"))
	two.say("two")
	three.say("three")
	three.steps[0].act = func() {
		out, err := b.tool("undo", "--yes")
		c.that(err == nil, "the person takes the other's change back: %s", head(out))
	}
	four.do(b.read("note.txt"))
	four.do(shell(`printf 'one\ntwo\nthree\nfour\nfive\nsix\nVII\n8\n' > note.txt`))
	four.do(shell("sleep 4")) // wait, because what a command overwrote is known for certain only after its reads were reported
	four.steps[1].act = theirs("other-two", shell("sed -i s/three/3/ note.txt"))
	four.say("four")
	five.say("five")
	six.say("six")
	var names []string
	for _, v := range prompts {
		names = append(names, v.ready())
	}
	r := b.converse(names...)
	ended(c, r, "six prompts")
	with := func(v *conv, text string) int {
		es := b.api.of(v.name)
		if len(es) == 0 {
			return -1
		}
		return strings.Count(es[len(es)-1].body.words(), text)
	}
	const head1 = "changed by others since you were shown them"
	count := func(v *conv, want int, text, why string) {
		n := with(v, text)
		c.that(n == want, "%s: %d", why, n)
	}
	count(one, 0, head1, "its own changes are not reported")
	count(two, 1, "+1 -1 at ", "the other session's change comes with the next prompt")
	count(three, 1, head1, "and not again")
	count(four, 2, head1, "what the person took back comes, once")
	count(four, 1, "by undo of ", "and says so")
	count(five, 1, "was made from an older text and overwrote 1 line of ", "the lost update comes")
	count(six, 3, head1, "once")
	log, err := b.tool("log", "--lost")
	c.that(err == nil && strings.Count(log, "lost update: missing 1 line of ") == 1, "log --lost has it: %s", head(log))
	theirs("other-three", shell("true"))()
	es := b.api.of("other-three")
	c.that(len(es) > 0 && strings.Count(es[len(es)-1].body.words(), "overwrote 1 line of yours") == 1, "the other session is informed too")
	n := strings.Fields(lineWith(log, "printf"))[0]
	out, err := b.tool("undo", "--merge", n, "--yes")
	c.that(err == nil, "undo --merge %s: %s", n, head(out))
	now, _ := os.ReadFile(note)
	c.that(string(now) == "one\ntwo\n3\nfour\nfive\nsix\nVII\n8\n", "the file has both changes: %q", now)
}
