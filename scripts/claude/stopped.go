package main

import (
	"fmt"
	"syscall"
	"time"
)

// stopped checks three things. If a person interrupts a call, the call's result does not count as
// delivered. /clear begins a new context. A hung daemon costs no more time than the hooks'
// time-outs allow.
func stopped(b *bench, c *checks) {
	m, n := b.conv("interrupted"), b.conv("afterwards")
	m.do(b.read("src/mid.go"), shell("sleep 20"))
	m.say("never said")
	read := n.do(b.read("src/mid.go"))
	n.say("finished")
	first := m.ready()
	r := b.interrupt("sleep 20", first, n.ready())
	c.that(r.took < 15*time.Second, "the person stopped the batch: %.1f s", r.took.Seconds())
	d := n.got(read)
	c.that(isFull(d, 300), "a Read of a stopped batch does not count as shown: %d bytes: %s", d.size(), head(d.text))

	m, n = b.conv("beforeclear"), b.conv("afterclear")
	m.do(b.read("src/big.go"))
	m.say("finished")
	read = n.do(b.read("src/big.go"))
	n.say("finished")
	first = m.ready()
	r = b.converse(first, "/clear", n.ready())
	ended(c, r, "a session with /clear")
	d = n.got(read)
	c.that(isFull(d, 900), "the first Read after /clear is full: %d bytes: %s", d.size(), head(d.text))

	c.hung(b)
}

// hung compares the time of 20 tool calls while the daemon runs with that of 20 tool calls while
// the daemon is stopped. One good comparison out of three is enough, because other work on the
// machine can take as much time as the measured difference.
func (c *checks) hung(b *bench) {
	var normal, same time.Duration
	for range 3 {
		r := b.with(twenty(b, "running", 0))
		ended(c, r, "20 tool calls, running")
		normal = r.took
		pid, err := b.daemonPID()
		if err != nil {
			c.that(false, "find the daemon: %v", err)
			return
		}
		r = b.with(twenty(b, "stopped", pid))
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			c.that(false, "continue the daemon: %v", err)
		}
		ended(c, r, "20 tool calls, daemon stopped")
		same = r.took * 21 / 23 // without the two additional requests to the model
		if same < normal+time.Second {
			break
		}
	}
	c.that(same < normal+time.Second, "%.1f s with a running daemon, %.1f s with a stopped one", normal.Seconds(), same.Seconds())
}

// twenty prepares a conversation of 20 tool calls. If pid is not 0, that process is stopped before
// the calls and continued after them.
func twenty(b *bench, name string, pid int) string {
	m := b.conv(name)
	if pid > 0 {
		m.do(shell(fmt.Sprintf("kill -STOP %d", pid)))
	}
	for i := range 20 {
		m.do(shell(fmt.Sprintf("echo %d", i)))
	}
	if pid > 0 {
		m.do(shell(fmt.Sprintf("kill -CONT %d", pid)))
	}
	m.say("finished")
	return m.ready()
}
