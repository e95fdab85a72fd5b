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
	"sort"
	"strings"
	"time"
)

// rereads is the number of reads that are measured for each size, of a changed file as well as of
// an unchanged file.
const rereads = 150

// client is a minimal MCP client over stdio.
type client struct {
	in  io.WriteCloser
	out *bufio.Reader
	id  int
	// pids are the processes that produce an answer. Their processor time is measured.
	pids []int
	// agent, if not nil, calls the hooks for each read, as Claude Code does. The hooks report the
	// text that the model was given. Without that report, a text of more than 8 KiB does not count
	// as shown, because the client may have cut it.
	agent *agent
	reads int
}

func (c *client) call(method string, params any) (string, error) {
	c.id++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.id, "method": method, "params": params})
	if err != nil {
		return "", err
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		return "", err
	}
	for {
		answer, err := c.out.ReadString('\n')
		if err != nil {
			return "", err
		}
		var head struct {
			ID     int `json:"id"`
			Result struct {
				Content []struct {
					Text string `json:"text"`
				} `json:"content"`
				IsError bool `json:"isError"`
			} `json:"result"`
			Error json.RawMessage `json:"error"`
		}
		if json.Unmarshal([]byte(answer), &head) != nil || head.ID != c.id {
			continue // a notification
		}
		if head.Error != nil || head.Result.IsError {
			return "", fmt.Errorf("%s: %s", method, answer)
		}
		if method == "tools/list" {
			return answer, nil
		}
		if len(head.Result.Content) > 0 {
			return head.Result.Content[0].Text, nil
		}
		return "", nil
	}
}

// reread measures what a read costs an agent that already has the file. It reads an unchanged file,
// and a file with one changed line.
func reread(binary, dir string) error {
	if err := settle(binary, dir); err != nil {
		return err
	}
	cmd := exec.Command(binary, "serve", "--reader=connection", dir)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { in.Close(); _ = cmd.Wait() }()
	c := &client{in: in, out: bufio.NewReaderSize(out, 1<<20), pids: []int{cmd.Process.Pid}}
	if _, err := c.call("initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "bench", "version": "1"}}); err != nil {
		return err
	}
	fmt.Printf("%-32s %15.1f ms\n", "mcp start to first answer", ms(time.Since(start)))
	if _, err := io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		return err
	}
	pid, err := daemonOf(binary, dir)
	if err != nil {
		return err
	}
	c.pids = append(c.pids, pid)
	if err := c.rereads(dir, 2); err != nil {
		return err
	}
	c.agent, err = newAgent(binary, dir)
	if err != nil {
		return err
	}
	defer c.agent.close()
	for _, size := range []int{20, 60} {
		if err := c.rereads(dir, size); err != nil {
			return err
		}
	}
	if err := schemas(binary, dir); err != nil {
		return err
	}
	return readers(binary, dir)
}

// settle waits until the store has recorded what earlier tasks wrote. A read before that would
// be answered in full, because the text to compare it with would be missing.
func settle(binary, dir string) error {
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		out, err := statusOf(binary, dir)
		if err != nil {
			return fmt.Errorf("status: %w", err)
		}
		var st struct{ Store, Index struct{ Lag int } }
		if err := json.Unmarshal(out, &st); err != nil {
			return err
		}
		if st.Store.Lag == 0 && st.Index.Lag == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("still %d versions behind", st.Store.Lag)
		}
	}
}

// rereads measures reads of a file of kB kilobytes: first of a file that changes before each read,
// then of a file that does not change.
func (c *client) rereads(dir string, kB int) error {
	name := filepath.Join(dir, "bench-reread.txt")
	defer os.Remove(name)
	var unchanged, changed, atOnce, rested []time.Duration
	whole := 0
	lines := kB * 1024 / 80
	for i := range rereads {
		var text strings.Builder
		for line := range lines {
			fmt.Fprintf(&text, "	return nothing of what was read before unless line %4d is here, round %4d\n", line, map[bool]int{true: i}[line == lines/2])
		}
		if err := os.WriteFile(name, []byte(text.String()), 0o644); err != nil {
			return err
		}
		// The read is measured in three cases, in turn. In case 0 the log already has the change,
		// and the connection was just in use, as for the reads of an unchanged file below. In case
		// 1 the read follows the write at once and has to wait for the log. In case 2 the read
		// follows a pause, so idle processors have to wake up.
		switch i % 3 {
		case 0:
			if err := c.ping(25 * time.Millisecond); err != nil {
				return err
			}
		case 2:
			time.Sleep(100 * time.Millisecond)
		}
		d, answer, err := c.read("bench-reread.txt")
		if err != nil {
			return err
		}
		switch {
		case !strings.HasPrefix(answer, "[changed"): // sent in full, because it is the first read or the earlier text has expired
			if whole++; whole > 1+rereads/20 {
				return fmt.Errorf("a changed file comes back as %.60q", answer)
			}
		case i%3 == 0:
			changed = append(changed, d)
		case i%3 == 1:
			atOnce = append(atOnce, d)
		default:
			rested = append(rested, d)
		}
	}
	before, answers := cpu(c.pids...), 0 // with hooks, the processor time includes the daemon's work for the hooks
	// A client that asks again after a one-line answer gets the whole text. So every second answer
	// is a one-line answer.
	for len(unchanged) < rereads {
		for range 2 {
			d, answer, err := c.read("bench-reread.txt")
			if err != nil {
				return err
			}
			answers++
			if strings.HasPrefix(answer, "[unchanged") {
				unchanged = append(unchanged, d)
			}
		}
		if len(unchanged) == 0 {
			return fmt.Errorf("an unchanged file is sent in full again and again")
		}
	}
	fmt.Printf("%-32s %15.2f ms of cpu (every other one is the text)\n", fmt.Sprintf("mcp re-read, %d kB", kB), ms(cpu(c.pids...)-before)/float64(answers))
	quantiles(fmt.Sprintf("mcp re-read, unchanged, %d kB", kB), unchanged)
	quantiles(fmt.Sprintf("mcp re-read, diff, %d kB", kB), changed)
	quantiles(fmt.Sprintf("mcp re-read, diff at once, %d kB", kB), atOnce)
	quantiles(fmt.Sprintf("mcp diff after a rest, %d kB", kB), rested)
	return nil
}

// ping sends ping requests for the time d, so that the connection stays in use.
func (c *client) ping(d time.Duration) error {
	for end := time.Now().Add(d); time.Now().Before(end); {
		if _, err := c.call("ping", map[string]any{}); err != nil {
			return err
		}
	}
	return nil
}

func quantiles(name string, ds []time.Duration) {
	sort.Slice(ds, func(i, j int) bool { return ds[i] < ds[j] })
	fmt.Printf("%-32s p50 %.2f ms  p99 %.2f ms\n", name, ms(ds[len(ds)/2]), ms(ds[len(ds)*99/100]))
}

// read reads a file, and returns how long that took. The time does not include the hooks, which are
// separate processes.
func (c *client) read(path string) (time.Duration, string, error) {
	const tool = "read_file"
	c.reads++
	input := map[string]any{"path": path}
	params := map[string]any{"name": tool, "arguments": input}
	use := fmt.Sprint("bench-", c.reads)
	if c.agent != nil {
		params["_meta"] = map[string]any{"claudecode/toolUseId": use}
		if err := c.agent.begin(use, "mcp__cachebro__"+tool, input); err != nil {
			return 0, "", err
		}
	}
	start := time.Now()
	text, err := c.call("tools/call", params)
	took := time.Since(start)
	if c.agent != nil && err == nil {
		err = c.agent.end(text)
	}
	return took, text, err
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
