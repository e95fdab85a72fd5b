package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

type gemini struct{}

func (gemini) name() string    { return "Gemini CLI" }
func (gemini) program() string { return "gemini" }

func (gemini) prepare(b *bench) error {
	dir := filepath.Join(b.home, ".gemini")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "settings.json"), []byte(`{"security":{"auth":{"selectedType":"gemini-api-key"}},"general":{"disableAutoUpdate":true},"privacy":{"usageStatisticsEnabled":false}}`), 0o644); err != nil {
		return err
	}
	cmd := b.command(time.Minute, "gemini", "extensions", "install", "--consent", b.top+"/hooks/gemini")
	cmd.Dir, cmd.Stdin = b.home, strings.NewReader(strings.Repeat("y\n", 8))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("gemini extensions install: %w\n%s", err, out)
	}
	return nil
}

func (gemini) words(again bool, text string) []string {
	words := []string{"gemini", "--yolo", "-m", "gemini-2.5-pro"}
	if again {
		words = append(words, "--resume", "latest")
	}
	return append(words, "-p", text)
}

func (c gemini) prompt(b *bench, again bool, text string) error {
	words := c.words(again, text)
	return b.logged(b.command(3*time.Minute, words[0], words[1:]...))
}

func (c gemini) scenes() []scene {
	sh := func(command string) call {
		return call{Name: "run_shell_command", Input: obj{"command": command, "description": "x"}}
	}
	read := func(name string) call { return call{Name: "read_file", Input: obj{"file_path": name}} }
	one := func(c ...call) turn { return turn{Calls: c} }
	prompt := func(b *bench, again bool, text string) {
		err := c.prompt(b, again, text)
		b.check(err == nil, "the prompt ends: "+text, fmt.Sprint(err))
	}
	words := func(_ *bench, text string) []string { return c.words(false, text) }
	return []scene{
		{"attribution", "", func(b *bench) {
			b.model.play(one(sh("sed -i s/line/LINE/ big.txt; echo new > new.txt")), one(call{Name: "replace", Input: obj{"file_path": filepath.Join(b.project, "other.txt"), "old_string": "other 7 of", "new_string": "other seven of", "instruction": "x"}}))
			before, other := b.read("big.txt"), b.read("other.txt")
			prompt(b, false, "change three files")
			b.check(b.read("other.txt") != other, "the edit is carried out", b.model.resultOf(1))
			log, _ := b.cachebro("log")
			b.check(strings.Contains(log, "change three files"), "log names the prompt", log)
			out, err := b.cachebro("undo", "--prompt", "last", "--yes")
			b.check(err == nil && b.read("big.txt") == before && b.read("other.txt") == other && b.read("new.txt") == "", "undo --prompt last takes all back", out)
		}},
		netCase{as: sandboxedToo, sh: sh, words: words, undo: lastPrompt}.scene(),
		netCase{sh: sh, words: words, undo: lastPrompt, inside: true, settings: ".gemini/settings.json", text: `{"security":{"auth":{"selectedType":"gemini-api-key"},"toolSandboxing":true},"general":{"disableAutoUpdate":true},"privacy":{"usageStatisticsEnabled":false}}`}.scene(),
		{"session ids", "", func(b *bench) {
			b.model.play(one(sh("echo x > id.txt")))
			prompt(b, false, "which session")
			out, err := b.cachebro("log", "--session", "last")
			b.check(err == nil && strings.Contains(out, "id.txt"), "a command's changes are its session's", out)
		}},
		{"own MCP reads", "full texts", func(b *bench) {
			mcp := one(call{Name: "mcp_cachebro_read_file", Input: obj{"path": "other.txt", "offset": 60, "limit": 100}})
			b.model.play(mcp, mcp, one(read("other.txt")), one(read("other.txt")))
			prompt(b, false, "read over MCP")
			for n := range 4 {
				g := b.model.resultOf(n)
				b.check(strings.Contains(g, "other 150 of") && !strings.Contains(g, "cachebro:"), fmt.Sprintf("read %d is the text", n+1), g)
			}
		}},
	}
}
