package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

type codex struct{}

func (codex) name() string    { return "Codex" }
func (codex) program() string { return "codex" }

func (codex) prepare(b *bench) error {
	dir := filepath.Join(b.home, "codex")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	config := fmt.Sprintf(`model = "gpt-5.2"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
model_auto_compact_token_limit = 40000
check_for_update_on_startup = false
[model_providers.scripted]
name = "scripted"
base_url = "%s/v1"
wire_api = "responses"
`, b.model.URL)
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o644); err != nil {
		return err
	}
	if b.bare {
		return nil
	}
	for _, args := range [][]string{{"plugin", "marketplace", "add", b.top}, {"plugin", "add", "cachebro@cachebro"}} {
		if out, err := b.command(time.Minute, "codex", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("codex %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// codeMode names a mode of the client in which the model may write programs that call tools.
const codeMode = "code mode"

func (codex) words(again bool, text string, options ...string) []string {
	words := []string{"codex", "exec", "--dangerously-bypass-hook-trust", "--skip-git-repo-check"}
	if again {
		words = append(words, "resume", "--last")
	}
	return append(append(words, options...), text)
}

func (c codex) prompt(b *bench, again bool, text string, options ...string) error {
	words := c.words(again, text, options...)
	return b.logged(b.command(3*time.Minute, words[0], words[1:]...))
}

// recorded reports whether one of the client's session records contains the text.
func (b *bench) recorded(text string) bool {
	records, _ := filepath.Glob(filepath.Join(b.home, "codex/sessions/*/*/*/*.jsonl"))
	for _, r := range records {
		if body, err := os.ReadFile(r); err == nil && strings.Contains(string(body), text) {
			return true
		}
	}
	return false
}

func (c codex) scenes() []scene {
	sh := func(command string) call { return call{Name: "exec_command", Input: obj{"cmd": command}} }
	one := func(c ...call) turn { return turn{Calls: c} }
	prompt := func(b *bench, again bool, text string) {
		err := c.prompt(b, again, text)
		b.check(err == nil, "the prompt ends: "+text, fmt.Sprint(err))
	}
	return []scene{
		{"rewriting of reads", "`cat`, `sed` …", func(b *bench) {
			patch := "apply_patch <<'E'\n*** Begin Patch\n*** Update File: other.txt\n@@\n-other 150 of a file that is read more than once\n+other one hundred and fifty\n*** End Patch\nE"
			b.model.play(
				one(sh("cat other.txt")), one(sh("cat other.txt")), one(sh("sed -i '100s/other/OTHER/' other.txt")), one(sh("cat other.txt")),
				one(sh(patch)), one(sh("sed -n '1,50p' other.txt")), one(sh("sed -n '130,200p' big.txt"), sh("sed -n '130,200p' big.txt")),
				one(sh("cat big.txt")), one(sh("cat big.txt")),
			)
			prompt(b, false, "read and edit")
			b.full(0, "the first read")
			b.line(1, "the second read")
			g := b.model.resultOf(3)
			b.check(strings.Contains(g, "OTHER 100 of") && !strings.Contains(g, "other 150 of"), "after sed the changed lines alone", g)
			b.check(strings.Contains(b.read("other.txt"), "one hundred and fifty"), "a patch after a line is applied", b.model.resultOf(4))
			b.line(5, "a part of what was read")
			b.check(strings.Contains(b.model.resultOf(6), "line 150 of") && strings.Contains(b.model.resultOf(7), "line 150 of"), "two reads at once are texts", b.model.resultOf(7))
			b.check(strings.Contains(b.model.resultOf(8), "truncated") && strings.Contains(b.model.resultOf(9), "truncated"), "what the client cuts is left alone", b.model.resultOf(9))
			b.model.play(one(sh("cat other.txt")), one(sh("cat other.txt")))
			prompt(b, true, "again, by a new process")
			g = b.model.resultOf(0)
			b.check(strings.Contains(g, "other 151 of") && !strings.Contains(g, "cachebro:"), "the first read of a new process is the text", g)
			b.line(1, "the second")
		}},
		{"rewriting of reads", codeMode, func(b *bench) {
			program := func(command string) turn {
				return one(call{Name: "exec", Input: obj{"": "const r = await tools.exec_command({cmd: '" + command + "'}); text(r.output);"}})
			}
			b.model.play(program("cat other.txt"), program("cat other.txt"), one(sh("cat other.txt")), one(sh("cat other.txt")),
				program("sed -i s/line/LINE/ big.txt; echo new > new.txt"), program("cat other.txt"))
			before := b.read("big.txt")
			err := c.prompt(b, false, "write programs", "--enable", "code_mode")
			b.check(err == nil, "the prompt ends: write programs", fmt.Sprint(err))
			b.full(0, "what a program reads")
			b.full(1, "what a program reads again")
			b.full(2, "the first read without a program")
			b.line(3, "the second")
			b.full(5, "what a program reads after that")
			out, err := b.cachebro("undo", "--prompt", "last", "--yes")
			b.check(err == nil && b.read("big.txt") == before && b.read("new.txt") == "", "undo --prompt last takes back what a program did", out)
		}},
		{"attribution", "", func(b *bench) {
			b.model.play(one(sh("sed -i s/line/LINE/ big.txt; echo new > new.txt")))
			before := b.read("big.txt")
			prompt(b, false, "change two files")
			log, _ := b.cachebro("log")
			b.check(strings.Contains(log, "change two files"), "log names the prompt", log)
			out, err := b.cachebro("undo", "--prompt", "last", "--yes")
			b.check(err == nil && b.read("big.txt") == before && b.read("new.txt") == "", "undo --prompt last takes both back", out)
		}},
		{"sandbox", "", func(b *bench) {
			outside, rules := filepath.Join(b.home, "outside"), filepath.Join(b.home, "codex/rules")
			rule := fmt.Sprintf("prefix_rule(pattern = [%q, [\"log\", \"output\", \"status\", \"undo\"]], decision = \"allow\")\n", b.exe)
			err := errors.Join(os.MkdirAll(rules, 0o755), os.WriteFile(filepath.Join(rules, "cachebro.rules"), []byte(rule), 0o644))
			b.check(err == nil, "the rule of the guide", fmt.Sprint(err))
			// Of twenty commands, the log must show those that changed something. It must show
			// nothing that the sandbox does around each command.
			change := map[string]bool{"echo 1 >one.txt": true, "sed -i s/1/2/ one.txt": true, "mkdir -p made/deep; echo d >made/deep/d.txt": true, "mv one.txt two.txt": true, "rm other.txt": true, "echo x >>two.txt": true, "chmod 600 two.txt": true}
			var turns []turn
			var wanted []string
			for _, command := range []string{
				"head -n 3 big.txt", "echo 1 >one.txt", "ls -la", "pwd", "sed -i s/1/2/ one.txt", "grep -c line big.txt", "mkdir -p made/deep; echo d >made/deep/d.txt", "cat one.txt", "mv one.txt two.txt", "wc -l big.txt",
				"true", "touch t.tmp; rm t.tmp", "rm other.txt", "find . -name two.txt", "head -n 1 two.txt", "echo x >>two.txt", "uname", "chmod 600 two.txt", "date", "sort two.txt",
			} {
				turns = append(turns, one(sh(command)))
				if change[command] {
					wanted = append(wanted, command)
				}
			}
			other := b.read("other.txt")
			b.model.play(turns...)
			err = c.prompt(b, false, "run twenty commands", "-c", `sandbox_mode="workspace-write"`)
			b.check(err == nil, "the prompt ends: run twenty commands", fmt.Sprint(err))
			log, _ := b.cachebro("log", "--actions", "--json")
			var told []string
			for d := json.NewDecoder(strings.NewReader(log)); d.More(); {
				var a struct {
					Command string
					Count   int
				}
				if err := d.Decode(&a); err != nil {
					b.check(false, "log --actions --json", fmt.Sprint(err))
					break
				}
				if a.Count > 0 {
					told = append([]string{a.Command}, told...)
				}
			}
			b.check(slices.Equal(told, wanted), "the log has the commands that changed something, and no others", strings.Join(told, "\n"))
			out, err := b.cachebro("undo", "--prompt", "last", "--yes")
			_, made := os.Stat(filepath.Join(b.project, "made"))
			b.check(err == nil && b.read("other.txt") == other && b.read("two.txt") == "" && os.IsNotExist(made), "undo of them", out)
			// Codex's own outputs are never shortened, so "cachebro output" is tested with an
			// output that was shortened for a session of Claude Code.
			whole := strings.Repeat("tests/test_sums.py::test_number PASSED                    [ 50%]\n", 40) + "\n============ 40 passed in 0.10s ============"
			sum := sha256.Sum256([]byte(whole))
			event, _ := json.Marshal(obj{"hook_event_name": "PostToolUse", "session_id": "beside", "prompt_id": "p", "cwd": b.project, "tool_name": "Bash", "tool_use_id": "t1",
				"tool_input": obj{"command": "./pytest -v"}, "tool_response": obj{"stdout": whole, "stderr": "", "interrupted": false, "isImage": false}}) // a map of strings and booleans can always be encoded
			hook := b.command(time.Minute, "cachebro", "hook")
			hook.Stdin = bytes.NewReader(event)
			folded, err := hook.Output()
			b.check(err == nil && strings.Contains(string(folded), "40 passed tests folded"), "an output is folded", string(folded))
			b.model.play(one(sh("touch "+outside+"; echo new > new.txt")), one(sh(b.exe+" log")), one(sh(b.exe+" status")),
				one(sh(b.exe+" output "+hex.EncodeToString(sum[:4]))), one(sh(b.exe+" undo --prompt last --yes")))
			err = c.prompt(b, false, "work in the sandbox", "-c", `sandbox_mode="workspace-write"`)
			b.check(err == nil, "the prompt ends: work in the sandbox", fmt.Sprint(err))
			_, missing := os.Stat(outside)
			b.check(os.IsNotExist(missing), "its commands are in the sandbox", b.model.resultOf(0))
			b.check(strings.Contains(b.model.resultOf(1), "work in the sandbox"), "cachebro log", b.model.resultOf(1))
			b.check(strings.Contains(b.model.resultOf(2), "is mounted"), "cachebro status", b.model.resultOf(2))
			b.check(strings.Contains(b.model.resultOf(3), whole), "cachebro output", b.model.resultOf(3))
			b.check(b.read("new.txt") == "", "cachebro undo", b.model.resultOf(4))
		}},
		{"sub-agents", "", func(b *bench) {
			b.model.play(one(sh("cat other.txt")), one(call{Name: "multi_agent_v1/spawn_agent", Input: obj{"message": "read it"}}), one(sh("cat other.txt")), one(sh("cat other.txt")), one(sh("cat other.txt")), one(sh("cat other.txt")))
			prompt(b, false, "ask a sub-agent")
			b.full(0, "the first read")
			records, _ := filepath.Glob(filepath.Join(b.home, "codex/sessions/*/*/*/*.jsonl"))
			b.check(len(records) == 2, "a sub-agent ran", fmt.Sprint(records))
		}},
		{"compaction", "", func(b *bench) {
			t := one(sh("cat other.txt"))
			t.Tokens = 45_000
			b.model.play(one(sh("cat other.txt")), t, one(sh("cat other.txt")), one(sh("cat other.txt")))
			prompt(b, false, "read much")
			b.full(0, "the first read")
			b.check(b.recorded(`"type":"compacted"`), "the client compacts", "")
			b.full(2, "a read after the compaction")
			b.line(3, "the next")
		}},
		{"own MCP reads", "lines", func(b *bench) {
			read := one(call{Name: "mcp__cachebro/read_file", Input: obj{"path": "other.txt", "offset": 60, "limit": 100}})
			b.model.play(read, read)
			prompt(b, false, "read over MCP")
			g := b.model.resultOf(0)
			b.check(strings.Contains(g, "other 150 of"), "read_file brings the text", g)
			g = b.model.resultOf(1)
			b.check(strings.Contains(g, "[unchanged"), "and then a line", g)
		}},
		netCase{as: sandboxedToo, sh: sh, undo: lastPrompt, words: func(_ *bench, text string) []string { return c.words(false, text) }}.scene(),
		netCase{sh: sh, undo: lastPrompt, words: func(b *bench, text string) []string {
			return c.words(false, text, "-c", `sandbox_mode="workspace-write"`, "-c", fmt.Sprintf("sandbox_workspace_write.writable_roots=[%q]", b.home))
		}}.scene(),
		{"session ids", "", func(b *bench) {
			b.model.play(one(sh("echo $CODEX_THREAD_ID > id.txt")))
			prompt(b, false, "which session")
			id := strings.TrimSpace(b.read("id.txt"))
			out, err := b.cachebro("log", "--session", id)
			b.check(err == nil && id != "" && strings.Contains(out, "id.txt"), "a command's changes are its session's", id+"\n"+out)
		}},
	}
}
