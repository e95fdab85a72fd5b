package doctor

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/leaf/text"
	"cachebro/store/remote"
	"cachebro/store/wire"
)

const remoteWithin = 10 * time.Second

// remoteFindings reports whether the history is sent to its bucket, and whether the bucket's list
// of machines is complete.
func remoteFindings(ctx context.Context, e *cli.Env, t cli.Target, r wire.RemoteState) []Finding {
	if r.Error != "" {
		fix := cmp.Or(r.Hint, "cachebro remote send --dir "+cli.Arg(t.Root)+" tries again")
		return []Finding{wrong("remote", fix, "%s not yet in the bucket: %s", text.Count(int(r.Unsent), "version"), r.Error)}
	}
	out := []Finding{good("remote", "%s sent, %d not yet", text.Count(int(r.Versions), "version"), r.Unsent)}
	if r.Versions == 0 {
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, remoteWithin)
	defer cancel()
	p, err := remote.ParsePlace(r.URL, e.Getenv)
	var b *remote.Bucket
	if err == nil {
		b, err = remote.Dial(p)
	}
	var all []remote.Machine
	var missing []string
	if err == nil {
		all, missing, _, err = b.AllMachines(ctx)
	}
	switch {
	case errors.Is(err, remote.ErrForged):
		return append(out, wrong("machines", "cachebro remote fsck --dir "+cli.Arg(t.Root), "%v", err))
	case err != nil: // a machine that only sends may lack the right to read
		return append(out, good("machines", "the list of machines was not checked: %v", err))
	}
	listed := slices.ContainsFunc(all, func(m remote.Machine) bool { return m.ID == r.Machine })
	if !listed {
		out = append(out, wrong("machines", "cachebro remote add "+cli.Arg(r.URL)+" --dir "+cli.Arg(t.Root), "the bucket's list of machines lacks this machine, so other machines and cachebro-fleet do not see it"))
	}
	missing = slices.DeleteFunc(missing, func(id string) bool { return id == r.Machine })
	if len(missing) > 0 {
		out = append(out, wrong("machines", "cachebro remote add, on those machines", "the bucket's list of machines lacks %s that sent something: %s", text.Count(len(missing), "machine"), strings.Join(missing, ", ")))
	}
	return out
}
