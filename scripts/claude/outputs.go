package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// outputs checks three things. The output of commands is shortened where no information is lost.
// The folded part of an output can be looked up. The next Edit finds a text in the form in which a
// search showed it.
func outputs(b *bench, c *checks) {
	all, failed, id, err := b.runner()
	if err != nil {
		c.that(false, "%v", err)
		return
	}
	m := b.conv("outputs")
	grep := m.do(shell("grep -rn 'var v0[0-9]*[05] ' src | head -60"))
	m.do(shell("for d in one two three four; do mkdir -p tree/of/directories/$d; for i in 1 2 3 4 5 6 7 8; do touch tree/of/directories/$d/file$i.txt; done; done; true"))
	long := m.do(shell("grep -rn var src"))
	list := m.do(shell("find tree -type f | sort"))
	pass := m.do(shell("./pytest -v"))
	whole := m.do(shell(b.cachebro + " output " + id))
	part := m.do(shell(b.cachebro + " output " + id + " --grep 'number_0[12]' --lines 1-9"))
	fail := m.do(shell("./pytest -v fails || true"))
	broken := m.do(shell("./pytest -v fails"))
	exact := m.do(shell("grep -rn 'var v0[0-9]*[05] ' src | head -60 > tree/found; cat tree/found"))
	m.do(b.read("src/big.go", "offset", 1, "limit", 30))
	edit := m.do(b.edit("src/big.go", "var v0010 ", "var v0010x "))
	own := m.do(call{Name: "Grep", Input: map[string]any{"pattern": "var v0[0-9]*[05] ", "path": "src", "output_mode": "content", "-n": true}})
	glob := m.do(call{Name: "Glob", Input: map[string]any{"pattern": "tree/**/*.txt"}})
	m.say("finished")
	r := b.with(m.ready())
	ended(c, r, "the session")
	c.that(!strings.Contains(r.stdout, "does not match") && !strings.Contains(r.stdout+r.stderr, "hook error"), "no failed hook is shown")

	d := m.got(grep)
	c.that(strings.HasPrefix(d.text, "cachebro: lines are grouped by path\nsrc/big.go\n") && strings.Count(d.text, "src/big.go") == 1 && strings.Contains(d.text, "var v0010 "), "grep -rn, grouped: %d bytes: %s", d.size(), head(d.text))
	d = m.got(long)
	c.that(strings.HasPrefix(d.text, "<persisted-output>") && !strings.Contains(d.text, "cachebro:"), "a search of more than 30,000 characters is the client's preview of its own text: %s", head(d.text))
	d = m.got(list)
	c.that(strings.HasPrefix(d.text, "cachebro: paths are indented") && strings.Contains(d.text, "  four/\n    file1.txt\n") && d.size() < 900, "find, as a tree: %d bytes: %s", d.size(), head(d.text))
	d = m.got(pass)
	c.that(strings.Contains(d.text, "40 passed tests folded") && strings.Contains(d.text, " output "+id) && strings.Contains(d.text, "40 passed in 0.10s") && d.size() < 400, "passed tests, folded: %s", head(d.text))
	d = m.got(whole)
	c.that(strings.TrimSpace(d.text) == strings.TrimSpace(all), "cachebro output gives the whole of it: %d of %d bytes", d.size(), len(all))
	d = m.got(part)
	c.that(strings.TrimSpace(d.text) == strings.TrimSpace("2:"+lineWith(all, "number_01")+"\n3:"+lineWith(all, "number_02")), "and a part of it: %s", head(d.text))
	d = m.got(fail)
	c.that(!strings.Contains(d.text, "folded") && strings.HasPrefix(d.text, "cachebro: each indented line stands for the line above with … replaced by it") && strings.Contains(d.text, "test_last FAILED") && strings.Contains(d.text, "assert 1 == 2"), "failed tests are not folded, but say once what they share: %d of %d bytes: %s", d.size(), len(failed), head(d.text))
	d = m.got(broken)
	c.that(strings.Contains(d.text, strings.TrimSpace(failed)), "a failed command's output stays: %d of %d bytes", d.size(), len(failed))
	d = m.got(exact)
	c.that(!strings.Contains(d.text, "cachebro:") && strings.Count(d.text, "src/big.go:") == 60, "what went into a file and is shown from there is as it was: %s", head(d.text))
	d = m.got(edit)
	c.that(d.found && strings.Contains(d.text, "updated successfully"), "an Edit of a line that grep showed: %s", head(d.text))
	for _, tool := range []struct {
		name string
		step int
		mark string
	}{{"Grep", own, "grouped by path"}, {"Glob", glob, "indented"}} {
		d = m.got(tool.step)
		if strings.Contains(d.text, "No such tool") {
			continue // this version of the client has no search tool and leaves searching to the shell
		}
		c.that(strings.Contains(d.text, tool.mark), "the client's own %s: %d bytes: %s", tool.name, d.size(), head(d.text))
	}
	out, _ := b.toolIn(b.project, "metrics", "--session", "last")
	searches := strings.Fields(lineWith(out, "output: search"))
	c.that(len(searches) > 2 && searches[2] == "1x", "a preview is not counted as saved: %s", strings.Join(searches, " "))
	c.that(strings.Contains(out, "output: search") && strings.Contains(out, "output: tree") && strings.Contains(out, "output: alike") && strings.Contains(out, "output: tests"), "metrics counts by rule: %s", head(lineWith(out, "output: tests")))
}

// runner writes a program that acts as a test runner. Its output is always the same, so that the id
// of the output is known in advance.
func (b *bench) runner() (all, failed, id string, err error) {
	var passed strings.Builder
	for i := range 40 {
		fmt.Fprintf(&passed, "tests/test_sums.py::test_number_%02d PASSED                    [%3d%%]\n", i, (i+1)*100/40)
	}
	all = passed.String() + "\n============ 40 passed in 0.10s ============"
	failed = passed.String() + "tests/test_sums.py::test_last FAILED                    [100%]\n\n=== FAILURES ===\nE   assert 1 == 2\n=== 1 failed, 40 passed in 0.10s ==="
	sum := sha256.Sum256([]byte(all))
	id = hex.EncodeToString(sum[:4])
	for name, text := range map[string]string{"passes": all, "fails": failed} {
		file := filepath.Join(b.project, name)
		if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
			return "", "", "", err
		}
	}
	runner := "#!/bin/sh\ncat \"$(dirname \"$0\")/${2:-passes}\"\n[ \"$2\" != fails ]\n"
	if err := os.WriteFile(filepath.Join(b.project, "pytest"), []byte(runner), 0o755); err != nil {
		return "", "", "", err
	}
	return all, failed, id, nil
}
