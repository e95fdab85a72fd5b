package storage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
)

// ExportCommand returns the command cachebro store export.
func ExportCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "export FILE", Short: "write the project's whole history into one file",
		Long: `Writes versions with their contents, sessions, plans and notes, compressed and with a
checksum over everything. FILE may be - for standard output. The project may be mounted
and in use. FILE holds every text that was ever recorded, secrets included, so only its
owner can read it. cachebro store import reads it.`,
		Example: `  cachebro store export ~/backup/app.history
  cachebro store export - | ssh host 'cd src/app && cachebro store import -'`,
		Args: e.Args(1, 1),
	}

	fs := cmd.Flags()
	force := fs.BoolP("force", "f", false, "replace FILE if it exists")
	asJSON := jsonFlag(fs)
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		if args[0] == "-" {
			if *asJSON {
				return e.Usagef("export: --json cannot be combined with -, because both write to standard output")
			}
			if ok, _ := e.Terminal(); ok {
				return e.Usagef("export: name a file; a history is not written to a terminal")
			}
		}
		_, c, err := e.Open(ctx, ".")
		if err != nil {
			return err
		}
		defer c.Close()
		x := exported{File: args[0]}
		sum := sha256.New()
		count := func(w io.Writer) io.Writer { return io.MultiWriter(w, sum, (*counter)(&x.FileBytes)) }
		if args[0] == "-" {
			_, err = receive(ctx, c, count(e.Stdout))
			return err
		}
		path, err := e.Abs(args[0])
		if err != nil {
			return err
		}
		err = newFile(path, *force, func(f *os.File) error {
			x.Totals, err = receive(ctx, c, count(f))
			return err
		})
		if errors.Is(err, errOtherFile) {
			return cli.Hintf("cachebro store export - >"+cli.Arg(args[0]), "%s is not a regular file", cli.Quote(args[0]))
		}
		if errors.Is(err, os.ErrExist) {
			return cli.Hintf("cachebro store export --force "+cli.Arg(args[0]), "%s exists already", cli.Quote(args[0]))
		}
		if err != nil {
			return fmt.Errorf("export: %w", err)
		}
		x.SHA256 = hex.EncodeToString(sum.Sum(nil))
		if *asJSON {
			return e.PrintJSON(x)
		}
		_, err = fmt.Fprintf(e.Stdout, "%s: %s with %s (%s), %s\n", cli.Quote(args[0]), text.Count(x.Versions, "version"), text.Count(x.Contents, "content"), text.Bytes(x.Bytes), text.Bytes(x.FileBytes))
		return err
	})
}

type exported struct {
	File string `json:"file"`
	wire.Totals
	FileBytes int64  `json:"file_bytes"`
	SHA256    string `json:"sha256"` // checksum of the file
}

type counter int64

func (c *counter) Write(b []byte) (int, error) { *c += counter(len(b)); return len(b), nil }

// receive copies to w what the daemon writes into a pipe.
func receive(ctx context.Context, c *wire.Client, w io.Writer) (wire.Totals, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r, to, err := os.Pipe()
	if err != nil {
		return wire.Totals{}, err
	}
	defer r.Close()
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(w, r)
		if err != nil {
			stop() // the rest cannot be written
		}
		copied <- err
	}()
	a, err := c.Export(ctx, to)
	to.Close()
	if err != nil {
		r.Close()
	}
	if e := <-copied; e != nil && !errors.Is(e, os.ErrClosed) {
		return a, e
	}
	return a, err
}

// errOtherFile means that there is a device, a pipe, a directory or a symlink, which a new file would
// replace instead of writing into it.
var errOtherFile = errors.New("not a regular file")

// newFile creates a file at path with the content that fill writes. On failure it leaves no file.
func newFile(path string, replace bool, fill func(*os.File) error) error {
	st, err := os.Lstat(path)
	switch {
	case err == nil && !st.Mode().IsRegular():
		return errOtherFile
	case err == nil && !replace:
		return os.ErrExist
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".cachebro-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // already renamed if replace is set
	err = fill(f)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		return err
	}
	if replace {
		return os.Rename(f.Name(), path)
	}
	return os.Link(f.Name(), path) // fails if somebody has made it in the meantime
}
