package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// file is an entry of an archive.
type file struct {
	name string // in the archive
	from string // on disk
	mode int64
}

// docs lists the files that each archive has besides the binary, by their names below doc.
func (b *build) docs() ([]file, error) {
	var all []file
	top := filepath.Join(b.work, "doc")
	err := filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(top, p)
		all = append(all, file{filepath.ToSlash(rel), p, 0o644})
		return err
	})
	return all, err
}

// archives writes a tarball for each target.
func (b *build) archives(context.Context) error {
	docs, err := b.docs()
	if err != nil {
		return err
	}
	for _, t := range b.targets {
		base := fmt.Sprintf("cachebro-%s-%s-%s", b.version, t.os, t.arch)
		files := []file{{base + "/bin/cachebro", b.binary(t), 0o755}}
		for _, d := range docs {
			name := d.name
			switch {
			case strings.HasPrefix(name, "man/"):
				name = "share/" + name
			case strings.HasPrefix(name, "completions/"):
				name = "share/" + name
			case strings.HasPrefix(name, "extensions/"):
				name = "share/cachebro/" + strings.TrimPrefix(name, "extensions/")
			}
			files = append(files, file{base + "/" + name, d.from, d.mode})
		}
		if err := b.tarball(base+".tar.gz", files); err != nil {
			return err
		}
		base = fmt.Sprintf("cachebro-fleet-%s-%s-%s", b.version, t.os, t.arch)
		files = []file{{base + "/bin/cachebro-fleet", b.fleet(t), 0o755}, {base + "/fleet.md", filepath.Join("doc", "fleet.md"), 0o644}}
		for _, d := range docs {
			if d.name == "LICENSE" || d.name == "THIRD-PARTY-LICENSES" {
				files = append(files, file{base + "/" + d.name, d.from, d.mode})
			}
		}
		if err := b.tarball(base+".tar.gz", files); err != nil {
			return err
		}
	}
	return nil
}

