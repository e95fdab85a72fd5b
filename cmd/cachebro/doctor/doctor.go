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
		Use: "doctor", Short: "check that everything works, and name a fix for each problem",
		Long: `Checks FUSE, the kernel, the mount (with a canary file that is written, recorded,
undone and removed again), the store and its free space, and the agents'
configuration, and lists what is not recorded and why. The exit status is 1 if
something is wrong.`,
		Example: `  cachebro doctor
  cachebro doctor --json | jq 'select(.ok | not)'`,
		Args: e.Args(0, 0),
	}

	fs := cmd.Flags()
	asJSON := fs.Bool("json", false, "print each finding as one line of JSON")
	noCanary := fs.Bool("no-canary", false, "do not write a test file into the project")
	return cli.Does(cmd, func(ctx context.Context, _ []string) error {
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
	})
}

// Finding is the result of one check of doctor. Fix is the remedy for a problem.
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

// QuickFindings returns the findings of doctor, without the check that writes a test file into the
// project.
func QuickFindings(ctx context.Context, e *cli.Env, dir string) (all []Finding) {
	findings(ctx, e, dir, false, func(more ...Finding) { all = append(all, more...) })
	return all
}

// findings makes all checks. As soon as a check is done, it calls report with the findings.
func findings(ctx context.Context, e *cli.Env, dir string, canary bool, report func(...Finding)) {
	report(doctorMachine()...)
	t, err := e.Locate(dir)
	if err != nil {
		report(wrongErr("project", "", err))
	} else {
		report(doctorSource(e, t)...)
		report(doctorProject(ctx, e, t, canary)...)
	}
	s, err := setup.Setup(e, setup.InitFlags{}, "")
	if err != nil {
		report(wrongErr("clients", "", err))
	} else {
		report(clients.CheckClients(ctx, s)...)
	}
	report(refusals(e)...)
	report(outputs())
}

func sayFinding(e *cli.Env, f Finding, asJSON bool) {
	if asJSON {
		_ = e.PrintJSON(f) // a broken pipe is reported at the end
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

// refusals reports tool results that a client's version did not let hooks shorten. Hooks leave such
// results alone for some days.
func refusals(e *cli.Env) []Finding {
	var out []Finding
	for _, r := range hooks.Refusals(e.Paths(), e.Now()) {
		out = append(out, good("rewriting", "%s ignored a result that hooks had shortened (%s) at %s, so it gets full results for a week", r.Client, r.Form, cli.Stamp(r.Time, e.Now())))
	}
	return out
}

// outputs reports how many rules shorten the outputs of commands for agents.
func outputs() Finding {
	return good("outputs", "the outputs of commands are shortened for agents, by %s, without losing information (cachebro help init: --no-reshape)", text.Count(len(reshape.Rules()), "rule"))
}
