package main

import (
	"context"
	"fmt"
	"strings"

	"cachebro/hooks"
)

func doctorCommand() command {
	return command{
		name: "doctor", group: groupEvery, args: "[DIR]", short: "does everything work here? each problem with what mends it",
		long: `Looks at FUSE, the kernel, the mount (with a canary file that is written, seen,
undone and gone again), the store and its space, the agents' configuration, and
what is not kept and why. Exit status 1 when something is wrong.

Examples:
  cachebro doctor
  cachebro doctor --json | jq 'select(.ok | not)'`,
		run: runDoctor,
	}
}

// finding is one thing that doctor looked at; Fix mends it.
type finding = hooks.Finding

func good(what, format string, args ...any) finding {
	return finding{What: what, OK: true, Text: fmt.Sprintf(format, args...)}
}

func wrong(what, fix, format string, args ...any) finding {
	return finding{What: what, Text: fmt.Sprintf(format, args...), Fix: fix}
}

// wrongErr is a finding made of an error; its hint is the fix.
func wrongErr(what, fix string, err error) finding {
	if h := hintOf(err); h != "" {
		fix = h
	}
	return finding{What: what, Text: err.Error(), Fix: fix}
}

func runDoctor(ctx context.Context, e *env) error {
	fs := e.flags()
	asJSON := fs.Bool("json", false, "one JSON object per finding and line")
	noCanary := fs.Bool("no-canary", false, "write no file into the project")
	args, err := e.parse(fs, 0, 1)
	if err != nil {
		return err
	}
	bad := 0
	say := func(all ...finding) {
		for _, f := range all {
			if !f.OK {
				bad++
			}
			e.sayFinding(f, *asJSON)
		}
	}
	say(e.doctorMachine()...)
	t, err := e.directory(args)
	if err != nil {
		say(wrongErr("project", "", err))
	} else {
		say(e.doctorSource(t)...)
		say(e.doctorProject(ctx, t, !*noCanary)...)
	}
	s, err := e.setup(initFlags{}, "")
	if err != nil {
		say(wrongErr("clients", "", err))
	} else {
		say(hooks.CheckClients(ctx, s)...)
	}
	say(e.refusals()...)
	if !*asJSON {
		if bad == 0 {
			fmt.Fprintln(e.stdout, "all is well")
		} else {
			fmt.Fprintf(e.stdout, "%s\n", count(bad, "problem"))
		}
	}
	if bad > 0 {
		return exitStatus(1)
	}
	return nil
}

func (e *env) sayFinding(f finding, asJSON bool) {
	if asJSON {
		_ = e.printJSON(f) // a broken pipe shows at the end
		return
	}
	p := paint{e.colour()}
	mark := p.green("ok")
	if !f.OK {
		mark = p.red("!!")
	}
	fmt.Fprintf(e.stdout, "%s  %-14s %s\n", mark, f.What, oneLine(f.Text))
	if f.Fix != "" {
		fmt.Fprintf(e.stdout, "    %-14s %s\n", "", p.cyan(oneLine(f.Fix)))
	}
}

// refusals says which results of tools a client's version did not let hooks
// shorten; they are left alone for some days.
func (e *env) refusals() []finding {
	var out []finding
	for _, r := range hooks.Refusals(e.paths(), e.now()) {
		out = append(out, good("rewriting", "%s did not show what hooks made of a result (%s) at %s; it gets the full text for a week", r.Client, r.Form, strings.TrimSpace(stamp(r.Time, e.now()))))
	}
	return out
}
