// Command dist makes the packages that people install: .deb, .rpm, .apk, tarballs and npm packages
// of cachebro, and tarballs of cachebro-fleet. They contain man pages, completions, the licences of
// all modules and a bill of materials (SPDX). It also writes checksums. The same commit always
// gives the same bytes: every time in the packages is the commit's, and no file names the directory
// in which it was built.
//
//	go run ./scripts/dist [-out dist] [-targets linux/amd64,linux/arm64,…]
//
// The version is the one in cmd/cachebro/fastpath. Packages are made by nfpm. A fixed version of
// nfpm is installed separately, so that go.mod need not list it.
package main

import (
	"context"
	"encoding/json"
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
	// From 2.46 on nfpm needs a module for .rpm that the module proxy does not have.
	nfpm    = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0"
	summary = "records every version of every file while you and your agents work"
)

// target is a platform to build for.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "/" + t.arch }

// build is one run of this command.
type build struct {
	out, work string
	version   string
	commit    string
	made      time.Time // time of the commit
	targets   []target
	native    string // a binary that runs on this machine
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	fs := flag.NewFlagSet("dist", flag.ContinueOnError)
	out := fs.String("out", "dist", "the output directory; its previous contents are deleted")
	list := fs.String("targets", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "the targets to build for")
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
	b.work, err = os.MkdirTemp("", "cachebro-dist")
	if err != nil {
		return err
	}
	defer os.RemoveAll(b.work)
	return b.whole(context.Background(), b.identify, b.binaries, b.documents, b.archives, b.packages, b.npm, b.registry, b.checksums)
}

