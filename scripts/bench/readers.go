//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"cachebro/store/tokens"
	"cachebro/store/wire"
)

// schemas prints how many tokens the tools of each profile cost in every context.
func schemas(binary, dir string) error {
	for _, profile := range []string{"read", "safety", "default", "all"} {
		cmd := exec.Command(binary, "serve", "--tools="+profile, dir)
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		list, err := (&client{in: in, out: bufio.NewReaderSize(out, 1<<20)}).list()
		in.Close()
		if werr := cmd.Wait(); err == nil {
			err = werr
		}
		if err != nil {
			return err
		}
		fmt.Printf("%-32s %6d bytes  ~%d tokens\n", "mcp schema, "+profile, len(list), tokens.EstimateString(list))
	}
	return nil
}

// list returns the parts of the reply to tools/list that a model is shown.
func (c *client) list() (string, error) {
	if _, err := c.call("initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "bench", "version": "1"}}); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		return "", err
	}
	answer, err := c.call("tools/list", map[string]any{})
	if err != nil {
		return "", err
	}
	var l struct {
		Result struct {
			Tools []struct {
				Name        string          `json:"name"`
				Description string          `json:"description"`
				Schema      json.RawMessage `json:"inputSchema"`
			} `json:"tools"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(answer), &l); err != nil {
		return "", err
	}
	var b strings.Builder
	for _, t := range l.Result.Tools {
		fmt.Fprintf(&b, "%s %s %s\n", t.Name, t.Description, t.Schema)
	}
	return b.String(), nil
}

// parallel is the number of readers. Each is a context window with its own connection.
const parallel = 50

// readers lets all readers read the same files twice. The first answer must be the text, because
// the answer must not depend on what other readers were shown. The second answer must be one line
// that says that the file is unchanged.
func readers(binary, dir string) error {
	out, err := exec.Command(binary, "version", "--json").Output()
	if err != nil {
		return err
	}
	var v struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(out, &v); err != nil {
		return err
	}
	const files = 20 // each of 1,000 tokens; their sum stays below 40,000, because after so many tokens a text is sent again
	for i := range files {
		name := filepath.Join(dir, fmt.Sprintf("bench-reader-%02d.txt", i))
		if err := os.WriteFile(name, []byte(strings.Repeat(fmt.Sprintf("a line of file %d for many readers\n", i), 100)), 0o644); err != nil {
			return err
		}
		defer os.Remove(name)
	}
	home, _ := os.UserHomeDir()
	paths := wire.Paths{RuntimeDir: os.Getenv("XDG_RUNTIME_DIR"), StateHome: os.Getenv("XDG_STATE_HOME"), Home: home, TempDir: os.Getenv("TMPDIR"), Override: os.Getenv("CACHEBRO_DIR")}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex // guards took and first
		took  []time.Duration
		first error
	)
	start := time.Now()
	for r := range parallel {
		wg.Go(func() {
			ds, err := reader(ctx, paths, wire.Hello{Version: v.Version, Client: "cli", Root: dir}, r, files)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, ds...)
			if first == nil {
				first = err
			}
		})
	}
	wg.Wait()
	if first != nil {
		return first
	}
	quantiles(fmt.Sprintf("%d readers at once, one read", parallel), took)
	fmt.Printf("%-32s %15.0f reads/s\n", fmt.Sprintf("%d readers at once", parallel), float64(len(took))/time.Since(start).Seconds())
	return nil
}

func reader(ctx context.Context, p wire.Paths, h wire.Hello, n, files int) (ds []time.Duration, err error) {
	c, err := wire.Dial(ctx, p, h, wire.Timeouts{})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for _, want := range []string{wire.ReadFull, wire.ReadUnchanged} {
		for f := range files {
			var a wire.ReadAnswer
			q := wire.ReadRequest{Reader: wire.Reader{Session: fmt.Sprintf("bench-reader-%d-%d", os.Getpid(), n)}, Path: fmt.Appendf(nil, "bench-reader-%02d.txt", (f+n)%files), Tool: "read"}
			start := time.Now()
			if _, err := c.Call(ctx, wire.MRead, q, nil, &a); err != nil {
				return nil, err
			}
			ds = append(ds, time.Since(start))
			if a.Kind != want {
				return nil, fmt.Errorf("reader %d got %q for file %d, want %q", n, a.Kind, f, want)
			}
		}
	}
	return ds, nil
}
