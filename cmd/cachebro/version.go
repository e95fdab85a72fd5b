package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"cachebro/cmd/cachebro/fastpath"
)

// version is the one place that says which cachebro this is.
const version = fastpath.Version

// commit and built are set by the linker where a package is made (scripts/dist).
var commit, built string

func versionCommand() command {
	return command{
		name: "version", group: groupSetup, short: "print the version",
		long: "Examples:\n  cachebro version\n  cachebro version --json",
		run: func(_ context.Context, e *env) error {
			fs := e.flags()
			asJSON := fs.Bool("json", false, "print JSON")
			if _, err := e.parse(fs, 0, 0); err != nil {
				return err
			}
			facts := map[string]any{"version": version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH}
			if k, err := theKernel(); err == nil {
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
				return e.printJSON(facts)
			}
			_, err := fmt.Fprintf(e.stdout, "cachebro %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
