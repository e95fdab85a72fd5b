package doctor

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/history"
	"cachebro/cmd/cachebro/setup"
)

// doctorGit reports whether the repository is outside the project, and whether git asks cachebro
// which files changed.
func doctorGit(ctx context.Context, e *cli.Env, t cli.Target) []Finding {
	const what = "git"
	var out []Finding
	if apart := history.GitApart(t.Point); apart != "" {
		out = append(out, good(what, "%s", apart))
	}
	if _, err := setup.AskGit(e, t.Point, "rev-parse", "--absolute-git-dir"); err != nil {
		return out
	}
	return append(out, gitAsks(ctx, e, t)...)
}

func gitAsks(ctx context.Context, e *cli.Env, t cli.Target) []Finding {
	const what = "git"
	set, err := setup.AskGit(e, t.Point, "config", "--show-scope", "--get", "core.fsmonitor")
	scope, command, _ := strings.Cut(set, "\t")
	if err != nil || command == "" {
		f := good(what, "looks at every file for each git status")
		f.Fix = "cachebro init --git-fsmonitor " + cli.Arg(t.Root) + " lets git ask the mount instead"
		return []Finding{f}
	}
	// Never run a command that the repository itself configures, whatever its name.
	if !strings.HasSuffix(command, " fsmonitor") || scope != "global" && scope != "system" {
		return []Finding{good(what, "asks another program what changed: core.fsmonitor=%s", command)}
	}
	if version, _ := setup.AskGit(e, t.Point, "config", "--get", "core.fsmonitorHookVersion"); version != "2" {
		return []Finding{wrong(what, "cachebro init --git-fsmonitor "+cli.Arg(t.Root), "core.fsmonitor is cachebro's, but core.fsmonitorHookVersion is %s, not 2", cli.Quote(version))}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, "sh", "-c", command+` "$@"`, "cachebro", "2", "")
	cmd.Dir, cmd.Env = t.Point, e.Vars
	cmd.Stderr = &errs
	if out, err := cmd.Output(); err != nil || !bytes.HasPrefix(out, []byte("cachebro:")) {
		return []Finding{wrong(what, "cachebro init --git-fsmonitor "+cli.Arg(t.Root), "is configured to ask cachebro what changed, but gets no answer from this command, and so looks at every file: %s", command)}
	}
	return []Finding{good(what, "asks the mount what changed")}
}
