package commands

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/doctor"

	"github.com/spf13/cobra"
)

// commit and built are set by the linker when scripts/dist builds a release.
var commit, built string

func versionCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "version", Short: "print the version",
		Example: `  cachebro version
  cachebro version --json`,
		Args: e.Args(0, 0),
	}

	fs := cmd.Flags()
	asJSON := fs.Bool("json", false, "print JSON")
	return cli.Does(cmd, func(_ context.Context, _ []string) error {
		facts := map[string]any{"version": cli.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH}
		if k, err := doctor.TheKernel(); err == nil {
			facts["kernel"] = k
		}
		if built != "" {
			facts["revision"], facts["built"] = commit, built
		}
		if info, ok := debug.ReadBuildInfo(); ok {
			for _, s := range info.Settings {
				switch s.Key {
				case "vcs.revision":
					facts["revision"] = s.Value
				case "vcs.time":
					facts["built"] = s.Value
				}
			}
		}
		if *asJSON {
			return e.PrintJSON(facts)
		}
		_, err := fmt.Fprintf(e.Stdout, "cachebro %s %s %s/%s\n", cli.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return err
	})
}
