package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// byRun is a client for which we have no plugin. "cachebro run" gives its session a name, and the
// client can be configured to use our MCP server.
type byRun struct {
	called, exe string
	shell       string // name of the client's tool that runs commands
	words       func(b *bench, text string) []string
	mcp         string // name by which the client's model calls our read_file
}

func (c byRun) command(b *bench, text string) *exec.Cmd {
	return b.command(3*time.Minute, "cachebro", append([]string{"run", "--"}, c.words(b, text)...)...)
}

func (c byRun) name() string         { return c.called }
func (c byRun) program() string      { return c.exe }
func (byRun) prepare(b *bench) error { return nil }

const server = `{"mcpServers":{"cachebro":{"command":"cachebro","args":["serve"],"tools":["*"]}}}`

var others = []client{
	byRun{"Copilot CLI", "copilot", "bash", func(_ *bench, text string) []string {
		return []string{"copilot", "--allow-all", "--no-color", "--additional-mcp-config", server, "-p", text}
	}, "cachebro-read_file"},
	qwen{byRun{"Qwen Code", "qwen", "run_shell_command", qwenArgs, "mcp__cachebro__read_file"}},
}

func qwenArgs(b *bench, text string) []string {
	return []string{"qwen", "--yolo", "--auth-type", "openai", "--openai-api-key", "none", "--openai-base-url", b.model.URL + "/v1", "-m", "m", "--mcp-config", server, text}
}

// qwen is a client with hooks, which init registers. So its session has a name even without
// "cachebro run".
type qwen struct{ byRun }

func (c qwen) scenes() []scene {
	one := func(c ...call) turn { return turn{Calls: c} }
	sh := func(command string) call {
		return call{Name: c.shell, Input: obj{"command": command, "description": "x", "is_background": false}}
	}
	alone := func(b *bench, text string) []string { // the sandbox refuses MCP servers, so no server is configured
		return slices.DeleteFunc(c.words(b, text), func(w string) bool { return w == "--mcp-config" || w == server })
	}
	sandboxed := netCase{as: sandboxedToo, sh: sh, words: alone, undo: []string{"--session", "last"}, inside: true,
		settings: ".qwen/settings.json", text: `{"tools":{"executionSandbox":{"backend":"bwrap","filesystem":"workspace-write","network":"open"}}}`}
	return append(append([]scene{sandboxed.scene()}, c.byRun.scenes()...), scene{"attribution", "", func(b *bench) {
		out, err := b.cachebro("init", "--yes", "--client", "qwen")
		b.check(err == nil, "init --client qwen", out)
		edit := call{Name: "edit", Input: obj{"file_path": filepath.Join(b.project, "other.txt"), "old_string": "other 7 of", "new_string": "other seven of"}}
		write := call{Name: "write_file", Input: obj{"file_path": filepath.Join(b.project, "written.txt"), "content": "x\n"}}
		b.model.play(one(sh("sed -i s/line/LINE/ big.txt; echo new > new.txt")), one(call{Name: "read_file", Input: obj{"file_path": filepath.Join(b.project, "other.txt")}}), one(edit), one(write))
		before, other := b.read("big.txt"), b.read("other.txt")
		words := qwenArgs(b, "change four files")
		err = b.logged(b.command(3*time.Minute, words[0], words[1:]...))
		b.check(err == nil, "the prompt ends", fmt.Sprint(err))
		b.check(b.read("other.txt") != other && b.read("written.txt") != "", "the edit and the new file are there", b.model.resultOf(2))
		log, _ := b.cachebro("log")
		b.check(strings.Contains(log, "change four files"), "log names the prompt", log)
		versions, _ := b.cachebro("log", "--json")
		for line := range strings.Lines(versions) {
			outside := strings.Contains(line, `"op":"baseline"`) || !strings.Contains(line, `.txt"`)
			b.check(outside || strings.Contains(line, `"tool_call"`), "each version has its call", line)
		}
		out, err = b.cachebro("undo", "--prompt", "last", "--yes")
		b.check(err == nil && b.read("big.txt") == before && b.read("other.txt") == other && b.read("new.txt")+b.read("written.txt") == "", "undo --prompt last takes all back", out)
	}})
}

func (c byRun) scenes() []scene {
	one := func(c ...call) turn { return turn{Calls: c} }
	sh := func(command string) call {
		return call{Name: c.shell, Input: obj{"command": command, "description": "x", "is_background": false}}
	}
	prompt := func(b *bench, text string) {
		err := b.logged(c.command(b, text))
		b.check(err == nil, "the prompt ends: "+text, fmt.Sprint(err))
	}
	return []scene{
		{"session ids", "by `cachebro run`", func(b *bench) {
			b.model.play(one(sh("sed -i s/line/LINE/ big.txt; echo new > new.txt")))
			before := b.read("big.txt")
			prompt(b, "change two files")
			b.check(b.read("big.txt") != before, "the command ran", b.model.resultOf(0))
			out, err := b.cachebro("undo", "--session", "last", "--yes")
			b.check(err == nil && b.read("big.txt") == before && b.read("new.txt") == "", "undo --session last takes both back", out)
		}},
		netCase{sh: sh, words: c.words, undo: []string{"--session", "last"}}.scene(),
		{"own MCP reads", "full texts", func(b *bench) {
			mcp := one(call{Name: c.mcp, Input: obj{"path": "other.txt", "offset": 60, "limit": 100}})
			b.model.play(mcp, mcp)
			prompt(b, "read over MCP")
			g := b.model.resultOf(0)
			b.check(strings.Contains(g, "other 150 of"), "read_file brings the text", g)
			g = b.model.resultOf(1)
			b.check(strings.Contains(g, "other 150 of") || strings.Contains(g, "[unchanged"), "and again", g)
		}},
	}
}
