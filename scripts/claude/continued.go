package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// continued checks work that the client does after its answer to a prompt. An agent and a
// background command, which the prompt started, end after the answer, and then the client
// continues. All of this work belongs to that prompt, even if another prompt was typed in the
// meantime.
func continued(b *bench, c *checks) {
	out, err := b.tool("up", "--yes", "--client", "claude", b.project)
	c.that(err == nil, "up: %s", tailLine(out))
	one, sub := b.conv("one"), b.conv("one-sub")
	sub.do(shell("sleep 1; echo sub > sub.txt"))
	sub.do(shell("echo second > sub2.txt"))
	sub.say("sub done")
	sub.ready()
	before := snapshot(b.project)
	one.do(b.read("src/mid.go"))
	one.do(b.edit("src/mid.go", "line 7 of this", "line seven"))
	one.do(agent("one-sub"))
	one.say("it runs")
	one.do(shell("echo final > final.txt"))
	background := shell("sleep 1; echo bg > bg.txt")
	background.Input["run_in_background"] = true
	one.do(background)
	one.do(shell("setsid sh -c 'sleep 2; echo late > late.txt' >/dev/null 2>&1 </dev/null & echo started"))
	one.say("it runs, too")
	one.do(shell("echo last > last.txt"))
	one.say("all done")
	r := b.start([]string{b.claude, "-p", one.ready(), "--output-format", "stream-json", "--verbose", "--permission-mode", "bypassPermissions"})
	ended(c, r, "a prompt, its agent, its background command, and what follows them")
	all := []string{"sub.txt", "sub2.txt", "final.txt", "bg.txt", "last.txt", "late.txt"}
	for range 500 { // wait, because the detached command writes after the client has ended
		if _, err := os.Stat(filepath.Join(b.project, "late.txt")); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, name := range all {
		_, err := os.Stat(filepath.Join(b.project, name))
		c.that(err == nil, "%s was written %v", name, err)
	}
	vs, err := b.versions(r.session())
	c.that(err == nil, "log --session: %v", err)
	prompts := map[string]bool{}
	for _, name := range append(all, "src/mid.go") {
		v, ok := vs.of(name)
		c.that(ok && v.Actor.Prompt != "" && v.Actor.ToolCall != "", "%s has a prompt and a call: %+v", name, v.Actor)
		c.that(v.Actor.Late == (name == "late.txt"), "%s is late: %v", name, v.Actor.Late)
		prompts[v.Actor.Prompt] = true
	}
	c.that(len(prompts) == 1, "all of it is one prompt's: %v", prompts)
	log, err := b.tool("log")
	c.that(err == nil && !strings.Contains(log, "<task"), "the log shows no markup: %s", head(log))
	out, err = b.tool("undo", "--prompt", "last", "--yes")
	c.that(err == nil, "undo --prompt last: %s", tailLine(out))
	diff := differences(before, snapshot(b.project))
	c.that(len(diff) == 0, "the tree is as before the prompt %v", diff)
	out, err = b.tool("redo", "--yes")
	_, serr := os.Stat(filepath.Join(b.project, "late.txt"))
	c.that(errors.Join(err, serr) == nil, "redo brings it back: %s", tailLine(out))

	// While an agent of the first prompt works, a second prompt is typed. The agent's changes
	// belong to the first prompt.
	three, four := b.conv("three"), b.conv("four")
	slow := b.conv("three-sub")
	slow.do(shell("echo a > slow1.txt; sleep 1"))
	slow.do(shell("echo b > slow2.txt"))
	slow.say("slow done")
	slow.ready()
	three.do(agent("three-sub"))
	three.say("it runs")
	four.do(shell("echo own > own.txt"))
	four.say("done")
	r = b.converse(three.ready(), four.ready())
	ended(c, r, "two prompts, the agent of the first outlives it")
	vs, err = b.versions(r.session())
	c.that(err == nil, "log --session: %v", err)
	first, _ := vs.of("slow1.txt")
	second, _ := vs.of("slow2.txt")
	own, _ := vs.of("own.txt")
	c.that(first.Actor.Prompt != "" && first.Actor.Prompt == second.Actor.Prompt, "the agent's calls are of one prompt: %s %s", first.Actor.Prompt, second.Actor.Prompt)
	c.that(own.Actor.Prompt != "" && own.Actor.Prompt != first.Actor.Prompt, "the second prompt's is its own: %s", own.Actor.Prompt)
	out, err = b.tool("undo", "--prompt", "last", "--yes")
	_, oerr := os.Stat(filepath.Join(b.project, "own.txt"))
	_, serr = os.Stat(filepath.Join(b.project, "slow2.txt"))
	c.that(err == nil && oerr != nil && serr == nil, "undo --prompt last takes back what the second one wrote, and no more: %s", tailLine(out))
	out, err = b.toolIn(b.dir, "down", "--yes", b.project)
	c.that(err == nil, "down: %s", tailLine(out))
}
