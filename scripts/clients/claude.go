package main

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// claudeCode tests Claude Code by running scripts/claude, which has a scenario for each ability.
type claudeCode struct{ checks string }

func (claudeCode) name() string    { return "Claude Code" }
func (claudeCode) program() string { return "claude" }

func (claudeCode) prepare(*bench) error { return nil }

func (c claudeCode) scenes() []scene {
	scenario := func(ability, name, evidence string) scene {
		return scene{ability, map[string]string{"rewriting of reads": "`Read`, `cat` …"}[ability], func(b *bench) {
			args := []string{"-cachebro", b.exe, "-claude", filepath.Join(b.npm, "node_modules/.bin/claude"), "-only", name}
			if b.bare {
				args = append(args, "-bare")
			}
			cmd := b.command(8*time.Minute, c.checks, args...)
			cmd.Dir = b.top
			out, err := cmd.CombinedOutput()
			if m := resultBytes.FindSubmatch(out); m != nil {
				b.results[b.name], _ = strconv.Atoi(string(m[1]))
			}
			var failed []string
			for line := range strings.Lines(string(out)) {
				if strings.HasPrefix(line, "FAIL") {
					failed = append(failed, line)
				}
			}
			b.check(err == nil && strings.Contains(string(out), "ok    "+evidence), "scripts/claude -only "+name, strings.Join(failed, "")+lastLine(string(out)))
		}}
	}
	return []scene{
		scenario("attribution", "attribution", ""),
		scenario("session ids", "attribution", "log --session"),
		scenario("rewriting of reads", "reads", ""),
		scenario("rewriting of reads", "resume", ""),
		scenario("rewriting of reads", "parallel", ""),
		scenario("sub-agents", "reads", "a sub-agent's first Read is full"),
		scenario("compaction", "compact", ""),
		scenario(inTheNet, "net", ""),
	}
}

var resultBytes = regexp.MustCompile(`(?m)^(\d+) bytes of results$`)

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
