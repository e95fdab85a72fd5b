package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/doctor"
)

// commit and built are set by the linker where a package is made (scripts/dist).
var commit, built string

func versionCommand() cli.Command {
	return cli.Command{
		Name: "version", Group: cli.GroupSetup, Short: "print the version",
		Long: "Examples:\n  cachebro version\n  cachebro version --json",
		Run: func(_ context.Context, e *cli.Env) error {
			fs := e.Flags()
			asJSON := fs.Bool("json", false, "print JSON")
			if _, err := e.Parse(fs, 0, 0); err != nil {
				return err
			}
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
		},
	}
}
