package knowledge

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
)

// OutputCommand returns the command cachebro output.
func OutputCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "output ID", Short: "print the whole output of a command that an agent saw shortened",
		Long: `If the output of an agent's command contains passed tests, stack frames of libraries or
hints of git, the agent sees only how many there were, and an ID. The whole output is kept
in memory while the session lasts; if there are too many outputs, the oldest is dropped.`,
		Example: `  cachebro output 3f2a9c01
  cachebro output 3f2a9c01 --lines 40-60
  cachebro output 3f2a9c01 --grep 'PASS.*Undo'`,
		Args: e.Args(1, 1),
	}

	fs := cmd.Flags()
	lines := fs.String("lines", "", "only these lines: 40-60, 40- or 40")
	pattern := fs.String("grep", "", "only lines that match this regular expression, with their numbers")
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		var err error
		first, last, ok := lineRange(*lines)
		if !ok {
			return e.Usagef("output: --lines %s: want 40-60, 40- or 40", cli.Quote(*lines))
		}
		var re *regexp.Regexp
		if *pattern != "" {
			re, err = regexp.Compile(*pattern)
			if err != nil {
				return e.Usagef("output: --grep: %v", err)
			}
		}
		_, c, err := e.Open(ctx, ".")
		if err != nil {
			return err
		}
		defer c.Close()
		text, err := c.Call(ctx, wire.MOutput, wire.OutputRequest{ID: args[0]}, nil, nil)
		if err != nil {
			return err
		}
		n := 0
		for l := range bytes.Lines(text) {
			n++
			outside := n < first || last > 0 && n > last
			if outside || re != nil && !re.Match(bytes.TrimRight(l, "\r\n")) {
				continue
			}
			if re != nil {
				fmt.Fprintf(e.Stdout, "%d:", n)
			}
			if _, err := e.Stdout.Write(l); err != nil {
				return err
			}
		}
		return nil
	})
}

// lineRange parses 40-60, 40- and 40. last is 0 if the range has no end.
func lineRange(s string) (first, last int, ok bool) {
	if s == "" {
		return 1, 0, true
	}
	a, b, ranged := strings.Cut(s, "-")
	first, err := strconv.Atoi(a)
	if err != nil || first < 1 {
		return 0, 0, false
	}
	switch {
	case !ranged:
		return first, first, true
	case b == "":
		return first, 0, true
	}
	last, err = strconv.Atoi(b)
	return first, last, err == nil && last >= first
}
