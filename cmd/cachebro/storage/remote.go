package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/machines"
	"cachebro/store/leaf/text"
	"cachebro/store/remote"
	"cachebro/store/wire"
)

// RemoteCommand is cachebro remote.
func RemoteCommand() cli.Command {
	return cli.Command{
		Name: "remote", Group: cli.GroupStore, Args: "[add BUCKET | rm | send | secrets | du | fsck | prune]", Short: "keep a copy of the history in a bucket, while you work",
		Long: `Every version goes to an S3-compatible bucket some seconds after it was stored,
and the last ones when a session ends and at umount. Without arguments it says what
was sent and what was not. cachebro resume brings a history back on another machine.
Machines that work on one project may share a prefix; each writes its own part.

Files that git ignores and files that look like secrets (.env, *.pem, id_rsa …) stay
here; secrets lists them, and the names that count, before anything is sent. All else goes as it is: who may read the bucket may read the project. With
--recipient it is encrypted for age keys (age-keygen makes them), and the bucket shows
sizes, counts and times only. Keep the identity off this machine, or at least out of
the project: only reading needs it (resume --identity).

Credentials come from the environment (AWS_ACCESS_KEY_ID …) in which the project was
mounted, from ~/.aws/credentials, or from the machine's own role, and are kept
nowhere. The address may say more: ?endpoint=https://HOST&region=…&path-style=1&ca=FILE

du, fsck and prune look after the bucket of this project, or the one that is named. du
says what each machine's history takes. fsck compares what lies there with what was
sent, with --whole all contents too. prune drops contents that were sent longer ago than
--older and have been replaced since: the versions stay in the log, the newest of each
file keeps its content. It marks first; what was marked a day ago or more (--grace) is
deleted, so run it daily. Who sends or reads meanwhile loses nothing.

Examples:
  cachebro remote secrets
  cachebro remote add s3://backups/app
  cachebro remote add 's3://app?endpoint=https://minio.example&path-style=1'
  cachebro remote add --recipient age1… s3://backups/app
  cachebro remote
  cachebro remote send
  cachebro remote du s3://backups/app
  cachebro remote prune --older 30d --dry-run`,
		Run: runRemote,
	}
}

// sendWithin is how long remote send waits.
const sendWithin = 5 * time.Minute

func runRemote(ctx context.Context, e *cli.Env) error {
	fs := e.Flags()
	dir, asJSON := storeFlags(fs)
	to := fs.StringArray("recipient", nil, "encrypt for this age recipient (`age1…`), or for several; with add")
	identity := machines.IdentityFlag(e, fs)
	var l looking
	fs.BoolVar(&l.whole, "whole", false, "read all contents; with fsck")
	fs.StringVar(&l.older, "older", "", "drop what was sent longer ago than this `AGE` (30d, 12w) and was replaced since; with prune")
	fs.StringVar(&l.grace, "grace", "", "delete what was marked longer ago than this `AGE` (default 24h); with prune")
	fs.BoolVar(&l.dry, "dry-run", false, "say what would be done, do nothing; with prune")
	args, err := e.Parse(fs, 0, 2)
	if err != nil {
		return err
	}
	what := cli.First(args, "")
	for name, with := range map[string]string{"recipient": "add", "whole": "fsck", "older": "prune", "grace": "prune", "dry-run": "prune"} {
		if fs.Changed(name) && what != with {
			return e.Usagef("remote: --%s goes with %s", name, with)
		}
	}
	if look := map[string]func(context.Context, *cli.Env, *remote.Bucket, looking) error{"du": remoteDu, "fsck": remoteFsck, "prune": remotePrune}[what]; look != nil {
		address, err := addressOf(ctx, e, cli.First(args[1:], ""), *dir)
		if err != nil {
			return err
		}
		b, _, err := dialed(e, address, *identity)
		if err != nil {
			return err
		}
		l.json = *asJSON
		err = look(ctx, e, b, l)
		if errors.Is(err, remote.ErrLocked) {
			err = cli.Hintf(machines.IdentityHint, "%w", err)
		}
		return err
	}
	q := wire.RemoteRequest{}
	switch {
	case len(args) == 0:
	case len(args) == 2 && args[0] == "add":
		p, err := remote.ParsePlace(args[1], e.Getenv)
		if err != nil {
			return e.Usagef("remote add: %v", err)
		}
		if err := remote.CheckRecipients(*to); err != nil {
			return e.Usagef("remote add: %v", err)
		}
		q.Do, q.URL, q.Recipients = "add", p.String(), *to
		q.Name, err = os.Hostname()
		if err != nil {
			return err
		}
	case len(args) == 1 && args[0] == "secrets":
		return remoteSecrets(ctx, e, *dir, *asJSON)
	case len(args) == 1 && args[0] == "rm":
		q.Do = "rm"
	case len(args) == 1 && args[0] == "send":
		q.Do, q.Within = "send", sendWithin
	default:
		return e.Usagef("remote: add s3://BUCKET/PREFIX, rm, send, secrets, du, fsck or prune")
	}
	t, c, err := e.Open(ctx, *dir)
	if err != nil {
		return err
	}
	defer c.Close()
	if q.Do == "send" || q.Do == "add" {
		c.Close()
		c, err = e.ConnectAs(ctx, t.Root, "cli", wire.Timeouts{Answer: sendWithin + time.Minute})
		if err != nil {
			return err
		}
		defer c.Close()
	}
	st, err := wire.Call[wire.RemoteState](ctx, c, wire.MRemote, q)
	if err != nil {
		return err
	}
	if *asJSON {
		err = e.PrintJSON(st)
	} else {
		printRemote(e, st, q.Do)
	}
	if err == nil && q.Do == "send" && (st.Unsent > 0 || st.URL == "") {
		return cli.ExitStatus(1)
	}
	return err
}