// whole builds everything in a directory next to b.out and renames it to b.out when it is complete.
// So b.out never contains an incomplete release.
func (b *build) whole(ctx context.Context, steps ...func(context.Context) error) error {
	place, err := filepath.Abs(b.out)
	if err != nil {
		return err
	}
	b.out = place + ".incomplete"
	if err := os.RemoveAll(b.out); err != nil {
		return err
	}
	defer os.RemoveAll(b.out)
	if err := os.MkdirAll(b.out, 0o755); err != nil {
		return err
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(place); err != nil {
		return err
	}
	return os.Rename(b.out, place)
}

// identify finds the version's commit and time. Without git, the time must be in SOURCE_DATE_EPOCH.
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

// fleet returns the path of cachebro-fleet. It is a separate program, because only people who run
// many machines need it.
func (b *build) fleet(t target) string { return b.binary(t) + "-fleet" }

// binaries builds for each target and for this machine.
func (b *build) binaries(ctx context.Context) error {
	here := target{runtime.GOOS, runtime.GOARCH}
	flags := fmt.Sprintf("-s -w -buildid= -X cachebro/cmd/cachebro/commands.commit=%s -X cachebro/cmd/cachebro/commands.built=%s", b.commit, b.made.Format(time.RFC3339))
	slim, err := slimmed(ctx)
	defer os.RemoveAll(slimDir)
	if err != nil {
		return err
	}
	overlay, err := b.plainTemplates(ctx)
	if err != nil {
		return err
	}
	for i, t := range append([]target{here}, b.targets...) {
		if i > 0 && t == here {
			continue
		}
		env := []string{"GOOS=" + t.os, "GOARCH=" + t.arch, "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false"}
		if _, err := command(ctx, env, "go", "build", "-trimpath", "-modfile", slim, "-overlay", overlay, "-ldflags", flags, "-o", b.binary(t), "./cmd/cachebro"); err != nil {
			return err
		}
		fi, err := os.Stat(b.binary(t))
		if err != nil {
			return err
		}
		if fi.Size() > largest {
			return fmt.Errorf("the binary for %s has %d bytes, above %d: what keeps the linker from leaving things out?", t, fi.Size(), largest)
		}
		if _, err := command(ctx, env, "go", "build", "-trimpath", "-ldflags", flags, "-o", b.fleet(t), "./cmd/cachebro-fleet"); err != nil {
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

// slimDir is a directory for modified modules. It is created for a build and removed afterwards.
const slimDir = "bin/slim"

// cut is a replacement in the source of a module that is made for the build.
type cut struct{ module, file, from, to string }

// cuts make the binaries smaller. If a program calls methods by names that are only known at run
// time, the linker has to keep every exported method of every type, which here is a third of the
// binary. (go-redis does so since 9.18, so go.mod has an older version.) An interface value keeps
// all methods of the interface. go-redis's pipeline has a method for each of five hundred commands,
// but go-redis itself uses only those that the cut leaves. bleve can open indexes in six older
// formats, which our indexes never had. At the start of every process, bleve also builds automata
// for queries for similar words. That takes 2 ms, and package search makes no such query.
func cuts() []cut {
	all := []cut{
		{"github.com/redis/go-redis/v9", "pipeline.go", "type Pipeliner interface {\n\tStatefulCmdable\n", "type Pipeliner interface {\n" +
			"\tPipeline() Pipeliner\n" +
			"\tPipelined(ctx context.Context, fn func(Pipeliner) error) ([]Cmder, error)\n" +
			"\tTxPipelined(ctx context.Context, fn func(Pipeliner) error) ([]Cmder, error)\n" +
			"\tTxPipeline() Pipeliner\n" +
			"\tAuth(ctx context.Context, password string) *StatusCmd\n" +
			"\tAuthACL(ctx context.Context, username, password string) *StatusCmd\n" +
			"\tSelect(ctx context.Context, index int) *StatusCmd\n" +
			"\tReadOnly(ctx context.Context) *StatusCmd\n" +
			"\tClientSetName(ctx context.Context, name string) *BoolCmd\n" +
			"\tClientSetInfo(ctx context.Context, info LibraryInfo) *StatusCmd\n" +
			"\tHello(ctx context.Context, ver int, username, password, clientName string) *MapStringInterfaceCmd\n"},
	}
	const bleve, file = "github.com/blevesearch/bleve/v2", "index/scorch/segment_plugin.go"
	for n := 1; n <= 2; n++ {
		all = append(all, cut{bleve, "index/scorch/snapshot_index.go", fmt.Sprintf("\tlb%d, err = lev.NewLevenshteinAutomatonBuilder(%d, true)\n", n, n), ""})
	}
	for v := 11; v <= 16; v++ {
		all = append(all,
			cut{bleve, file, fmt.Sprintf("\tzapv%d \"github.com/blevesearch/zapx/v%d\"\n", v, v), ""},
			cut{bleve, file, fmt.Sprintf("\tRegisterSegmentPlugin(&zapv%d.ZapPlugin{}, false)\n", v), ""})
	}
	return all
}

// slimmed makes the cuts and writes a go.mod that uses the modified modules. The paths in it are
// relative, because the binary contains them.
func slimmed(ctx context.Context) (modfile string, err error) {
	if err := os.RemoveAll(slimDir); err != nil {
		return "", err
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		return "", err
	}
	copied := map[string]bool{}
	for _, c := range cuts() {
		dir := slimDir + "/" + c.module
		if !copied[c.module] {
			from, err := command(ctx, nil, "go", "list", "-m", "-f", "{{.Dir}}", c.module)
			if err != nil {
				return "", err
			}
			if err := os.CopyFS(dir, os.DirFS(strings.TrimSpace(from))); err != nil {
				return "", err
			}
			mod = append(mod, ("\nreplace " + c.module + " => ./" + dir + "\n")...)
			copied[c.module] = true
		}
		file := filepath.Join(dir, c.file)
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		without := strings.Replace(string(text), c.from, c.to, 1)
		if without == string(text) {
			return "", fmt.Errorf("%s does not say %s any more: is the binary small without this?", file, c.from)
		}
		if err := os.Chmod(file, 0o644); err != nil {
			return "", err
		}
		if err := os.WriteFile(file, []byte(without), 0o644); err != nil {
			return "", err
		}
	}
	sum, err := os.ReadFile("go.sum")
	if err != nil {
		return "", err
	}
	return slimDir + "/go.mod", errors.Join(os.WriteFile(slimDir+"/go.mod", mod, 0o644), os.WriteFile(slimDir+"/go.sum", sum, 0o644))
}

// plainTemplates returns an overlay in which text/template cannot call methods. text/template finds
// methods by name at run time, so the linker would keep all methods. The templates of the web pages
// call no methods (TestTemplatesCallNoMethods).
func (b *build) plainTemplates(ctx context.Context) (overlay string, err error) {
	const line, without = "method := ptr.MethodByName(fieldName);", "method := (reflect.Value{});"
	root, err := command(ctx, nil, "go", "env", "GOROOT")
	if err != nil {
		return "", err
	}
	file := filepath.Join(strings.TrimSpace(root), "src/text/template/exec.go")
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	changed := strings.Replace(string(text), line, without, 1)
	if changed == string(text) {
		return "", fmt.Errorf("%s does not say %s any more: is the binary small without this?", file, line)
	}
	to := filepath.Join(b.work, "exec.go")
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{file: to}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(b.work, "overlay.json")
	return overlay, errors.Join(os.WriteFile(to, []byte(changed), 0o644), os.WriteFile(overlay, list, 0o644))
}

// largest is the maximum size of a binary in bytes. A larger binary reveals a new import that makes
// the linker keep all methods again, which are a third of the binary.
const largest = 35_000_000

// command runs a program and returns its standard output. The error contains the program's error
// output.
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
