package main

import (
	"os"
	"path/filepath"
	"strings"
)

// held checks "init --hold". If the model writes to a file that another session has changed, the
// first write is denied. The model is shown the change, so that it can merge the change with its
// own text. The second attempt succeeds.
func held(b *bench, c *checks) {
	settings := filepath.Join(b.dir, "home", ".claude", "settings.json")
	before, _ := os.ReadFile(settings)
	out, err := b.tool("init", "--yes", "--client", "claude", "--hold")
	c.that(err == nil, "init --hold: %s", tailLine(out))
	note := filepath.Join(b.project, "note.txt")
	write := func(text string) call {
		return call{Name: "Write", Input: map[string]any{"file_path": note, "content": text}}
	}
	other := *b // another client that runs at the same time
	theirs := func(name, command string) func() {
		return func() {
			v := other.conv(name)
			v.do(shell(command))
			v.say(name)
			ended(c, other.with(v.ready()), "the other session, "+name)
		}
	}

	m := b.conv("hold")
	m.do(write("one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n"))
	// If the model's next turn after the change is a Write, the client itself refuses it. In later
	// turns, a Write would overwrite the change.
	m.do(shell("true"))
	m.steps[1].act = theirs("other-one", "sed -i s/two/2/ note.txt")
	blind := m.do(write("one\ntwo\nthree\nfour\nfive\nsix\nVII\neight\n"))
	merged := m.do(write("one\n2\nthree\nfour\nfive\nsix\nVII\neight\n"))
	own := m.do(write("one\n2\nthree\nfour\nfive\nsix\nVII\n8\n"))
	edit := m.do(b.edit("note.txt", "five", "5"))
	m.steps[edit].act = theirs("other-two", "sed -i s/three/3/ note.txt")
	again := m.do(b.edit("note.txt", "five", "5"))
	m.say("held")
	ended(c, b.with(m.ready()), "the session")

	const word = "cachebro: held, because note.txt was changed at "
	d := m.got(blind)
	c.that(strings.Contains(d.text, word) && strings.Contains(d.text, "-two\n+2\n"), "a Write over the other's change is denied with that change: %s", head(d.text))
	d = m.got(merged)
	c.that(strings.Contains(d.text, "updated successfully") && !strings.Contains(d.notes, "cachebro"), "the merged text is written without another word: %s", head(d.text))
	d = m.got(own)
	c.that(strings.Contains(d.text, "updated successfully"), "and so is what follows it: %s", head(d.text))
	d = m.got(edit)
	c.that(strings.Contains(d.text, word) && strings.Contains(d.text, "-three\n+3\n"), "an Edit after another change is denied with it: %s", head(d.text))
	d = m.got(again)
	c.that(strings.Contains(d.text, "updated successfully"), "the same Edit once more goes through: %s", head(d.text))
	now, _ := os.ReadFile(note)
	c.that(string(now) == "one\n2\n3\nfour\n5\nsix\nVII\n8\n", "the file has all changes: %q", now)
	out, err = b.tool("log", "--lost")
	c.that(err == nil && !strings.Contains(out, "lost update"), "nothing was lost: %s", head(out))

	out, err = b.tool("uninit", "--yes", "--client", "claude")
	after, _ := os.ReadFile(settings)
	c.that(err == nil && string(before) == string(after), "uninit leaves the settings as they were: %s", tailLine(out))
}
