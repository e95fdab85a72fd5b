package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ownModule is one of our dependencies. It has real tests and no dependencies of its own.
const ownModule = "golang.org/x/sync"

// memo runs the tests of a module on its own mount: directly, with memo watching them, and from the
// stored result.
func memo(binary, module string) error {
	if module == "" {
		out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", ownModule).Output()
		if err != nil {
			return fmt.Errorf("find %s: %w", ownModule, err)
		}
		module = strings.TrimSpace(string(out))
	}
	base, err := os.MkdirTemp("", "cachebro-memo")
	if err != nil {
		return err
	}
	defer os.RemoveAll(base)
	project := filepath.Join(base, "project")
	if out, err := exec.Command("cp", "-r", module, project).CombinedOutput(); err != nil {
		return fmt.Errorf("copy: %s", out)
	}
	if out, err := exec.Command("chmod", "-R", "u+w", project).CombinedOutput(); err != nil {
		return fmt.Errorf("copy: %s", out)
	}
	if err := os.Mkdir(filepath.Join(base, "run"), 0o700); err != nil {
		return err
	}
	env := append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(base, "state"), "XDG_RUNTIME_DIR="+filepath.Join(base, "run"))
	run := func(name string, args ...string) (string, time.Duration, error) {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = project, env
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		began := time.Now()
		err := cmd.Run()
		return out.String(), time.Since(began), err
	}
	if out, _, err := run(binary, "mount", project); err != nil {
		return fmt.Errorf("mount: %s", out)
	}
	defer func() {
		_, _, _ = run(binary, "umount", project)
		stopDaemon(base)
	}()
	test := []string{"go", "test", "./..."}
	if out, _, err := run(test[0], test[1:]...); err != nil { // build the tests first, and fill go's own cache
		return fmt.Errorf("%s: %.2000s", strings.Join(test, " "), out)
	}
	_, plain, err := run(test[0], test[1:]...)
	if err != nil {
		return err
	}
	call := append([]string{"memo", "--"}, test...)
	was, watched, err := run(binary, call...)
	if err != nil {
		return fmt.Errorf("memo: %s", was)
	}
	var times []time.Duration
	for range 21 {
		again, took, err := run(binary, call...)
		if err != nil || again != was {
			return fmt.Errorf("a repetition says %q instead of %q (%v)", again, was, err)
		}
		times = append(times, took)
	}
	why, _, err := run(binary, append([]string{"memo", "--explain", "--"}, test...)...)
	if err != nil || !strings.HasPrefix(why, "would be repeated") {
		return fmt.Errorf("it is not repeated: %s", why)
	}
	slices.Sort(times)
	fmt.Printf("memo -- %s (%s): without %.0f ms (go's own cache warm), watched %.0f ms, repeated p50 %.0f ms, worst of 21 %.0f ms\n",
		strings.Join(test, " "), filepath.Base(module), ms(plain), ms(watched), ms(times[10]), ms(times[20]))
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// stopDaemon ends the daemon of the project and waits until it has ended.
func stopDaemon(base string) {
	locks, _ := filepath.Glob(filepath.Join(base, "state/cachebro/*/lock"))
	for _, lock := range locks {
		raw, _ := os.ReadFile(lock)
		pid := strings.FieldsFunc(string(raw), func(r rune) bool { return r < '0' || r > '9' })
		if len(pid) == 0 {
			continue
		}
		_ = exec.Command("kill", pid[0]).Run()
		for range 100 {
			if _, err := os.Stat("/proc/" + pid[0]); err != nil {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}
