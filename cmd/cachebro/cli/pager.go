package cli

import (
	"cmp"
	"io"
	"os/exec"
	"strings"

	"cachebro/store/wire/visible"
)

// Page calls print with a writer. If stdout is a terminal, the output goes through a pager, which
// is $CACHEBRO_PAGER, $PAGER or less -FRX. less -FRX exits at once if everything fits on the
// screen.
func (e *Env) Page(print func(io.Writer) error) error {
	terminal, _ := e.Terminal()
	pager := cmp.Or(e.Getenv("CACHEBRO_PAGER"), e.Getenv("PAGER"), "less")
	if !terminal || pager == "cat" {
		return print(e.Stdout)
	}
	cmd := exec.Command("sh", "-c", pager)
	cmd.Stdout, cmd.Stderr = e.out, visible.Raw(e.Stderr)
	cmd.Env = e.Vars
	if e.Getenv("LESS") == "" {
		cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], "LESS=FRX")
	}
	in, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return print(e.Stdout)
	}
	shown := visible.New(in)
	err = print(shown)
	_ = shown.Flush()
	in.Close()
	if werr := cmd.Wait(); werr != nil && err == nil && strings.Contains(werr.Error(), "exit status 127") {
		return print(e.Stdout) // no such pager
	}
	return err
}

// Paint wraps text in git's colours.
type Paint struct{ on bool }

// Paint returns a Paint for stdout. It adds colours only if Colour allows them.
func (e *Env) Paint() Paint { return Paint{e.Colour()} }

func (p Paint) in(code, text string) string {
	if !p.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p Paint) Yellow(s string) string { return p.in("33", s) }
func (p Paint) Red(s string) string    { return p.in("31", s) }
func (p Paint) Green(s string) string  { return p.in("32", s) }
func (p Paint) Cyan(s string) string   { return p.in("36", s) }
func (p Paint) Bold(s string) string   { return p.in("1", s) }
func (p Paint) Dim(s string) string    { return p.in("2", s) }

// Diff colours a unified diff line by line.
func (p Paint) Diff(text string) string {
	if !p.on {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		body := strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"), strings.HasPrefix(line, "diff "):
			body = p.Bold(body)
		case strings.HasPrefix(line, "@@"):
			body = p.Cyan(body)
		case strings.HasPrefix(line, "+"):
			body = p.Green(body)
		case strings.HasPrefix(line, "-"):
			body = p.Red(body)
		}
		b.WriteString(body)
		b.WriteString(line[len(strings.TrimSuffix(line, "\n")):])
	}
	return b.String()
}
