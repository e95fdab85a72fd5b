package clients

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Finding is the result of one check of doctor. Fix is a command that fixes the problem.
type Finding struct {
	What string `json:"what"`
	OK   bool   `json:"ok"`
	Text string `json:"text"`
	Fix  string `json:"fix,omitempty"`
}

// hookShould limits a hook's processor time. hookMust limits its total time, which is longer on a
// busy machine.
const (
	hookShould = 100 * time.Millisecond
	hookMust   = time.Second
)

// CheckClients checks the configuration of every client in use, and runs a registered hook line as
// the client would. A client in use without cachebro is reported, but not as an error.
func CheckClients(ctx context.Context, s Setup) []Finding {
	var out []Finding
	for _, spec := range clientSpecs {
		configured, broken := 0, false
		files := spec.files(s)
		for _, f := range files {
			c := Change{Path: f.path, within: s.within(f.path)}
			c.load()
			present, err := standing(f, c)
			if err != nil {
				c.fail(err)
			}
			switch {
			case c.Err != nil:
				broken = true
				out = append(out, Finding{What: spec.title, Text: c.Err.Error(), Fix: c.Hint})
			case present == stale:
				out = append(out, Finding{What: spec.title, Text: f.path + " has a cachebro entry that init would write differently", Fix: "cachebro init --client " + spec.name})
				configured++
			case present == ours:
				configured++
			}
		}
		switch {
		case configured > 0 && configured == len(files):
			out = append(out, Finding{What: spec.title, OK: true, Text: "configured in " + paths(files) + spec.reminder(files)})
		case configured > 0:
			out = append(out, Finding{What: spec.title, Text: "configuration is incomplete in " + paths(files), Fix: "cachebro init --client " + spec.name})
		case !broken && spec.inUse(s):
			out = append(out, Finding{What: spec.title, OK: true, Text: "in use, without cachebro", Fix: "cachebro init --client " + spec.name})
		}
	}
	return append(out, checkHook(ctx, s))
}

// reminder returns what a person still has to do in the client, or "" if the client's own file
// shows that it was done. Codex records which hooks were reviewed.
func (c clientSpec) reminder(files []file) string {
	if c.note == "" {
		return ""
	}
	if b, err := os.ReadFile(files[0].path); err == nil && bytes.Contains(b, []byte("trusted_hash")) {
		return ""
	}
	return ". " + c.note
}

func paths(files []file) string {
	var names []string
	for _, f := range files {
		names = append(names, f.path)
	}
	return strings.Join(names, ", ")
}

const (
	absent = iota
	ours
	stale
)

// standing returns the state of our entries in a file: ours if adding them changes nothing, else
// stale if removing them changes something, else absent.
func standing(f file, c Change) (int, error) {
	if c.Err != nil || c.Before == nil {
		return absent, nil
	}
	edit := f.edit
	// An entry that init wrote with other options counts as ours too.
	if a, ok := edit.(interface{ asRegistered([]byte) editor }); ok {
		edit = a.asRegistered(c.Before)
	}
	added, err := edit.Add(c.Before)
	if err != nil {
		return absent, err
	}
	if string(added) == string(c.Before) {
		return ours, nil
	}
	removed, err := edit.Remove(c.Before, c.Before)
	if err != nil {
		return absent, err
	}
	if string(removed) != string(c.Before) {
		return stale, nil
	}
	return absent, nil
}

// checkHook runs the registered line with an event that no hook handles.
func checkHook(ctx context.Context, s Setup) Finding {
	f := Finding{What: "hook command"}
	exe := s.Exe
	if !strings.Contains(exe, string(filepath.Separator)) {
		found, err := exec.LookPath(exe)
		if err != nil {
			f.Text, f.Fix = exe+" is not in PATH", "cachebro init"
			return f
		}
		exe = found
	}
	if fi, err := os.Stat(exe); err != nil || fi.Mode()&0o111 == 0 {
		f.Text, f.Fix = exe+" cannot be run", "cachebro init"
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var out []byte
	var err error
	took, cpu := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for range 5 { // the fastest run counts, because other work slows runs down
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", hookLine(s.Exe, "PreToolUse", s.HookOptions))
		cmd.Stdin = strings.NewReader(`{"hook_event_name":"Doctor","session_id":"doctor"}`)
		start := time.Now()
		out, err = cmd.CombinedOutput()
		if err != nil || len(out) > 0 {
			break
		}
		took = min(took, time.Since(start))
		cpu = min(cpu, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		if took <= hookShould {
			break
		}
	}
	switch {
	case err != nil:
		f.Text, f.Fix = fmt.Sprintf("the registered command failed: %v", err), "cachebro init"
	case len(out) > 0:
		f.Text, f.Fix = fmt.Sprintf("the registered command printed %q", strings.ToValidUTF8(string(out[:min(len(out), 80)]), "")), "cachebro init"
	case cpu > hookShould || took > hookMust:
		f.Text, f.Fix = fmt.Sprintf("a hook takes %d ms; it should take at most %d ms", took.Milliseconds(), hookShould.Milliseconds()), "cachebro status"
	default:
		f.OK, f.Text = true, fmt.Sprintf("a hook takes %d ms", took.Milliseconds())
	}
	return f
}
