package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// storied plays a typical session: three prompts, a sub-agent, edits by the shell over many files,
// a removed directory, a move, builds and a commit. It prints the output of log, diff --stat and
// undo for this session, so that anyone who changes those texts can read them here.
func storied(b *bench, c *checks) {
	if err := b.shop(); err != nil {
		c.that(false, "the project: %v", err)
		return
	}
	out, err := b.tool("mount", b.project)
	c.that(err == nil, "mount: %s", tailLine(out))

	one, two, three, sub := b.conv("rename"), b.conv("split"), b.conv("release"), b.conv("tests")
	one.do(b.read("http/client01.go"), shell("grep -rl Transport http | wc -l"))
	one.do(b.edit("http/client01.go", "// Get01 asks", "// Get01 asks once, and"))
	one.do(shell("sed -i s/Transport/Transporter/ http/*.go; rm -rf http/cookiejar"))
	one.do(shell("go build -o bin/shop . && go vet ./..."))
	one.say("Renamed.")
	sub.do(call{Name: "Write", Input: map[string]any{"file_path": filepath.Join(b.project, "api/api_test.go"), "content": "package api\n\nimport \"testing\"\n\nfunc TestServe(t *testing.T) {\n\tif Serve(\"x\") == \"\" {\n\t\tt.Fatal(\"nothing\")\n\t}\n}\n"}})
	sub.do(shell("go test ./api"))
	sub.say("The tests pass.")
	sub.ready()
	two.do(shell("mv server api && sed -i 's/^package server/package api/' api/*.go && sed -i 's,shop/server,shop/api,; s/server\\./api./' main.go"))
	two.do(agent("tests"))
	two.do(shell("go build -o bin/shop . && ./bin/shop"))
	two.say("Split, with tests.")
	three.do(call{Name: "Write", Input: map[string]any{"file_path": filepath.Join(b.project, "CHANGELOG.md"), "content": "# Changes\n\n## 1.1\n- The server is package api.\n"}})
	three.do(shell("python3 - <<'X'\nimport re\ns = open('main.go').read()\nopen('main.go', 'w').write(s.replace('\"1.0\"', '\"1.1\"'))\nX"))
	three.do(shell("git add -A && git -c user.name=t -c user.email=t@example.com commit -qm 'Release 1.1' && git tag v1.1"))
	three.say("Released.")
	by := func() { // between two prompts, a person saves a file as editors do
		save := exec.Command("sh", "-c", "printf '# Shop\\n\\nA shop in Go.\\n' > README.md~ && mv README.md~ README.md")
		save.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // runs the save as a separate job
		save.Dir = b.project
		if out, err := save.CombinedOutput(); err != nil {
			c.that(false, "the person's save: %v %s", err, out)
		}
	}
	two.steps[0].act = by
	ask := func(v *conv, text string) string {
		v.b.api.script(v.name, v.steps...)
		return text + " SCRIPT:" + v.name
	}
	b.extra = []string{"GOFLAGS=-buildvcs=false", "GOCACHE=" + or(os.Getenv("GOCACHE"), filepath.Join(b.dir, "gocache"))}
	r := b.converse(ask(one, "Rename Transport to Transporter in http, and drop the cookie jar."), ask(two, "Make the server a package api, and let an agent write its tests."), ask(three, "Release it as 1.1."))
	ended(c, r, "three prompts")

	said := map[string]string{}
	for _, args := range [][]string{{"log"}, {"log", "--stat"}, {"diff", "--stat", "--since", "1h"}, {"undo", "--dry-run", "--prompt", "last"}, {"undo", "--dry-run", "--session", "last"}, {"statusline"}} {
		name := strings.Join(args, " ")
		out, err := b.tool(args...)
		c.that(err == nil || args[0] == "undo", "%s %v", name, err)
		said[name] = out
		fmt.Printf("$ cachebro %s\n%s\n", name, out)
	}
	log := said["log"]
	for _, part := range []string{"Rename Transport to Transporter", "sed -i s/Transport/Transporter/ http/*.go; rm -rf http/cookiejar", "Make the server a package api", "agent ", "Release it as 1.1"} {
		c.that(strings.Contains(log, part), "the log says %q", part)
	}
	n := strings.Count(log, "\n")
	c.that(n <= 60, "and all of it in %d lines", n)
	for _, noise := range []string{"sed[", "/sed", "A README.md~", ".tmp", "go-build"} {
		c.that(!strings.Contains(said["log --stat"]+said["diff --stat --since 1h"], noise), "no name of a temporary file: %q", noise)
	}
	b.extra = nil
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// shop replaces the project's files with those of a small program that can be built.
func (b *bench) shop() error {
	files := map[string]string{
		"go.mod":                 "module shop\n\ngo 1.21\n",
		".gitignore":             "bin/\n",
		"README.md":              "# Shop\n",
		"main.go":                "package main\n\nimport (\n\t\"shop/http\"\n\t\"shop/server\"\n)\n\nconst version = \"1.0\"\n\nfunc main() {\n\tprintln(version, server.Serve(http.Get01(\"a\")))\n}\n",
		"http/cookiejar/jar.go":  "package cookiejar\n\ntype Jar struct{}\n",
		"http/cookiejar/list.go": "package cookiejar\n\nvar list []string\n",
		"http/cookiejar/doc.go":  "// Package cookiejar keeps cookies.\npackage cookiejar\n",
		"http/transport.go":      "package http\n\ntype Transport struct{ name string }\n\nfunc (t Transport) Do(s string) string { return t.name + s }\n",
		"server/server.go":       "package server\n\nfunc Serve(s string) string { return \"<\" + s + \">\" }\n",
		"server/routes.go":       "package server\n\nvar routes = []string{\"/\", \"/cart\"}\n",
		"server/static.go":       "package server\n\nconst page = \"hello\"\n",
	}
	for i := 1; i <= 40; i++ {
		files[fmt.Sprintf("http/client%02d.go", i)] = fmt.Sprintf("package http\n\n// Get%02[1]d asks for a key.\nfunc Get%02[1]d(key string) string {\n\tt := Transport{\"%[1]d\"}\n\treturn t.Do(key)\n}\n", i)
	}
	for name, text := range files {
		p := filepath.Join(b.project, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
			return err
		}
	}
	cmd := exec.Command("sh", "-ec", "rm -r src; git add -A; git -c user.name=t -c user.email=t@example.com commit -qm shop")
	cmd.Dir = b.project
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
