package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/daemon"
	"cachebro/cmd/cachebro/machines"
	"cachebro/cmd/cachebro/mounting"
	"cachebro/store"
	"cachebro/store/leaf/text"
	"cachebro/store/remote"

	"github.com/spf13/cobra"
)

// resumeCommand returns the command cachebro remote resume.
func resumeCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "resume s3://BUCKET/PREFIX DIR", Short: "restore a project and its history from a bucket",
		Long: `Fills DIR with the project's files as they were last, or at the moment of --at, and gives
it the whole history. DIR must be missing, empty, or contain only a .git, as git clone
--no-checkout makes it; .git is never changed. Files that were not sent (ignored files,
secrets, .git) are not restored.

If several machines have sent a history, the one that sent last is used. Everything is
verified before anything changes. With --send, or after cachebro remote add, this
machine continues to send the history. If the other machine has sent nothing for ten
minutes, this machine takes over its id, and the other machine can no longer send.
Otherwise this machine sends under a new id.`,
		Example: `  cachebro remote resume s3://backups/app ~/src/app
  cachebro remote resume --identity ~/key.txt --send s3://backups/app ~/src/app
  cachebro remote resume --at 2h s3://backups/app ~/src/app
  cachebro remote resume --machine build-7 s3://backups/app ~/src/app`,
		Args: e.Args(2, 2),
	}

	flags := cmd.Flags()
	at := flags.String("at", "", "restore the files as of this `TIME` (12:40, 2026-05-01 12:40, 2h)")
	name := flags.String("machine", "", "id or name of the machine whose history to restore")
	send := flags.Bool("send", false, "continue to send the history, as after remote add")
	identity := machines.IdentityFlag(e, flags)
	asJSON := flags.Bool("json", false, "print JSON")
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		moment, err := e.TimeFlag("at", *at, ".")
		if err != nil {
			return err
		}
		b, place, err := dialed(e, args[0], *identity)
		if err != nil {
			return err
		}
		h, err := chosen(ctx, b, args[0], *name)
		if err != nil {
			return err
		}
		h, err = b.Latest(ctx, h.Machine.ID)
		if err != nil {
			return err
		}
		root, made, err := emptyDir(e, args[1])
		if err != nil {
			return err
		}
		r := resumed{Root: root, Machine: h.Machine.ID, Name: h.Machine.Name, From: h.Machine.Root}
		sending := importFromBucket(ctx, e, b, place, h, moment, *send, &r)
		if sending != nil && !errors.Is(sending, daemon.ErrNotSending) {
			if made {
				_ = os.Remove(root) // if it is still empty
			}
			return sending
		}
		if *asJSON {
			err = e.PrintJSON(r)
		} else {
			fmt.Fprintf(e.Stdout, "%s has %s and %s of %s on %s\n", cli.Quote(root), text.Count(r.Files, "file"), text.Count(int(r.Versions), "version"), cli.Quote(r.From), cli.Quote(r.Name))
			for _, l := range r.Lost {
				fmt.Fprintf(e.Stderr, "not restored: %s\n", l)
			}
			if r.Note != "" {
				fmt.Fprintln(e.Stdout, cli.OneLine(r.Note))
			}
			fmt.Fprintf(e.Stdout, "cachebro up %s continues from there\n", cli.Arg(root))
		}
		if err == nil && sending != nil {
			return cli.Hintf("cachebro remote add "+cli.Arg(args[0])+" --dir "+cli.Arg(root), "%w", sending)
		}
		if err == nil && len(r.Lost) > 0 {
			return cli.ExitStatus(1)
		}
		return err
	})
}

type resumed struct {
	Root     string   `json:"root"`
	Machine  string   `json:"machine"`
	Name     string   `json:"name"` // of the host
	From     string   `json:"from"` // the project's root on that machine
	Seq      uint64   `json:"seq"`  // the version at that moment
	Versions uint64   `json:"versions"`
	Files    int      `json:"files"`
	Lost     []string `json:"lost,omitempty"` // files whose content is missing
	Note     string   `json:"note,omitempty"` // a remark on the id under which the history is sent from now on
}

