package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

type openCode struct{}

func (openCode) name() string    { return "OpenCode" }
func (openCode) program() string { return "opencode" }

func (openCode) prepare(b *bench) error {
	dir := filepath.Join(b.home, ".config/opencode")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	plugins := list{"file://" + b.top + "/hooks/opencode/cachebro.mjs"}
	if b.bare {
		plugins = list{}
	}
	text, err := json.Marshal(obj{
		"plugin": plugins, "model": "scripted/m", "small_model": "scripted/m",
		"permission": obj{"bash": "allow", "edit": "allow", "external_directory": "allow"}, "autoupdate": false,
		"provider": obj{"scripted": obj{"npm": "@ai-sdk/openai-compatible", "options": obj{"baseURL": b.model.URL + "/v1", "apiKey": "none"},
			"models": obj{"m": obj{"limit": obj{"context": 50000, "output": 4000}}}}},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "opencode.json"), text, 0o644)
}

func (openCode) words(again bool, text string) []string {
	words := []string{"opencode", "run"}
	if again {
		words = append(words, "--continue")
	}
	return append(words, text)
}

func (c openCode) prompt(b *bench, again bool, text string) error {
	words := c.words(again, text)
	return b.logged(b.command(3*time.Minute, words[0], words[1:]...))
}

func (c openCode) scenes() []scene {
	read := func(b *bench, name string) call {
		return call{Name: "read", Input: obj{"filePath": filepath.Join(b.project, name)}}
	}
	bash := func(command string) call {
		return call{Name: "bash", Input: obj{"command": command, "description": "x"}}
	}
	one := func(c ...call) turn { return turn{Calls: c} }
	prompt := func(b *bench, again bool, text string) {
		err := c.prompt(b, again, text)
		b.check(err == nil, "the prompt ends: "+text, fmt.Sprint(err))
	}
	return []scene{
		{"rewriting of reads", "`read`, `cat` …", func(b *bench) {
			b.write("gaps.txt", numbered(60, "gap")+"\n"+numbered(60, "gap"))
			part := one(call{Name: "read", Input: obj{"filePath": filepath.Join(b.project, "gaps.txt"), "offset": 1, "limit": 61}})
			b.model.play(
				one(read(b, "big.txt")), one(read(b, "big.txt")), one(bash("sed -i '100s/line/LINE/' big.txt")), one(read(b, "big.txt")),
				one(call{Name: "edit", Input: obj{"filePath": filepath.Join(b.project, "big.txt"), "oldString": "line 200 of", "newString": "line two hundred of"}}),
				one(bash("cat big.txt")), one(read(b, "big.txt")),
				one(read(b, "other.txt"), read(b, "other.txt")), one(bash("cat other.txt; cat big.txt")), part, part,
			)
			prompt(b, false, "read and edit")
			b.full(0, "the first read")
			b.line(1, "the second read")
			g := b.model.resultOf(3)
			b.check(strings.Contains(g, "100: LINE 100 of") && !strings.Contains(g, "line 200 of"), "after sed the changed lines alone", g)
			b.check(strings.Contains(b.read("big.txt"), "line two hundred of"), "an edit after a stub is carried out", b.model.resultOf(4))
			b.line(5, "cat after the model's own edit")
			b.full(6, "what is asked for again after a line")
			b.full(7, "the first of two reads at once")
			b.full(8, "the second of two reads at once")
			g = b.model.resultOf(9)
			b.check(strings.Contains(g, "not repeated. Lines 1-300 of big.txt"), "cat of two files has a line for the second", g)
			g = b.model.resultOf(10)
			b.check(strings.Contains(g, "60: gap 60 of") && strings.Contains(g, "61: \n"), "a part that ends in an empty line is the text", g)
			b.line(11, "that part again")
			b.model.play(one(read(b, "big.txt")), one(read(b, "big.txt")))
			prompt(b, true, "again, by a new process")
			b.full(0, "the first read of a new process")
			b.line(1, "the second")
		}},
		{"attribution", "", func(b *bench) {
			b.model.play(one(bash("sed -i s/line/LINE/ big.txt; echo new > new.txt")))
			before := b.read("big.txt")
			prompt(b, false, "change two files")
			log, _ := b.cachebro("log")
			b.check(strings.Contains(log, "change two files"), "log names the prompt", log)
			out, err := b.cachebro("undo", "--prompt", "last", "--yes")
			b.check(err == nil && b.read("big.txt") == before && b.read("new.txt") == "", "undo --prompt last takes both back", out)
		}},
		{"sub-agents", "", func(b *bench) {
			task := call{Name: "task", Input: obj{"description": "x", "prompt": "read it", "subagent_type": "general"}}
			b.model.play(one(read(b, "big.txt")), one(task), one(read(b, "big.txt")), one(read(b, "big.txt")), one(bash("echo sub > sub.txt")), turn{Text: "sub done"}, one(read(b, "big.txt")))
			prompt(b, false, "ask a sub-agent")
			b.full(0, "the first read")
			b.full(2, "a sub-agent's first read")
			b.line(3, "a sub-agent's second read")
			b.line(5, "a read after the sub-agent")
			out, err := b.cachebro("undo", "--prompt", "last", "--yes")
			b.check(err == nil && b.read("sub.txt") == "", "undo --prompt last takes the sub-agent's file back", out)
		}},
		{"compaction", "", func(b *bench) {
			t := one(read(b, "big.txt"))
			t.Tokens = 49_000
			b.model.play(one(read(b, "big.txt")), t, one(read(b, "big.txt")), one(read(b, "big.txt")))
			prompt(b, false, "read much")
			b.full(0, "the first read")
			b.check(b.model.wasSent("summar"), "the client compacts", "")
			b.full(2, "a read after the compaction")
			b.line(3, "the next")
		}},
		{"own MCP reads", "full texts", func(b *bench) {
			b.model.play(one(call{Name: "cachebro_read_file", Input: obj{"path": "big.txt"}}), one(call{Name: "cachebro_read_file", Input: obj{"path": "big.txt"}}))
			prompt(b, false, "read over MCP")
			g := b.model.resultOf(0)
			b.check(strings.Contains(g, "line 150 of"), "read_file brings the text", g)
			g = b.model.resultOf(1)
			b.check(strings.Contains(g, "line 150 of"), "and again", g)
		}},
		netCase{sh: bash, undo: lastPrompt, words: func(_ *bench, text string) []string { return c.words(false, text) }}.scene(),
		{"session ids", "", func(b *bench) {
			b.model.play(one(bash("echo $CACHEBRO_SESSION > id.txt")))
			prompt(b, false, "which session")
			id := strings.TrimSpace(b.read("id.txt"))
			out, err := b.cachebro("log", "--session", id)
			b.check(err == nil && strings.HasPrefix(id, "ses_") && strings.Contains(out, "id.txt"), "a command's changes are its session's", id+"\n"+out)
		}},
	}
}
