package mcp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cachebro/store/leaf/limits"
	"cachebro/store/leaf/text"

	"github.com/mark3labs/mcp-go/server"
)

// maxTokens bounds one result. Clients cut larger ones or move them to a file.
const maxTokens = 25_000

// maxTokensCodex is the bound for Codex, which silently cuts a result of more than 10,000 bytes in
// the middle (12,000 with 0.169; 10,000 for other models). Texts usually have at most five bytes
// per token.
const maxTokensCodex = 2_000

// most returns the bound on one result for this client.
func (s *Server) most(ctx context.Context) int {
	if sess, ok := server.ClientSessionFromContext(ctx).(server.SessionWithClientInfo); ok && strings.HasPrefix(sess.GetClientInfo().Name, "codex") {
		return maxTokensCodex
	}
	return maxTokens
}

// surelyFits returns a size in bytes below which any text fits. The densest texts (hexadecimal,
// emoji) have two bytes per token.
func surelyFits(most int) int { return 2 * most }

// estimate is the default of Options.Tokens. Source text has about 3.4 bytes per token in
// o200k_base.
func estimate(b []byte) int { return (len(b)*10 + 33) / 34 }

// page is the part of a file that one result can hold.
type page struct {
	limit int  // number of lines; 0 means all requested ones
	next  int  // first line left out; 0 if none
	total int  // lines of the file; set only if next is set
	long  bool // the first line alone is too long
}

// pageKey identifies a page by file and stat, to reuse it: measuring a large file costs more than
// answering "unchanged". A wrong entry only makes a page too short or too long.
type pageKey struct {
	path          string
	offset, limit int
	most          int
	size          int64
	mtime         time.Time
}

const maxPages = 512

// page decides how many of the lines [offset, offset+limit) of rel to request from the daemon at
// once. Everything that the daemon sends counts as shown, so nothing may be cut off afterwards.
func (s *Server) page(rel string, offset, limit, most int) (page, error) {
	dir := s.dir()
	fi, err := os.Stat(filepath.Join(dir, rel))
	if err != nil || !fi.Mode().IsRegular() || fi.Size() <= int64(surelyFits(most)) {
		return page{}, nil // the read itself reports the error
	}
	key := pageKey{rel, offset, limit, most, fi.Size(), fi.ModTime()}
	p, ok := s.pages.Get(key)
	if ok {
		return p, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return page{}, fileError("", err)
	}
	defer root.Close()
	b, err := readAll(root, rel)
	if err != nil {
		return page{}, err
	}
	b, ok = text.Shown(b)
	if !ok {
		return page{}, nil
	}
	p = s.measure(b, offset, limit, most)
	s.pages.Put(key, p)
	return p, nil
}

func (s *Server) measure(b []byte, offset, limit, most int) page {
	first := max(offset, 1)
	line, used := 0, 0
	for rest := b; len(rest) > 0; {
		n := bytes.IndexByte(rest, '\n') + 1
		if n == 0 {
			n = len(rest)
		}
		line++
		if line >= first && (limit == 0 || line < first+limit) {
			if used += s.opt.Tokens(rest[:n]); used > most {
				total := line - 1 + text.Lines(rest)
				if line == first {
					return page{long: true, next: line + 1, total: total}
				}
				return page{limit: line - first, next: line, total: total}
			}
		}
		rest = rest[n:]
	}
	return page{}
}

// more returns the note that says how to call for the next page.
func (p page) more(rel string, offset int) string {
	if p.next == 0 || p.next > p.total {
		return ""
	}
	return fmt.Sprintf("[... lines %d-%d of %d. next: read_file path=%s offset=%d]", max(offset, 1), p.next-1, p.total, quote(rel), p.next)
}

// readAll reads a regular file of at most limits.Content bytes inside root.
func readAll(root *os.Root, rel string) ([]byte, error) {
	f, err := openRegular(root, rel)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limits.Content+1))
	if err != nil {
		return nil, fileError(rel, err)
	}
	if len(b) > limits.Content {
		return nil, badInput(fmt.Sprintf("%s is larger than %d MiB", quote(rel), limits.Content>>20), "use a shell tool that reads a part of it")
	}
	return b, nil
}

// openRegular opens a regular file. It checks the type first, so that it never waits for a FIFO.
func openRegular(root *os.Root, rel string) (*os.File, error) {
	fi, err := root.Stat(name(rel))
	if err != nil {
		return nil, fileError(rel, err)
	}
	if err := regular(rel, fi); err != nil {
		return nil, err
	}
	f, err := root.OpenFile(name(rel), os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, fileError(rel, err)
	}
	return f, nil
}

func regular(rel string, fi fs.FileInfo) error {
	switch {
	case fi.IsDir():
		return isDir(rel)
	case !fi.Mode().IsRegular():
		return badInput(quote(rel)+" is not a regular file", "")
	}
	return nil
}

// name returns rel as os.Root wants it.
func name(rel string) string {
	if rel == "" {
		return "."
	}
	return rel
}

// tokensOf returns how many tokens a full read of rel costs, at most those of one page, or 0 if the
// file cannot be read.
func (s *Server) tokensOf(rel string, most int) int {
	root, err := os.OpenRoot(s.dir())
	if err != nil {
		return 0
	}
	defer root.Close()
	fi, err := root.Stat(name(rel))
	if err != nil || !fi.Mode().IsRegular() {
		return 0
	}
	if fi.Size() > int64(8*most) {
		return most
	}
	b, err := readAll(root, rel)
	if err != nil {
		return 0
	}
	return min(s.opt.Tokens(b), most)
}
