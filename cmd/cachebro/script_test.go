package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cachebro/fusefs/mounts"
	"cachebro/store/leaf/procfs"

	"github.com/rogpeppe/go-internal/testscript"
)

// storyPrograms maps each command that stories run from this binary to its main function.
var storyPrograms = map[string]func(){"cachebro": main}

func TestMain(m *testing.M) { testscript.Main(m, storyPrograms) }

// TestStories runs the stories of testdata/script (commands with their expected output) with the
// real main and real mounts. Each story has its own project ($PROJECT), state and runtime
// directories; a mount or process that outlives its story fails the test.
func TestStories(t *testing.T) {
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err == nil {
		f.Close()
	} else if os.Getenv("CACHEBRO_NEED_FUSE") == "1" {
		t.Fatal("CACHEBRO_NEED_FUSE=1 and /dev/fuse cannot be opened")
	} else {
		t.Skip("no /dev/fuse")
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "../../testdata/script",
		RequireExplicitExec: true,
		Setup:               setUpStory,
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Getuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %s", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"mounted": storyMounted,
			"ended":   storyEnded,
		},
	})
}

func setUpStory(e *testscript.Env) error {
	// The mount table has the real path, and the stories compare with it.
	work, err := filepath.EvalSymlinks(e.WorkDir)
	if err != nil {
		return err
	}
	for name, mode := range map[string]os.FileMode{".state": 0o755, ".run": 0o700, ".home": 0o755, "project": 0o755} {
		dir := filepath.Join(work, name)
		if err := os.MkdirAll(dir, mode); err != nil {
			return err
		}
		if err := os.Chmod(dir, mode); err != nil {
			return err
		}
	}
	scripts, err := filepath.Abs("../../scripts")
	if err != nil {
		return err
	}
	readme, err := filepath.Abs("../../README.md")
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"README": readme, "XDG_STATE_HOME": work + "/.state", "XDG_RUNTIME_DIR": work + "/.run", "HOME": work + "/.home", "PROJECT": work + "/project",
		"NO_COLOR": "1", "TZ": "UTC", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.org",
		"GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.org", "CACHEBRO_PAGER": "cat", "CACHEBRO_HOOK_WAIT": "20s", "UID": strconv.Itoa(os.Getuid()), "OWNFUSE": scripts + "/ownfuse.sh", "NAMESPACE": scripts + "/namespace.sh",
	} {
		e.Setenv(name, value)
	}
	e.Defer(func() {
		if left := clearStory(work); len(left) > 0 {
			panic(fmt.Sprintf("the story left behind: %s", strings.Join(left, ", ")))
		}
	})
	return nil
}

// clearStory unmounts and ends what a story started, and returns what remains.
func clearStory(work string) (left []string) {
	for range 3 {
		overlays, err := mounts.Overlays()
		if err != nil {
			return []string{err.Error()}
		}
		for _, m := range overlays {
			if mounts.Within(m.Point, work) {
				_ = syscall.Unmount(m.Point, 2) // MNT_DETACH
			}
		}
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		left = nil
		for pid, args := range storyProcesses(work) {
			left = append(left, fmt.Sprintf("process %d: %s", pid, args))
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			for pid := range storyProcesses(work) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			return left
		}
	}
}

// storyProcesses returns the processes with the story's runtime directory in their environment.
func storyProcesses(work string) map[int]string {
	mark := []byte("XDG_RUNTIME_DIR=" + work + "/.run\x00")
	found := map[int]string{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(d))
		env, err := os.ReadFile(d + "/environ")
		if err == nil && pid != os.Getpid() && bytes.Contains(env, mark) && mounts.Running(pid, 0) {
			found[pid] = strings.Join(procfs.Args(pid), " ")
		}
	}
	return found
}

// storyMounted is the command "mounted DIR": it checks that a mount of ours is on DIR. It polls for
// a moment, because a supervisor needs time to clear a dead mount.
func storyMounted(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: mounted DIR")
	}
	dir := ts.MkAbs(args[0])
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		overlays, err := mounts.Overlays()
		ts.Check(err)
		if _, ok := mounts.At(overlays, dir); ok != neg {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("mounted %s: %v after 30 s", dir, neg)
		}
	}
}

// storyEnded is the command "ended SUBCOMMAND": it waits until the process of that sub-command of
// cachebro has ended, for at most a minute.
func storyEnded(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: ended SUBCOMMAND")
	}
	work := filepath.Dir(ts.Getenv("PROJECT"))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		running := false
		for _, command := range storyProcesses(work) {
			running = running || strings.Contains(command, "cachebro "+args[0]+" ")
		}
		if !running {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s still runs after a minute", args[0])
		}
	}
}
