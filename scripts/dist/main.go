// Command dist makes what people install: .deb, .rpm, .apk, tarballs and npm
// packages, with man pages, completions, the licences of all modules, a bill of
// materials (SPDX) and checksums. The same commit gives the same bytes: every time
// in them is the commit's, and nothing names the place where they were built.
//
//	go run ./scripts/dist [-out dist] [-targets linux/amd64,linux/arm64,…]
//
// The version is the one in cmd/cachebro/fastpath. Packages are made by nfpm and man
// pages by go-md2man, run by their version, so that go.mod does not carry them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

const (
	// From 2.46 on it needs a module for .rpm that the module proxy does not have.
	nfpm    = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0"
	md2man  = "github.com/cpuguy83/go-md2man/v2@v2.0.7"
	summary = "keeps every version of every file while you and your agents work"
)

// target is what a binary is built for.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "/" + t.arch }

// build is one making of everything.
type build struct {
	out, work string
	version   string
	commit    string
	made      time.Time // of the commit
	targets   []target
	native    string // a binary that runs here
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	fs := flag.NewFlagSet("dist", flag.ContinueOnError)
	out := fs.String("out", "dist", "where to put it; what lies there goes")
	list := fs.String("targets", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "what to build for")
	if err := fs.Parse(args); err != nil {
		return err
	}
	b := &build{out: *out}
	for _, s := range strings.Split(*list, ",") {
		system, arch, ok := strings.Cut(s, "/")
		if !ok {
			return fmt.Errorf("target %q: want os/arch", s)
		}
		b.targets = append(b.targets, target{system, arch})
	}
	var err error
	if b.work, err = os.MkdirTemp("", "cachebro-dist"); err != nil {
		return err
	}
	defer os.RemoveAll(b.work)
	if err := os.RemoveAll(b.out); err != nil {
		return err
	}
	if err := os.MkdirAll(b.out, 0o755); err != nil {
		return err
	}
	if b.out, err = filepath.Abs(b.out); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{b.identify, b.binaries, b.documents, b.archives, b.packages, b.npm, b.checksums} {
		if err := step(context.Background()); err != nil {
			return err
		}
	}
	return nil
}

// identify finds version, commit and time. A tree without git has the time that
// SOURCE_DATE_EPOCH gives.
func (b *build) identify(ctx context.Context) error {
	b.commit = "unknown"
	if out, err := command(ctx, nil, "git", "rev-parse", "HEAD"); err == nil {
		b.commit = strings.TrimSpace(out)
		if dirty, _ := command(ctx, nil, "git", "status", "--porcelain", "--untracked-files=no"); dirty != "" {
			b.commit += "+changes"
		}
		seconds, err := command(ctx, nil, "git", "log", "-1", "--format=%ct")
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(strings.TrimSpace(seconds), 10, 64)
		if err != nil {
			return err
		}
		b.made = time.Unix(n, 0).UTC()
	}
	if s := os.Getenv("SOURCE_DATE_EPOCH"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
		b.made = time.Unix(n, 0).UTC()
	}
	if b.made.IsZero() {
		return errors.New("neither a git commit nor SOURCE_DATE_EPOCH says what time to give the files")
	}
	return nil
}

func (b *build) binary(t target) string { return filepath.Join(b.work, t.os+"-"+t.arch, "cachebro") }

// binaries builds for each target, and for this machine.
func (b *build) binaries(ctx context.Context) error {
	here := target{runtime.GOOS, runtime.GOARCH}
	flags := fmt.Sprintf("-s -w -buildid= -X main.commit=%s -X main.built=%s", b.commit, b.made.Format(time.RFC3339))
	for i, t := range append([]target{here}, b.targets...) {
		if i > 0 && t == here {
			continue
		}
		env := []string{"GOOS=" + t.os, "GOARCH=" + t.arch, "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false"}
		if _, err := command(ctx, env, "go", "build", "-trimpath", "-ldflags", flags, "-o", b.binary(t), "./cmd/cachebro"); err != nil {
			return err
		}
	}
	b.native = b.binary(here)
	out, err := command(ctx, nil, b.native, "version")
	if err != nil {
		return err
	}
	fields := strings.Fields(out) // cachebro 0.1.0 go…
	if len(fields) < 2 {
		return fmt.Errorf("cachebro version says %q", out)
	}
	b.version = fields[1]
	return nil
}

// command runs a program and returns its output; what it says of errors goes into
// the error.
func command(ctx context.Context, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, errOut.String())
	}
	return string(out), nil
}
