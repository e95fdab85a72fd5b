//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// shell is a shell that runs lines one after the other. A shell that was started before the mount
// keeps its working directory in the source.
type shell struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

const shellEnd = "\x01end "

// startShell runs cmd, which must be a shell that reads commands from standard input.
func startShell(cmd *exec.Cmd) (*shell, error) {
	s := &shell{cmd: cmd}
	var err error
	s.in, err = cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReader(out)
	return s, cmd.Start()
}

// do runs one line and returns the output. A status other than 0 is an error that contains the
// output.
func (s *shell) do(line string) (string, error) {
	if _, err := fmt.Fprintf(s.in, "{ %s\n} 2>&1; printf '\\001end %%d\\n' $?\n", line); err != nil {
		return "", err
	}
	var text strings.Builder
	for {
		l, err := s.out.ReadString('\n')
		if err != nil {
			return text.String(), fmt.Errorf("the shell ended: %w", err)
		}
		body, status, last := strings.Cut(l, shellEnd)
		text.WriteString(body)
		if last {
			if strings.TrimSpace(status) != "0" {
				return text.String(), fmt.Errorf("%s: status %s: %s", line, strings.TrimSpace(status), text.String())
			}
			return text.String(), nil
		}
	}
}

func (s *shell) end() error {
	return errors.Join(s.in.Close(), s.cmd.Wait())
}