// chosen returns the history of the machine called name. If name is "", it returns the history of
// the machine that sent something last.
func chosen(ctx context.Context, b *remote.Bucket, address, name string) (h remote.Head, err error) {
	heads, bad, err := b.Heads(ctx)
	switch {
	case err != nil:
		return h, err
	case len(heads)+len(bad) == 0:
		return h, nothingSent(address)
	case name == "" && len(bad) > 0: // that machine may have sent something last
		return h, cli.Hintf("--machine selects one of the others: cachebro remote machines "+cli.Arg(address), "%w", errors.Join(bad...))
	case name == "":
		return heads[len(heads)-1], nil
	}
	var all []remote.Machine
	for _, h := range heads {
		all = append(all, h.Machine)
	}
	id, err := machines.Choose(all, name)
	if err != nil && len(bad) > 0 {
		err = fmt.Errorf("%w; %w", err, errors.Join(bad...))
	}
	if err != nil {
		return h, err
	}
	return heads[slices.IndexFunc(heads, func(h remote.Head) bool { return h.Machine.ID == id })], nil
}

// emptyDir checks that dir is empty except for a .git, and creates it if it is missing.
func emptyDir(e *cli.Env, dir string) (root string, made bool, err error) {
	abs, err := e.Abs(dir)
	if err != nil {
		return "", false, err
	}
	if err := os.Mkdir(abs, 0o777); err == nil {
		made = true
	} else if !errors.Is(err, fs.ErrExist) {
		return "", false, err
	}
	root, err = mounting.ExistingDir(e, abs)
	if err != nil {
		return "", made, err
	}
	all, err := os.ReadDir(root)
	for _, f := range all {
		if f.Name() != ".git" {
			return root, made, cli.Hintf("name another directory", "%s is not empty", cli.Quote(dir))
		}
	}
	return root, made, err
}

// importFromBucket imports the history of a machine from the bucket, then writes the files.
func importFromBucket(ctx context.Context, e *cli.Env, b *remote.Bucket, place remote.Place, h remote.Head, at time.Time, send bool, r *resumed) error {
	err := giveHistory(ctx, e, r.Root, func(state string, limits store.Options) (err error) {
		r.Versions, err = daemon.ResumeHistory(ctx, state, cli.Version, b, h, limits)
		return err
	})
	if errors.Is(err, remote.ErrLocked) {
		return cli.Hintf(machines.IdentityHint, "resume: %w", err)
	}
	if errors.Is(err, remote.ErrMissing) || errors.Is(err, remote.ErrForged) {
		return cli.Hintf(fmt.Sprintf("the part before it can be read from a project that sends to this bucket: cachebro log --machine %s, cachebro restore --machine %s --at NUMBER", h.Machine.ID, h.Machine.ID), "resume: %w", err)
	}
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	err = fillFrom(ctx, e, place, h, at, send, r)
	if err != nil && !errors.Is(err, daemon.ErrNotSending) {
		return cli.Hintf(fmt.Sprintf("cachebro restore --at %d --dir %s", r.Seq, cli.Arg(r.Root)), "the history was restored, but not all files: %w", err)
	}
	return err
}

// fillFrom writes the files of root from its imported history.
func fillFrom(ctx context.Context, e *cli.Env, place remote.Place, h remote.Head, at time.Time, send bool, r *resumed) error {
	state, err := e.Paths().MakeState(r.Root)
	if err != nil {
		return err
	}
	a, note, err := daemon.FillFromHistory(ctx, state, r.Root, cli.Version, daemon.Filling{Place: place, Head: h, At: at, Send: send})
	r.Seq, r.Files, r.Note = a.Seq, a.Files, note
	for _, l := range a.Lost {
		r.Lost = append(r.Lost, fmt.Sprintf("%s (%s)", cli.Quote(string(l.Path)), cli.OneLine(l.Why)))
	}
	if a.More > 0 {
		r.Lost = append(r.Lost, fmt.Sprintf("%d more", a.More))
	}
	return err
}
