// Command picture runs a short session on a real mount and draws the terminal as
// doc/session.svg, for the README.
//
//	go run ./scripts/picture CACHEBRO doc/session.svg
package main

import (
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// columns is the width of the terminal in characters. width and height are the size of a character
// cell.
const (
	columns = 96
	width   = 8.4
	height  = 19.0
)

// session has the lines that are typed.
var session = []string{
	"sed -i s/Get/Fetch/ src/*.go; rm src/cache.go; mv README.md docs.md",
	"cachebro log",
	"cachebro undo --since 1m --yes",
	"git status --short                      # nothing: all is as it was",
	"cachebro search --history cacheFetch    # and nothing is lost",
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: picture CACHEBRO FILE.svg")
		os.Exit(2)
	}
	if err := draw(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func draw(binary, to string) (err error) {
	base, err := os.MkdirTemp("", "picture")
	if err != nil {
		return err
	}
	defer os.RemoveAll(base)
	app, bin := filepath.Join(base, "app"), filepath.Join(base, "bin")
	binary, err = filepath.Abs(binary)
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(app, "src"), 0o755), os.Mkdir(bin, 0o755), os.Symlink(binary, filepath.Join(bin, "cachebro"))); err != nil {
		return err
	}
	for _, name := range []string{"client", "server", "cache"} {
		text := fmt.Sprintf("package src\n\nfunc %sGet(key string) string {\n\treturn %q + key\n}\n", name, name+":")
		if err := os.WriteFile(filepath.Join(app, "src", name+".go"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(app, "README.md"), []byte("# App\n"), 0o644); err != nil {
		return err
	}
	run := func(dir, script string) ([]byte, error) {
		cmd := exec.Command("script", "-qefc", script, os.DevNull)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+base, "CACHEBRO_DIR="+filepath.Join(base, "state"), "XDG_RUNTIME_DIR="+base,
			"TERM=xterm-256color", "PAGER=cat", "GIT_PAGER=cat", fmt.Sprint("COLUMNS=", columns),
			"GIT_AUTHOR_NAME=n", "GIT_AUTHOR_EMAIL=e@example.org", "GIT_COMMITTER_NAME=n", "GIT_COMMITTER_EMAIL=e@example.org")
		out, err := cmd.CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", script, err, out)
		}
		return out, nil
	}
	if _, err := run(app, "git init -q && git add -A && git commit -qm first && cachebro mount"); err != nil {
		return err
	}
	defer func() {
		_, umount := run(base, "cachebro umount "+app)
		_, stop := run(base, "cachebro uninstall --history --yes")
		err = errors.Join(err, umount, stop)
	}()
	var screen []string
	for _, line := range session {
		screen = append(screen, "\x1b[32m~/app $\x1b[0m "+line)
		// Switch on job control, as in a person's shell, so that each command is a separate job.
		out, err := run(app, fmt.Sprintf("stty cols %d && set -m\n%s\nexit $?", columns, line))
		if err != nil {
			return err
		}
		if text := strings.TrimRight(strings.ReplaceAll(string(out), "\r\n", "\n"), "\n"); text != "" {
			screen = append(screen, strings.Split(text, "\n")...)
		}
		screen = append(screen, "")
		time.Sleep(time.Second) // a person would pause too
	}
	return os.WriteFile(to, []byte(svg(screen[:len(screen)-1])), 0o644)
}

var (
	styled = regexp.MustCompile("\x1b\\[([0-9;]*)m")
	other  = regexp.MustCompile("\x1b\\[[?0-9;]*[A-Za-ln-z]|\x1b[=>]|\r")
	fills  = map[string]string{"31": "#f47067", "32": "#8ddb8c", "33": "#daaa3f", "36": "#76e3ea", "2": "#768390"}
)

// svg draws the lines of a terminal with their colours.
func svg(lines []string) string {
	var b strings.Builder
	w, h := columns*width+32, float64(len(lines))*height+32
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" aria-label="files are changed and removed in a shell; cachebro log tells who did it, cachebro undo takes it back">`+"\n", w, h, w, h)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="8" fill="#22272e"/>`+"\n"+`<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="14" fill="#d1d7e0" xml:space="preserve">`+"\n")
	for i, line := range lines {
		line = other.ReplaceAllString(line, "")
		x, fill, weight := 0, "", ""
		piece := func(text string) {
			if shown := strings.TrimSpace(text); shown != "" {
				at := x + len(text) - len(strings.TrimLeft(text, " "))
				fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" textLength="%.1f"%s%s>%s</text>`+"\n", 16+float64(at)*width, 28+float64(i)*height, float64(len([]rune(shown)))*width, fill, weight, html.EscapeString(shown))
			}
			x += len([]rune(text))
		}
		at := 0
		for _, m := range styled.FindAllStringSubmatchIndex(line, -1) {
			piece(line[at:m[0]])
			at = m[1]
			fill, weight = "", ""
			for _, code := range strings.Split(line[m[2]:m[3]], ";") {
				if c, ok := fills[code]; ok {
					fill = fmt.Sprintf(` fill="%s"`, c)
				}
				if code == "1" {
					weight = ` font-weight="bold"`
				}
			}
		}
		piece(line[at:])
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String()
}
