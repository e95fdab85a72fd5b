//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// maxFirstIndex limits the wait for a first index.
const maxFirstIndex = 150 * time.Second

// firstIndex mounts dir and measures reads over MCP until the project's first index is complete, or
// for maxFirstIndex. The reads are made by one client, by several clients with a writer at the same
// time, or by no client. Then it prints how long the index took, the daemon's processor time, and
// its peak memory. The project should have no history yet.
func firstIndex(binary, dir string, clients int, writer bool) error {
	files, err := sample(dir, 400)
	if err != nil {
		return err
	}
	start := time.Now()
	if out, err := exec.Command(binary, "mount", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("mount: %w: %s", err, out)
	}
	var (
		wg    sync.WaitGroup
		over  atomic.Bool
		mu    sync.Mutex // guards took and first
		took  []time.Duration
		first error
	)
	failed := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			first = err
		}
	}
	for c := range clients {
		wg.Go(func() {
			ds, err := readOn(binary, dir, files, c, &over)
			if err != nil {
				failed(err)
			}
			mu.Lock()
			took = append(took, ds...)
			mu.Unlock()
		})
	}
	if writer {
		wg.Go(func() {
			name := filepath.Join(dir, "bench-first.txt")
			for i := 0; !over.Load(); i++ {
				if err := os.WriteFile(name, content(i), 0o644); err != nil {
					failed(err)
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
			os.Remove(name)
		})
	}
	pid, complete := 0, time.Time{}
	for end := start.Add(maxFirstIndex); complete.IsZero() && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if clients == 0 { // frequent requests would count as a client that waits for answers
			time.Sleep(3 * time.Second)
		}
		out, err := statusOf(binary, dir)
		if err != nil {
			continue // the daemon is starting
		}
		var st struct {
			PID   int                 `json:"daemon_pid"`
			Scan  struct{ Done bool } `json:"baseline"`
			Store struct{ Versions int }
			Index struct {
				Ready bool
				Lag   int
			}
		}
		if err := json.Unmarshal(out, &st); err != nil {
			return err
		}
		pid = st.PID
		recorded := st.Scan.Done && st.Store.Versions >= len(files)
		indexed := st.Index.Ready && (writer || st.Index.Lag <= 20) // while a writer works, the index always lags a little
		if recorded && indexed {
			complete = time.Now()
		}
	}
	lasted := time.Since(start)
	over.Store(true)
	wg.Wait()
	if first != nil {
		return first
	}
	if len(took) == 0 && clients > 0 {
		return fmt.Errorf("nobody read anything within %v", lasted)
	}
	how := "not complete"
	if !complete.IsZero() {
		how = "complete"
	}
	fmt.Printf("first index: %s after %.1f s, processor time of the daemon %.1f s, most memory %d MB, %d reads\n",
		how, lasted.Seconds(), cpu(pid).Seconds(), peak(pid)>>20, len(took))
	if clients == 0 {
		return nil
	}
	quantiles(fmt.Sprintf("%d clients, writer: %v", clients, writer), took)
	return nil
}

// readOn reads files over its own connection until over is set.
func readOn(binary, dir string, files []string, n int, over *atomic.Bool) (ds []time.Duration, err error) {
	cmd := exec.Command(binary, "serve", "--reader=connection", dir)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer func() { in.Close(); _ = cmd.Wait() }()
	c := &client{in: in, out: bufio.NewReaderSize(out, 1<<20)}
	if _, err := c.call("initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "bench", "version": "1"}}); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		return nil, err
	}
	for i := n * 37; !over.Load(); i++ {
		rel, err := filepath.Rel(dir, files[i%len(files)])
		if err != nil {
			return nil, err
		}
		d, _, err := c.read(rel)
		if err != nil {
			if strings.Contains(err.Error(), "binary") {
				continue
			}
			return nil, err
		}
		ds = append(ds, d)
		time.Sleep(10 * time.Millisecond) // an agent thinks between two reads
	}
	return ds, nil
}

// peak returns the peak memory of a process.
func peak(pid int) (bytes int64) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmHWM:" {
			bytes, _ = strconv.ParseInt(f[1], 10, 64)
		}
	}
	return bytes << 10
}
