package storage

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/text"

	"github.com/spf13/cobra"
)

// secretFiles lists the files that are not sent because of their names.
type secretFiles struct {
	Files    []string `json:"files"`
	Patterns []string `json:"patterns"`
}

func secretsCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "secrets", Short: "list files that are not sent because they look like secrets",
		Example: "  cachebro remote secrets",
		Args:    e.Args(0, 0),
	}
	asJSON := jsonFlag(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return remoteSecrets(cmd.Context(), e, *asJSON) }
	return cmd
}

func remoteSecrets(ctx context.Context, e *cli.Env, asJSON bool) error {
	t, c, err := e.Open(ctx, ".")
	if err != nil {
		return err
	}
	c.Close()
	s := secretFiles{Files: []string{}, Patterns: ignore.SecretPatterns()}
	base := t.Base()
	err = filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil: // a directory that nobody may read
			return nil
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		rel, err := filepath.Rel(base, path)
		if err == nil && ignore.Secret(rel) {
			s.Files = append(s.Files, rel)
		}
		return err
	})
	if err != nil {
		return err
	}
	if asJSON {
		return e.PrintJSON(s)
	}
	for _, f := range s.Files {
		fmt.Fprintln(e.Stdout, cli.Quote(f))
	}
	_, err = fmt.Fprintf(e.Stdout, "%s because of the name, as do files that git ignores. The name patterns, in upper or lower case: %s\n",
		stays(len(s.Files)), strings.Join(s.Patterns, ", "))
	return err
}

func stays(n int) string {
	if n == 1 {
		return "1 file stays here"
	}
	return text.Count(n, "file") + " stay here"
}
