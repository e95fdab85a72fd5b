//go:build !linux || !(amd64 || arm64)

package memo

import (
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Classifier decides which paths of the project are tracked.
type Classifier any

// Run runs a command, unwatched on this system.
func Run(o Options) (Outcome, error) {
	cmd := &exec.Cmd{Path: o.Program, Args: o.Args, Dir: o.Dir, Env: o.Env, Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return Outcome{}, err
	}
	err := cmd.Wait()
	return Outcome{Err: err, Took: time.Since(began), Why: []string{"could not be watched: that needs Linux on amd64 or arm64"}}, nil
}

// Traced executes the command.
func Traced(args, env []string) error {
	if len(args) < 3 {
		return os.ErrInvalid
	}
	return syscall.Exec(args[1], args[2:], env)
}
