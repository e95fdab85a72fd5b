package mounting

import (
	"context"
	"fmt"
	"slices"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
)

// LabelCommand returns the command cachebro label.
func LabelCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "label [NAME [MOMENT]]", Short: "give a name to a moment, to return to it later",
		Long: `Gives a name to the present moment or to MOMENT. log and the web pages show the name, and
restore --at, at, fork --at, --since and --until accept it. Without a NAME, all labels are
listed. If the label exists already, it is moved to the new moment.`,
		Example: `  cachebro label "before the refactoring"
  cachebro label good 812
  cachebro label lunch 12:40
  cachebro restore --at "before the refactoring"
  cachebro diff --since good
  cachebro label --remove good`,
		Args: e.Args(0, 2),
	}

	flags := cmd.Flags()
	remove := flags.Bool("remove", false, "remove the label")
	asJSON := flags.Bool("json", false, "list the labels as one JSON object per line")
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		if *remove && len(args) != 1 {
			return e.Usagef("label: --remove takes one name")
		}
		t, c, err := e.Open(ctx, ".")
		if err != nil {
			return err
		}
		defer c.Close()
		state, err := e.Paths().State(t.Root)
		if err != nil {
			return err
		}
		// Without the lock, one of two simultaneous commands could overwrite the other's label.
		unlock, err := cli.LockDir(state)
		if err != nil {
			return err
		}
		defer unlock()
		all, err := cli.Labels(state)
		if err != nil {
			return cli.Hintf("rm "+cli.Arg(state)+"/labels.json", "the labels cannot be read: %w", err)
		}
		if len(args) == 0 {
			return listLabels(e, all, *asJSON)
		}
		name := args[0]
		rest := slices.DeleteFunc(slices.Clone(all), func(l cli.Label) bool { return l.Name == name })
		if *remove {
			if len(rest) == len(all) {
				return cli.Hintf("cachebro label lists them", "there is no label %s", cli.Quote(name))
			}
			return cli.WriteLabels(state, rest)
		}
		if err := e.CheckLabel(name); err != nil {
			return err
		}
		var m wire.Moment
		if len(args) == 2 {
			m, err = Moment(ctx, e, c, args[1])
		} else {
			m, err = wire.Call[wire.Moment](ctx, c, wire.MMoment, wire.MomentQuery{At: e.Now()})
		}
		if err != nil {
			return err
		}
		if m.At.IsZero() {
			m.At = e.Now()
		}
		l := cli.Label{Name: name, Seq: m.Seq, At: m.At, Made: e.Now()}
		if err := cli.WriteLabels(state, append(rest, l)); err != nil {
			return err
		}
		_, err = fmt.Fprintf(e.Stdout, "%s now names the moment of version %d, %s (cachebro restore --at %s)\n", cli.Quote(name), l.Seq, cli.Stamp(l.At, e.Now()), cli.Arg(name))
		return err
	})
}

func listLabels(e *cli.Env, all []cli.Label, asJSON bool) error {
	for _, l := range all {
		if asJSON {
			if err := e.PrintJSON(l); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(e.Stdout, "%-6d %s  %s\n", l.Seq, cli.Stamp(l.At, e.Now()), cli.Quote(l.Name))
	}
	return nil
}
