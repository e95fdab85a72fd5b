package doctor

import (
	"context"
	"fmt"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/setup"
	"cachebro/hooks"
	"cachebro/hooks/clients"
	"cachebro/hooks/reshape"
	"cachebro/store/leaf/text"

	"github.com/spf13/cobra"
)

// DoctorCommand returns the command cachebro doctor.
func DoctorCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", Short: "does everything work here? each problem with its remedy",
		Long: `Looks at FUSE, the kernel, the mount (with a canary file that is written, seen,
undone and gone again), the store and its space, the agents' configuration, and
what is not kept and why. Exit status 1 when something is wrong.`,
		Example: `  cachebro doctor
  cachebro doctor --json | jq 'select(.ok | not)'`,
		Args: e.Args(0, 0),
	}

	fs := cmd.Flags()
	asJSON := fs.Bool("json", false, "one JSON object per Finding and line")
	noCanary := fs.Bool("no-canary", false, "write no file into the project")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		bad := 0
		findings(ctx, e, ".", !*noCanary, func(all ...Finding) {
			for _, f := range all {
				if !f.OK {
					bad++
				}
				sayFinding(e, f, *asJSON)
			}
		})
		if !*asJSON {
			if bad == 0 {
				fmt.Fprintln(e.Stdout, "all is well")
			} else {
				fmt.Fprintf(e.Stdout, "%s\n", text.Count(bad, "problem"))
			}
		}
		if bad > 0 {
			return cli.ExitStatus(1)
		}
		return nil
	}
	return cmd
}

// Finding is one thing that doctor looked at; Fix mends it.
type Finding = clients.Finding

func good(what, format string, args ...any) Finding {
	return Finding{What: what, OK: true, Text: fmt.Sprintf(format, args...)}
}

func wrong(what, fix, format string, args ...any) Finding {
	return Finding{What: what, Text: fmt.Sprintf(format, args...), Fix: fix}
}

// wrongErr returns a finding made of an error. The error's hint, if any, is the fix.
func wrongErr(what, fix string, err error) Finding {
	if h := cli.HintOf(err); h != "" {
		fix = h
	}
	return Finding{What: what, Text: err.Error(), Fix: fix}
}

// Look returns what doctor finds, except for what only a test file in the project would show.
func Look(ctx context.Context, e *cli.Env, dir string) (all []Finding) {
	findings(ctx, e, dir, false, func(more ...Finding) { all = append(all, more...) })
	return all
}

// findings looks at everything and passes each finding to say at once.
func findings(ctx context.Context, e *cli.Env, dir string, canary bool, say func(...Finding)) {
	say(doctorMachine()...)
	t, err := e.Locate(dir)
	if err != nil {
		say(wrongErr("project", "", err))
	} else {
		say(doctorSource(e, t)...)
		say(doctorProject(ctx, e, t, canary)...)
	}
	s, err := setup.Setup(e, setup.InitFlags{}, "")
	if err != nil {
		say(wrongErr("clients", "", err))
	} else {
		say(clients.CheckClients(ctx, s)...)
	}
	say(refusals(e)...)
	say(outputs())
}

func sayFinding(e *cli.Env, f Finding, asJSON bool) {
	if asJSON {
		_ = e.PrintJSON(f) // a broken pipe shows at the end
		return
	}
	p := e.Paint()
	mark := p.Green("ok")
	if !f.OK {
		mark = p.Red("!!")
	}
	fmt.Fprintf(e.Stdout, "%s  %-14s %s\n", mark, f.What, cli.OneLine(f.Text))
	if f.Fix != "" {
		fmt.Fprintf(e.Stdout, "    %-14s %s\n", "", p.Cyan(cli.OneLine(f.Fix)))
	}
}

// refusals reports tool results that a client's version did not let hooks shorten. Such
// results are left alone for some days.
func refusals(e *cli.Env) []Finding {
	var out []Finding
	for _, r := range hooks.Refusals(e.Paths(), e.Now()) {
		out = append(out, good("rewriting", "%s did not show what hooks made of a result (%s) at %s; it gets the full text for a week", r.Client, r.Form, cli.Stamp(r.Time, e.Now())))
	}
	return out
}

// outputs reports that commands' outputs reach an agent in a shortened form.
func outputs() Finding {
	return good("outputs", "what commands print reaches an agent in fewer words, by %s; nothing is lost by it (cachebro help init: --no-reshape)", text.Count(len(reshape.Rules()), "rule"))
}