// tarball writes files to a tarball, with the commit's time and without owners.
func (b *build) tarball(name string, files []file) (err error) {
	out, err := os.Create(filepath.Join(b.out, name))
	if err != nil {
		return err
	}
	defer func() {
		if cerr := out.Close(); err == nil {
			err = cerr
		}
	}()
	z, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	for _, f := range files {
		if err := b.entry(w, f); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return z.Close()
}

func (b *build) entry(w *tar.Writer, f file) error {
	in, err := os.Open(f.from)
	if err != nil {
		return err
	}
	defer in.Close()
	fi, err := in.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: fi.Size(), ModTime: b.made, Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err = io.Copy(w, in)
	return err
}

// contents lists the files of a package for nfpm. The list includes the directories that belong to
// cachebro, because rpm does not remove directories that no package owns.
func (b *build) contents(t target, docs []file) []map[string]any {
	info := func(mode int) map[string]any { return map[string]any{"mode": mode, "mtime": b.made} }
	entries := []map[string]any{{"src": b.binary(t), "dst": "/usr/bin/cachebro", "file_info": info(0o755)}}
	own := map[string]bool{}
	for _, d := range docs {
		dst := ""
		switch dir, base := path.Split(d.name); {
		case strings.HasPrefix(d.name, "man/"):
			dst = "/usr/share/" + d.name
		case dir == "completions/bash/":
			dst = "/usr/share/bash-completion/completions/" + base
		case dir == "completions/zsh/":
			dst = "/usr/share/zsh/vendor-completions/" + base
		case dir == "completions/fish/":
			dst = "/usr/share/fish/vendor_completions.d/" + base
		case strings.HasPrefix(d.name, "extensions/"):
			dst = "/usr/share/cachebro/" + strings.TrimPrefix(d.name, "extensions/")
		default:
			dst = "/usr/share/doc/cachebro/" + map[bool]string{true: "copyright", false: base}[base == "LICENSE"]
		}
		entries = append(entries, map[string]any{"src": d.from, "dst": dst, "file_info": info(0o644)})
		for dir := path.Dir(dst); strings.Contains(dir, "/cachebro"); dir = path.Dir(dir) {
			own[dir] = true
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(own)) {
		entries = append(entries, map[string]any{"dst": dir, "type": "dir", "file_info": info(0o755)})
	}
	return entries
}

// packages makes .deb, .rpm and .apk for the linux targets with nfpm.
func (b *build) packages(ctx context.Context) error {
	docs, err := b.docs()
	if err != nil {
		return err
	}
	tool := filepath.Join(b.work, "nfpm")
	if _, err := command(ctx, []string{"GOBIN=" + b.work, "GOFLAGS="}, "go", "install", nfpm); err != nil {
		return err
	}
	// Give the scripts the commit's time. An .apk contains the times of its scripts, and in each
	// checkout these times differ.
	scripts := map[string]any{}
	for _, name := range []string{"postinstall", "preremove"} {
		text, err := os.ReadFile(filepath.Join("scripts", "dist", name+".sh"))
		if err != nil {
			return err
		}
		copied := filepath.Join(b.work, name+".sh")
		if err := os.WriteFile(copied, text, 0o755); err != nil {
			return err
		}
		if err := os.Chtimes(copied, b.made, b.made); err != nil {
			return err
		}
		scripts[name] = copied
	}
	epoch := fmt.Sprintf("SOURCE_DATE_EPOCH=%d", b.made.Unix())
	for _, t := range b.targets {
		if t.os != "linux" {
			continue
		}
		config := map[string]any{
			"name": "cachebro", "arch": t.arch, "platform": "linux", "version": b.version, "release": "1", "section": "utils", "priority": "optional",
			"maintainer": maintainer, "description": summary, "homepage": homepage, "license": "MIT", "mtime": b.made,
			"depends": []string{"fuse3"}, "suggests": []string{"git"}, "contents": b.contents(t, docs),
			"scripts": scripts,
		}
		text, err := json.Marshal(config) // JSON is also YAML
		if err != nil {
			return err
		}
		conf := filepath.Join(b.work, t.arch+".yaml")
		if err := os.WriteFile(conf, text, 0o644); err != nil {
			return err
		}
		for _, kind := range []string{"deb", "rpm", "apk"} {
			name := fmt.Sprintf("cachebro_%s_%s.%s", b.version, t.arch, kind)
			if _, err := command(ctx, []string{epoch}, tool, "package", "-f", conf, "-p", kind, "-t", filepath.Join(b.out, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// npm makes a package for each platform, and the package that people install. With the latter, npm
// fetches only the platform package for the machine's os and cpu, so no script need download
// anything.
func (b *build) npm(context.Context) error {
	cpus := map[string]string{"amd64": "x64", "arm64": "arm64"}
	optional := map[string]string{}
	write := func(name string, manifest map[string]any, files ...file) error {
		text, err := json.MarshalIndent(manifest, "", "  ")
		if err != nil {
			return err
		}
		from := filepath.Join(b.work, "npm-"+name+".json")
		if err := os.WriteFile(from, append(text, '\n'), 0o644); err != nil {
			return err
		}
		files = append([]file{{"package/package.json", from, 0o644}, {"package/LICENSE", "LICENSE", 0o644}}, files...)
		return b.tarball("npm-"+name+"-"+b.version+".tgz", files)
	}
	for _, t := range b.targets {
		name := "cachebro-" + t.os + "-" + cpus[t.arch]
		optional[name] = b.version
		err := write(name, map[string]any{
			"name": name, "version": b.version, "description": "cachebro for " + t.String(), "license": "MIT",
			"homepage": homepage, "repository": repository,
			"os": []string{t.os}, "cpu": []string{cpus[t.arch]}, "files": []string{"bin"}, "preferUnplugged": true,
		}, file{"package/bin/cachebro", b.binary(t), 0o755}, file{"package/THIRD-PARTY-LICENSES", filepath.Join(b.work, "doc", "THIRD-PARTY-LICENSES"), 0o644})
		if err != nil {
			return err
		}
	}
	docs, err := b.docs()
	if err != nil {
		return err
	}
	files := []file{{"package/cachebro.js", "scripts/dist/cachebro.js", 0o755}, {"package/README.md", "README.md", 0o644}}
	for _, d := range docs {
		if name, ok := strings.CutPrefix(d.name, "extensions/"); ok {
			files = append(files, file{"package/" + name, d.from, d.mode})
		}
	}
	// OpenCode takes plugins from npm and imports this package.
	return write("cachebro", map[string]any{
		"name": npmName, "version": b.version, "description": summary, "license": "MIT", "mcpName": registryName, "main": openCode,
		"homepage": homepage, "repository": repository,
		"bin": map[string]string{"cachebro": "cachebro.js"}, "optionalDependencies": optional, "engines": map[string]string{"node": ">=16"},
	}, files...)
}

// maintainer is named in the packages. Nobody receives mail to the noreply address. SECURITY.md
// says where to send reports.
const maintainer = "cachebro maintainers <cachebro@users.noreply.github.com>"

// homepage is the address of the project's page.
const homepage = "https://github.com/cachebro/cachebro"

var repository = map[string]string{"type": "git", "url": "git+" + homepage + ".git"}

const (
	npmName  = "cachebro"
	openCode = "hooks/opencode/cachebro.mjs"
	// registryName is the server's name in the MCP registry. The registry checks that the npm
	// package contains this name too.
	registryName = "io.github.cachebro/cachebro"
)

// registryEntry returns the server.json for the MCP registry, for the npm package of a version.
func registryEntry(version string) map[string]any {
	return map[string]any{
		"$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
		"name":    registryName, "version": version,
		"description": "Re-reads that cost a line, and undo of whatever a prompt did to the files",
		"packages": []any{map[string]any{
			"registryType": "npm", "identifier": npmName, "version": version,
			"transport":        map[string]any{"type": "stdio"},
			"packageArguments": []any{map[string]any{"type": "positional", "value": "serve"}},
		}},
	}
}

func (b *build) registry(context.Context) error {
	text, err := json.MarshalIndent(registryEntry(b.version), "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.out, "server.json"), append(text, '\n'), 0o644)
}

// checksums writes the checksums of all files in the format of sha256sum -c.
func (b *build) checksums(context.Context) error {
	entries, err := os.ReadDir(b.out)
	if err != nil {
		return err
	}
	var lines []string
	for _, e := range entries {
		in, err := os.Open(filepath.Join(b.out, e.Name()))
		if err != nil {
			return err
		}
		sum := sha256.New()
		n, err := io.Copy(sum, in)
		in.Close()
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("%x  %s\n", sum.Sum(nil), e.Name()))
		fmt.Printf("%9.1f MB  %s\n", float64(n)/1e6, e.Name())
	}
	slices.Sort(lines)
	return os.WriteFile(filepath.Join(b.out, "SHA256SUMS"), []byte(strings.Join(lines, "")), 0o644)
}
