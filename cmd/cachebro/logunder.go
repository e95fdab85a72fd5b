package main

import (
	"fmt"

	"cachebro/store/wire"
)

// under is the prompt and tool call that the last printed version belongs to.
type under struct{ session, agent, prompt, call string }

// heading says which prompt and which tool call the lines that follow belong to:
// what is undone together stands together. Outside of sessions each line names
// its process, and that says it.
func (l *logPrinter) heading(v wire.Version) {
	a := v.Actor
	now := under{a.Session, a.Agent, a.Prompt, a.ToolCall}
	if now == l.under {
		return
	}
	if l.f.session == "" && (now.session == "" || now.prompt == "" && now.call == "") {
		if l.under != (under{}) {
			fmt.Fprintln(l.out, l.paint.bold("outside of a prompt"))
		}
		l.under = under{}
		return
	}
	if now.prompt != l.under.prompt || now.session != l.under.session || l.lines == 0 {
		name := "no prompt known"
		if a.Prompt != "" {
			name = "prompt " + oneLine(a.Prompt)
		}
		fmt.Fprintln(l.out, l.paint.bold(name))
	}
	if a.ToolCall != "" {
		text := "  " + oneLine(a.Tool) + " " + oneLine(a.ToolCall)
		if a.Agent != "" {
			text += " of agent " + oneLine(a.Agent)
		}
		if a.Uncertain {
			text += " (perhaps: several calls ran)"
		}
		fmt.Fprintln(l.out, l.paint.dim(text))
	} else if l.under.call != "" {
		fmt.Fprintln(l.out, l.paint.dim("  outside of a tool call"))
	}
	l.under = now
}
