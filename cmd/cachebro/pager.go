package main

import (
	"io"
	"os/exec"
	"strings"

	"cachebro/store/wire/visible"
)

// page runs print with an output that goes through a pager when stdout is a
// terminal, as git does: $CACHEBRO_PAGER, $PAGER, else less -FRX, which leaves
// at once when everything fits.
func (e *env) page(print func(io.Writer) error) error {
	terminal, _ := e.terminal()
	pager := e.getenv("CACHEBRO_PAGER")
	if pager == "" {
		pager = e.getenv("PAGER")
	}
	if pager == "" {
		pager = "less"
	}
	if !terminal || pager == "cat" {
		return print(e.stdout)
	}
	cmd := exec.Command("sh", "-c", pager)
	cmd.Stdout, cmd.Stderr = e.out, visible.Raw(e.stderr)
	cmd.Env = e.vars
	if e.getenv("LESS") == "" {
		cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], "LESS=FRX")
	}
	in, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return print(e.stdout)
	}
	shown := visible.New(in)
	err = print(shown)
	_ = shown.Flush()
	in.Close()
	if werr := cmd.Wait(); werr != nil && err == nil && strings.Contains(werr.Error(), "exit status 127") {
		return print(e.stdout) // no such pager
	}
	return err
}

// paint wraps text in a colour; colours are those of git.
type paint struct{ on bool }

func (p paint) in(code, text string) string {
	if !p.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p paint) yellow(s string) string { return p.in("33", s) }
func (p paint) red(s string) string    { return p.in("31", s) }
func (p paint) green(s string) string  { return p.in("32", s) }
func (p paint) cyan(s string) string   { return p.in("36", s) }
func (p paint) bold(s string) string   { return p.in("1", s) }
func (p paint) dim(s string) string    { return p.in("2", s) }

// diff colours a unified diff line by line.
func (p paint) diff(text string) string {
	if !p.on {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		body := strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"), strings.HasPrefix(line, "diff "):
			body = p.bold(body)
		case strings.HasPrefix(line, "@@"):
			body = p.cyan(body)
		case strings.HasPrefix(line, "+"):
			body = p.green(body)
		case strings.HasPrefix(line, "-"):
			body = p.red(body)
		}
		b.WriteString(body)
		b.WriteString(line[len(strings.TrimSuffix(line, "\n")):])
	}
	return b.String()
}
