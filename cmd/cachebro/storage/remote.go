package storage

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/machines"
	"cachebro/store/leaf/text"
	"cachebro/store/remote"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
)

// RemoteCommand returns the command cachebro remote.
func RemoteCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "remote", Short: "send a copy of the history to a bucket while you work",
		Long: `Every version is sent to an S3-compatible bucket a few seconds after it was stored;
what is left is sent when a session ends and at umount. Without a sub-command, remote
shows what was sent and what was not. cachebro remote resume restores a history on
another machine. Machines that work on the same project may share a prefix, under which
each writes its own part.

Files that git ignores and files that look like secrets (.env, *.pem, id_rsa …) are not
sent. Run remote secrets before anything is sent: it lists the secret-looking files and
the name patterns. Everything else is sent unencrypted, so whoever can read the bucket can
read the project. With remote add --recipient everything is encrypted for age keys
(age-keygen makes them), and the bucket reveals only sizes, counts and times. Keep the age
identity off this machine, or at least out of the project; only reading needs it
(--identity).

Credentials come from the environment in which the project was mounted
(AWS_ACCESS_KEY_ID …), from ~/.aws/credentials, or from the machine's role, and are
stored nowhere. The address may have parameters:
?endpoint=https://HOST&region=…&path-style=1&ca=FILE`,
		Example: `  cachebro remote
  cachebro remote secrets
  cachebro remote add s3://backups/app
  cachebro remote send`,
		Args: e.OnlyBelow(0),
	}
	asJSON := jsonFlag(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return askRemote(cmd.Context(), e, wire.RemoteRequest{}, *asJSON)
	}
	cmd.AddCommand(
		addRemoteCommand(e),
		remoteRequest(e, "rm", "stop sending; what was sent stays in the bucket", wire.RemoteRequest{Do: "rm"}),
		remoteRequest(e, "send", "send now what has not been sent yet", wire.RemoteRequest{Do: "send", Within: sendWithin}),
		secretsCommand(e), bucketDuCommand(e), bucketFsckCommand(e), bucketPruneCommand(e), machinesCommand(e), resumeCommand(e),
	)
	return cmd
}

func addRemoteCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "add BUCKET", Short: "send the history of this project to a bucket",
		Example: `  cachebro remote add s3://backups/app
  cachebro remote add 's3://app?endpoint=https://minio.example&path-style=1'
  cachebro remote add --recipient age1… s3://backups/app`,
		Args: e.Args(1, 1),
	}
	asJSON := jsonFlag(cmd.Flags())
	to := cmd.Flags().StringArray("recipient", nil, "encrypt for this age recipient (`age1…`); can be repeated")
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		p, err := remote.ParsePlace(args[0], e.Getenv)
		if err != nil {
			return e.Usagef("remote add: %v", err)
		}
		if err := remote.CheckRecipients(*to); err != nil {
			return e.Usagef("remote add: %v", err)
		}
		host, err := os.Hostname()
		if err != nil {
			return err
		}
		return askRemote(ctx, e, wire.RemoteRequest{Do: "add", URL: p.String(), Recipients: *to, Name: host}, *asJSON)
	})
}

// remoteRequest returns a command that only sends the request q.
func remoteRequest(e *cli.Env, name, short string, q wire.RemoteRequest) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, Example: "  cachebro remote " + name, Args: e.Args(0, 0)}
	asJSON := jsonFlag(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return askRemote(cmd.Context(), e, q, *asJSON) }
	return cmd
}