func printRemote(e *cli.Env, st wire.RemoteState, did string) {
	w := e.Stdout
	if st.URL == "" {
		fmt.Fprintln(w, "the history stays on this machine (cachebro remote add s3://BUCKET/PREFIX)")
		if did == "rm" {
			fmt.Fprintln(w, "what was sent stays in the bucket")
		}
		return
	}
	fmt.Fprintln(w, shortly(st.URL))
	fmt.Fprintf(w, "sent:     %s in %s, %s", text.Count(int(st.Versions), "version"), text.Count(int(st.Segments), "segment"), text.Bytes(st.Bytes))
	if !st.Last.IsZero() {
		fmt.Fprintf(w, ", last %s", cli.Stamp(st.Last, e.Now()))
	}
	fmt.Fprintf(w, "\nnot yet:  %s\nmachine:  %s\n", text.Count(int(st.Unsent), "version"), st.Machine)
	if n := len(st.Recipients); n > 0 {
		fmt.Fprintf(w, "encrypted for %s\n", text.Count(n, "age recipient"))
	}
	if st.Note != "" {
		fmt.Fprintf(w, "note:     %s\n", cli.OneLine(st.Note))
	}
	if st.Error != "" {
		fmt.Fprintf(w, "%s: %s\n", e.Paint().Red("fails"), cli.OneLine(st.Error))
		if st.Hint != "" {
			fmt.Fprintf(w, "  %s\n", st.Hint)
		}
	}
}

// sayInBucket warns that a bucket keeps what it has.
func sayInBucket(ctx context.Context, e *cli.Env, root string) error {
	c, err := e.Connect(ctx, root)
	if err != nil {
		return err
	}
	defer c.Close()
	st, err := wire.Call[wire.RemoteState](ctx, c, wire.MRemote, wire.RemoteRequest{})
	if err == nil && st.URL != "" {
		fmt.Fprintf(e.Stderr, "note: what was sent to the bucket stays there (%s)\n", shortly(st.URL))
	}
	return err
}

// shortly is an address as a person reads it.
func shortly(url string) string {
	if p, err := remote.ParsePlace(url, func(string) string { return "" }); err == nil {
		return cli.Quote(p.Short())
	}
	return cli.Quote(url)
}

// MachinesCommand is cachebro machines.
func MachinesCommand() cli.Command {
	return cli.Command{
		Name: "machines", Group: cli.GroupStore, Args: "[s3://BUCKET/PREFIX]", Short: "who keeps a history in a bucket",
		Long: `One line for each history, the newest last: id, host, directory, versions, and when
something was sent last. Without an address: in the bucket of this project. The host
and directory of an encrypted history are shown to who has its key.

Examples:
  cachebro machines
  cachebro machines s3://backups/app`,
		Run: runMachines,
	}
}

func runMachines(ctx context.Context, e *cli.Env) error {
	fs := e.Flags()
	dir, asJSON := storeFlags(fs)
	identity := machines.IdentityFlag(e, fs)
	args, err := e.Parse(fs, 0, 1)
	if err != nil {
		return err
	}
	place, err := addressOf(ctx, e, cli.First(args, ""), *dir)
	if err != nil {
		return err
	}
	_, heads, _, err := bucketOf(ctx, e, place, *identity)
	if err != nil {
		return err
	}
	if *asJSON {
		for _, h := range heads {
			h.Segments = nil
			if err := e.PrintJSON(h); err != nil {
				return err
			}
		}
		return nil
	}
	for _, h := range heads {
		fmt.Fprintf(e.Stdout, "%s  %s  %s  %s, last %s\n", h.Machine.ID, cli.Quote(h.Machine.Called()), cli.Quote(cmp.Or(h.Machine.Root, "(encrypted)")), text.Count(int(h.Versions), "version"), cli.Stamp(h.Time, e.Now()))
	}
	return nil
}

// addressOf is an address, or where none is given that of the project.
func addressOf(ctx context.Context, e *cli.Env, address, dir string) (string, error) {
	if address != "" {
		return address, nil
	}
	_, c, err := e.Open(ctx, dir)
	if err != nil {
		return "", err
	}
	defer c.Close()
	st, err := wire.Call[wire.RemoteState](ctx, c, wire.MRemote, wire.RemoteRequest{})
	if err == nil && st.URL == "" {
		err = cli.Hintf("name a bucket: s3://BUCKET/PREFIX", "the history of this project stays on this machine")
	}
	return st.URL, err
}

// dialed is the bucket at an address.
func dialed(e *cli.Env, address, identity string) (*remote.Bucket, remote.Place, error) {
	p, err := remote.ParsePlace(address, e.Getenv)
	if err != nil {
		return nil, p, e.Usagef("%s: %v", e.Name, err)
	}
	b, err := remote.Dial(p)
	if err == nil && identity != "" {
		err = b.Unlock(identity)
	}
	return b, p, err
}

func bucketOf(ctx context.Context, e *cli.Env, address, identity string) (*remote.Bucket, []remote.Head, remote.Place, error) {
	b, p, err := dialed(e, address, identity)
	if err != nil {
		return nil, nil, p, err
	}
	heads, err := b.Heads(ctx)
	if err == nil && len(heads) == 0 {
		err = cli.Hintf("look at the bucket's prefix", "no history was sent to %s", cli.Quote(address))
	}
	return b, heads, p, err
}
