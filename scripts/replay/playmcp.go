package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"cachebro/store/readers"
)

// mcpClient speaks to `cachebro serve` over its standard input and output.
type mcpClient struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	id     int
	tools  map[string]bool
	schema string // the part of the schema that is in every context
}

func startMCP(p *project, profile string) (*mcpClient, error) {
	cmd := p.command("serve", "--tools="+profile, p.dir)
	cmd.Stderr = os.Stderr
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
	c := &mcpClient{cmd: cmd, in: in, out: bufio.NewReaderSize(out, 1<<20), tools: map[string]bool{}}
	var hello struct {
		Instructions string `json:"instructions"`
	}
	var list struct {
		Tools []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Schema      json.RawMessage `json:"inputSchema"`
		} `json:"tools"`
	}
	err = c.request("initialize", fields{"protocolVersion": "2025-11-25", "capabilities": fields{}, "clientInfo": fields{"name": "replay", "version": "1"}}, &hello)
	if err == nil {
		_, err = io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	}
	if err == nil {
		err = c.request("tools/list", fields{}, &list)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	c.schema = hello.Instructions
	for _, t := range list.Tools {
		c.tools[t.Name] = true
		c.schema += fmt.Sprintf("\n{\"name\":\"mcp__cachebro__%s\",\"description\":%q,\"input_schema\":%s}", t.Name, t.Description, t.Schema)
	}
	return c, nil
}

func (c *mcpClient) offers(tool string) bool { return c != nil && c.tools[tool] }

func (c *mcpClient) close() {
	_ = c.in.Close()
	_ = c.cmd.Wait()
}

func (c *mcpClient) request(method string, params, result any) error {
	c.id++
	b, err := json.Marshal(fields{"jsonrpc": "2.0", "id": c.id, "method": method, "params": params})
	if err != nil {
		return err
	}
	if _, err := c.in.Write(append(b, '\n')); err != nil {
		return err
	}
	for {
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		var a struct {
			ID     int             `json:"id"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
		}
		if json.Unmarshal(line, &a) != nil || a.ID != c.id {
			continue // a notification
		}
		if a.Error != nil {
			return fmt.Errorf("%s: %s", method, a.Error)
		}
		return json.Unmarshal(a.Result, result)
	}
}

// tool calls a tool as the client does. It runs the hook before the call, calls the tool with the
// id of the tool use, and reports the text that the model received. texts are the blocks of the
// result.
func (pl *player) tool(agent int, name string, input fields) (texts []string, err error) {
	out, err := pl.hook(agent, "PreToolUse", fields{"tool_name": "mcp__cachebro__" + name, "tool_use_id": pl.last, "tool_input": input})
	if err != nil {
		return nil, err
	}
	pl.inject(agent, out.Specific.Context)
	var r struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		IsError bool `json:"isError"`
	}
	if err := pl.mcp.request("tools/call", fields{"name": name, "arguments": input, "_meta": fields{"claudecode/toolUseId": pl.last}}, &r); err != nil {
		return nil, err
	}
	for _, c := range r.Content {
		texts = append(texts, c.Text)
	}
	if r.IsError {
		return nil, fmt.Errorf("%s: %s", name, strings.Join(texts, " "))
	}
	return texts, pl.batch(agent, "mcp__cachebro__"+name, input, strings.Join(texts, "\n"))
}

var (
	nextPage = regexp.MustCompile(`\n?\[\.\.\. diff truncated at \d+ lines\..*diff_offset=(\d+)\]$`)
	nextPart = regexp.MustCompile(`offset=(\d+)`)
)

// readMCP calls read_file until it has received all requested lines.
func (pl *player) readMCP(st step, m *mind, a ask) error {
	if n := len(a.now); a.first > 1 && a.first == n && a.now[n-1] == "" {
		return nil // the request is for the empty line after the last newline, which only the client counts as a line
	}
	text := strings.Join(a.now[a.first-1:a.last], "\n")
	if a.last < len(a.now) {
		text += "\n"
	}
	a.full = text
	best, expiring, err := pl.oracle.least(m, a, nil, func(x readers.Answer) string { return x.Sent() })
	if err != nil {
		return err
	}
	input := fields{"path": a.path}
	if !a.whole {
		input["offset"], input["limit"] = a.first, a.last-a.first+1
	}
	kind, sent, patch, next := "", 0, "", a.first
	for {
		parts, err := pl.tool(st.agent, "read_file", input)
		if err != nil {
			return err
		}
		for _, p := range parts {
			sent += pl.o.tokens(p)
		}
		got := parts[0]
		switch {
		case strings.HasPrefix(got, "[unchanged · "):
			kind = "unchanged"
			pl.delivered(st, m, a, []lineRun{{at: a.first, from: a.first, n: a.last - a.first + 1}}, nil)
		case strings.HasPrefix(got, "[changed · "):
			kind = "changed"
			_, body, _ := strings.Cut(got, "\n")
			if f := nextPage.FindStringSubmatch(body); f != nil {
				patch += nextPage.ReplaceAllString(body, "\n")
				offset, err := strconv.Atoi(f[1])
				if err != nil {
					return err
				}
				input = fields{"path": a.path, "diff_offset": offset}
				pl.call(st.agent)
				continue
			}
			patch += body
			runs, err := patched(m, patch)
			pl.delivered(st, m, a, runs, err)
		default:
			kind = "full"
			if patch != "" { // the server refused to continue the diff, so read the text from its beginning
				next = a.first
			}
			rest := strings.Join(a.now[next-1:a.last], "\n")
			if a.last < len(a.now) {
				rest += "\n"
			}
			if !strings.HasPrefix(rest, got) {
				pl.false(st, fmt.Errorf("lines %d-%d were answered with another text (%d bytes in place of %d)", next, a.last, len(got), len(rest)))
				break
			}
			if len(got) < len(rest) {
				if len(parts) < 2 || nextPart.FindStringSubmatch(parts[len(parts)-1]) == nil {
					pl.false(st, fmt.Errorf("a text was cut without notice: %d of %d bytes", len(got), len(rest)))
					break
				}
				next += strings.Count(got, "\n")
				input = fields{"path": a.path, "offset": next, "limit": a.last - next + 1}
				pl.call(st.agent)
				continue
			}
			pl.delivered(st, m, a, []lineRun{{at: a.first, shown: a.now[a.first-1 : a.last]}}, nil)
		}
		break
	}
	pl.score(st, a, kind, sent, best, expiring)
	return nil
}

func (pl *player) editMCP(st step, old, repl string) error {
	texts, err := pl.tool(st.agent, "edit_file", fields{"path": pl.file(st.file), "old_string": old, "new_string": repl, "replace_all": st.everywhere})
	if err != nil {
		return err
	}
	return pl.answered(st.agent, texts, editedText(pl.p.path(pl.file(st.file))))
}

func (pl *player) writeMCP(st step, post string) error {
	texts, err := pl.tool(st.agent, "write_file", fields{"path": pl.file(st.file), "content": post})
	if err != nil {
		return err
	}
	return pl.answered(st.agent, texts, "File created successfully at: "+pl.p.path(pl.file(st.file)))
}

// answered counts the result of a tool for which cachebro cannot save any tokens. An oracle would
// send the same text.
func (pl *player) answered(agent int, texts []string, without string) error {
	n := pl.o.tokens(strings.Join(texts, "\n"))
	pl.res.sent += n
	pl.res.oracle += n
	pl.res.expiring += n
	pl.res.full += pl.o.tokens(without)
	pl.bills[agent].enter(pl.o.tokens(without), n)
	return nil
}