// askRemote sends a request about the project's bucket to the daemon and prints the answer.
func askRemote(ctx context.Context, e *cli.Env, q wire.RemoteRequest, asJSON bool) error {
	t, err := e.Locate(".")
	if err != nil {
		return err
	}
	var patience wire.Timeouts
	if q.Do == "send" || q.Do == "add" {
		patience.Answer = sendWithin + time.Minute
	}
	c, err := e.ConnectAs(ctx, t.Root, "cli", patience)
	if c != nil {
		defer c.Close()
	}
	if err != nil {
		return err
	}
	st, err := wire.Call[wire.RemoteState](ctx, c, wire.MRemote, q)
	if err != nil {
		return err
	}
	if asJSON {
		err = e.PrintJSON(st)
	} else {
		printRemote(e, st, q.Do)
	}
	if err == nil && q.Do == "send" && (st.Unsent > 0 || st.URL == "") {
		return cli.ExitStatus(1)
	}
	return err
}

const sendWithin = 5 * time.Minute

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

// noteBucket prints that a purge does not delete what was sent to the bucket.
func noteBucket(ctx context.Context, e *cli.Env, root string) error {
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

func shortly(url string) string {
	if p, err := remote.ParsePlace(url, func(string) string { return "" }); err == nil {
		return cli.Quote(p.Short())
	}
	return cli.Quote(url)
}

// machinesCommand returns the command cachebro remote machines.
func machinesCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "machines [s3://BUCKET/PREFIX]", Short: "list the machines that send to a bucket",
		Long: `Prints one line for each history, the newest last: id, host, directory, versions, and the
time when something was last sent. Without an address, the bucket of this project is
listed. The host and directory of an encrypted history are shown only with its key.`,
		Example: `  cachebro remote machines
  cachebro remote machines s3://backups/app`,
		Args: e.Args(0, 1),
	}

	fs := cmd.Flags()
	asJSON := jsonFlag(fs)
	identity := machines.IdentityFlag(e, fs)
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		place, err := addressOf(ctx, e, cli.First(args, ""))
		if err != nil {
			return err
		}
		b, _, err := dialed(e, place, *identity)
		if err != nil {
			return err
		}
		heads, bad, err := b.Heads(ctx)
		if err == nil && len(heads)+len(bad) == 0 {
			err = nothingSent(place)
		}
		if err != nil {
			return err
		}
		for _, h := range heads {
			if *asJSON {
				h.Segments = nil
				if err := e.PrintJSON(h); err != nil {
					return err
				}
				continue
			}
			fmt.Fprintf(e.Stdout, "%s  %s  %s  %s, last %s\n", h.Machine.ID, cli.Quote(h.Machine.Called()), cli.Quote(cmp.Or(h.Machine.Root, "(encrypted)")), text.Count(int(h.Versions), "version"), cli.Stamp(h.Time, e.Now()))
		}
		for _, err := range bad {
			fmt.Fprintf(e.Stderr, "cachebro: %s\n", cli.OneLine(err.Error()))
		}
		if len(bad) > 0 {
			return cli.ExitStatus(1)
		}
		return nil
	})
}

func nothingSent(address string) error {
	return cli.Hintf("check the bucket's prefix", "no history was sent to %s", cli.Quote(address))
}

// addressOf returns address, or if that is empty, the address of the project's bucket.
func addressOf(ctx context.Context, e *cli.Env, address string) (string, error) {
	if address != "" {
		return address, nil
	}
	st, err := cli.Ask[wire.RemoteState](ctx, e, ".", wire.MRemote, wire.RemoteRequest{})
	if err == nil && st.URL == "" {
		err = cli.Hintf("name a bucket: s3://BUCKET/PREFIX", "the history of this project stays on this machine")
	}
	return st.URL, err
}

// dialed connects to the bucket at an address, with an age identity for decryption if given.
func dialed(e *cli.Env, address, identity string) (*remote.Bucket, remote.Place, error) {
	p, err := remote.ParsePlace(address, e.Getenv)
	if err != nil {
		return nil, p, e.Usagef("%s: %v", e.Cmd.Name(), err)
	}
	b, err := remote.Dial(p)
	if err == nil && identity != "" {
		err = machines.Unlock(e, b, identity)
	}
	return b, p, err
}
