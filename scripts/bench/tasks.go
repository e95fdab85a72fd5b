//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	readOps  = 2000
	writeOps = 1000
)

// tasks returns the lines of the table, in an order in which no task spoils the preparation of
// the next.
func tasks() []task {
	us, ms := time.Microsecond, time.Millisecond
	scratch := func(dir string) string { return filepath.Join(dir, "bench-scratch") }
	mkdir := func(dir string) error { return os.MkdirAll(scratch(dir), 0o755) }
	remove := func(dir string) error { return os.RemoveAll(scratch(dir)) }
	warm := func(args ...string) func(string) error {
		return func(dir string) error { return command(dir, args...) }
	}
	copied := func(dir string) error { return command(dir, "cp", "-r", "cmd", "bench-scratch") }
	return []task{
		{"open+read+close, cached", us, readOps, readSome, readSome, nil, 0},
		{"create+write+close, 4 KiB", us, writeOps, mkdir, func(dir string) error { return createMany(scratch(dir)) }, remove, 0},
		{"unlink", us, writeOps, func(dir string) error { return errors.Join(mkdir(dir), createMany(scratch(dir))) }, func(dir string) error { return unlinkMany(scratch(dir)) }, remove, 0},
		{"atomic save, 4 KiB", us, writeOps, mkdir, func(dir string) error { return saveMany(scratch(dir)) }, remove, 0},
		{"git status, warm", ms, 1, warm("git", "status", "--porcelain"), warm("git", "status", "--porcelain"), nil, 0},
		{"find, warm", ms, 1, warm("find", ".", "-newer", "/"), warm("find", ".", "-newer", "/"), nil, 0},
		{"git status, after rg", ms, 1, warm("rg", "-c", "--no-messages", "neverThere"), warm("git", "status", "--porcelain"), nil, 0},
		{"rg, warm", ms, 1, nil, warm("rg", "-c", "--no-messages", "neverThere"), nil, 0},
		{"tar, warm", ms, 1, nil, warm("sh", "-c", "tar cf - --exclude=.git . | cat >/dev/null"), nil, 0},
		{"cp -r cmd", ms, 1, nil, copied, remove, 0},
		{"rm -rf cmd", ms, 1, copied, warm("rm", "-rf", "bench-scratch"), nil, 0},
	}
}

// command runs a command. Status 1 of rg means "no match", which is the expected result.
func command(dir string, args ...string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil && !(args[0] == "rg" && cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 1) {
		return fmt.Errorf("%v: %w: %.200s", args, err, out)
	}
	return nil
}

// chosen keeps the sample of files in each directory between runs.
var chosen = map[string][]string{}

func readSome(dir string) error {
	files := chosen[dir]
	if files == nil {
		var err error
		files, err = sample(dir, 200)
		if err != nil {
			return err
		}
		chosen[dir] = files
	}
	buf := make([]byte, 1<<20)
	for i := range readOps {
		f, err := os.Open(files[i%len(files)])
		if err != nil {
			return err
		}
		for {
			_, err = f.Read(buf)
			if err != nil {
				break
			}
		}
		f.Close()
		if err != io.EOF {
			return err
		}
	}
	return nil
}

func content(i int) []byte {
	b := make([]byte, 4096)
	for j := range b {
		b[j] = byte('a' + (i*7+j*13+j*j%11)%26)
		if j%60 == 59 {
			b[j] = '\n'
		}
	}
	return b
}

func createMany(dir string) error {
	for i := range writeOps {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%d.txt", i)), content(i), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func unlinkMany(dir string) error {
	for i := range writeOps {
		if err := os.Remove(filepath.Join(dir, fmt.Sprintf("f%d.txt", i))); err != nil {
			return err
		}
	}
	return nil
}

// saveMany replaces ten files again and again, as an editor does.
func saveMany(dir string) error {
	for i := range writeOps {
		name := filepath.Join(dir, fmt.Sprintf("s%d.txt", i%10))
		if err := os.WriteFile(name+".tmp", content(i), 0o644); err != nil {
			return err
		}
		if err := os.Rename(name+".tmp", name); err != nil {
			return err
		}
	}
	return nil
}
