package hooks

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
)

// The guard points an agent that reads a file again at read_file, which answers with
// what changed. It is off by default, because the hooks do the same to the client's
// own Read without a word. The first Read of each file is always let through, because
// the client's Edit requires one.

// guardKinds are read by the client's own tool only: it shows them as pictures
// or cells.
var guardKinds = map[string]bool{
	".png": true, ".jpg": true, ".jpeg": true, ".gif": true, ".webp": true, ".bmp": true, ".svg": true, ".pdf": true, ".ipynb": true, ".ico": true, ".tiff": true,
}

// guard returns what is to be said of a Read, "" for nothing.
func (c *call) guard() string {
	p, ok := c.relative(c.input.str("file_path"))
	if !ok || c.opt.guard != "suggest" && c.opt.guard != "deny" || guardKinds[strings.ToLower(filepath.Ext(p))] || c.input.str("pages") != "" {
		return ""
	}
	if first := c.noteRead(p); first {
		return ""
	}
	return "cachebro: " + clean(p) + " was read in this session before; read_file (cachebro) returns only what changed since, or \"unchanged\"."
}

// noteRead remembers that this reader read a file and reports whether it was the
// first time; any doubt counts as the first. A line for each file, appended in
// one write.
func (c *call) noteRead(p string) (first bool) {
	dir := c.chainDir()
	if dir == "" {
		return true
	}
	h := sha256.Sum256([]byte(c.agent + "\x00" + p))
	line := append(hex.AppendEncode(nil, h[:16]), '\n')
	name := filepath.Join(dir, fileName(c.session)+".reads")
	if old, err := os.ReadFile(name); err == nil && bytes.Contains(old, line) {
		return false
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return true
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return true
	}
	_, _ = f.Write(line)
	_ = f.Close()
	return true
}

// forgetReads begins anew: after a compaction the client may want its own Read
// again before it edits.
func (c *call) forgetReads() {
	if dir := c.chainDir(); dir != "" {
		_ = os.Remove(filepath.Join(dir, fileName(c.session)+".reads"))
	}
}
