package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/mounting"
	"cachebro/fusefs/mounts"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/limits"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"
)

// lowSpace is the free space below which doctor warns, well before the store stops.
const lowSpace = 2 << 30

// doctorProject checks the mount, the daemon and the store, and tests them with a canary file.
func doctorProject(ctx context.Context, e *cli.Env, t cli.Target, withCanary bool) []Finding {
	var out []Finding
	mountOK := false
	switch {
	case t.Point == "":
		f := wrong("mount", "cachebro up "+cli.Arg(t.Root), "%s is not mounted: %s; repeated reads still save tokens", cli.Quote(t.Root), mounting.Unmounted())
		if err := mounting.CheckFuse(e, false); err != nil {
			f.Fix = cli.HintOf(err)
		}
		out = append(out, f)
	default:
		if err := mounts.Answers(t.Point, 3*time.Second); err != nil {
			out = append(out, wrong("mount", "cachebro umount --lazy "+cli.Arg(t.Point)+" && cachebro mount "+cli.Arg(t.Root), "%s: %v", cli.Quote(t.Point), err))
		} else {
			mountOK = true
			out = append(out, good("mount", "%s answers", cli.Quote(t.Point)))
			out = append(out, doctorGit(ctx, e, t)...)
			out = append(out, toolFindings(t.Point)...)
		}
	}
	c, err := e.Connect(ctx, t.Root)
	if c != nil {
		defer c.Close()
	}
	if err != nil {
		fix := "cachebro status " + cli.Arg(t.Root)
		if errors.Is(err, wire.ErrVersion) {
			fix = "cachebro umount " + cli.Arg(t.Root) + " && cachebro mount " + cli.Arg(t.Root)
		}
		return append(out, wrongErr("daemon", fix, err))
	}
	st, err := e.AskStatus(ctx, c)
	if err != nil {
		return append(out, wrongErr("daemon", "cachebro status --dir "+cli.Arg(t.Root), err))
	}
	out = append(out, good("daemon", "pid %d, version %s, answers on its socket", st.DaemonPID, st.Version))
	out = append(out, storeFindings(st, t)...)
	if st.Unheard != "" {
		out = append(out, good("sessions", "%s is known only from environment variables; no hook reported it, so its prompts and tool calls are unknown (cachebro init sets hooks up)", cli.OneLine(st.Unheard)))
	}
	if st.Remote != nil {
		out = append(out, remoteFindings(ctx, e, t, *st.Remote)...)
	}
	if other := e.MountedElsewhere(t.Root); mountOK && !st.Mounted && other != nil {
		out = append(out, wrongErr("capture", "", other))
	} else if mountOK && !st.Mounted {
		out = append(out, wrong("capture", "cachebro umount "+cli.Arg(t.Point)+" && cachebro mount "+cli.Arg(t.Root), "the mount's process has not reached the daemon, so the changes that it sees are in the spool and not stored"))
	} else if mountOK {
		out = append(out, captureFindings(st, t)...)
		if withCanary {
			out = append(out, canary(ctx, e, t, c))
		}
	}
	return append(out, notCaptured(t, st)...)
}

func storeFindings(st wire.Status, t cli.Target) []Finding {
	var out []Finding
	low := st.Store.FreeBytes < lowSpace
	fsck := "cachebro store fsck --dir " + cli.Arg(t.Root)
	switch s := st.Store; {
	case !s.Healthy && low:
		out = append(out, wrong("store", "free some space, and it continues by itself; if it does not: "+fsck, "stopped: %s", s.Reason))
	case !s.Healthy:
		out = append(out, wrong("store", fsck, "stopped: %s", s.Reason))
	default:
		out = append(out, good("store", "%s of %s, %s on disk", text.Count(s.Versions, "version"), text.Count(s.Files, "file"), text.Bytes(s.DiskBytes)))
	}
	if low && (st.Store.FreeBytes > 0 || !st.Store.Healthy) {
		out = append(out, wrong("space", "cachebro store prune 2, or free some space", "only %s free on the disk of the history (%s); recording stops when too little is left", text.Bytes(st.Store.FreeBytes), cli.Quote(st.State)))
	} else {
		out = append(out, good("space", "%s free", text.Bytes(st.Store.FreeBytes)))
	}
	if len(st.Index) > 0 {
		out = append(out, indexFinding(st.Index))
	}
	return out
}

// indexFinding reports the state of the index. It is a problem if the index cannot be built, but
// not if it is out of date.
func indexFinding(index map[string]any) Finding {
	text, _ := index["text"].(string)
	ready, _ := index["ready"].(bool)
	if problem, _ := index["problem"].(string); problem != "" && !ready && !strings.HasPrefix(text, problem) {
		return wrong("index", "cachebro store reindex", "%s", problem)
	}
	text = cmp.Or(text, "exists")
	return good("index", "%s", text)
}

func captureFindings(st wire.Status, t cli.Target) []Finding {
	var out []Finding
	if st.Capture.State == "stopped" {
		out = append(out, wrong("capture", "cachebro status --dir "+cli.Arg(t.Root), "stopped since %s: %s", st.Capture.Since.Local().Format("15:04:05"), st.Capture.Reason))
	} else {
		out = append(out, good("capture", "on, %s queued", text.Count(st.Capture.Queue, "content")))
	}
	if t.Point != "" {
		out = append(out, good("backups", "backups that stay on one file system (-x, --one-file-system) skip a mount without an error, so name %s as well", cli.Quote(t.Point)))
	}
	if st.Outside || st.Watched {
		procs := mounts.Scan(st.Root, cli.OverlayIDs(st.Root), false, func(pid int) bool { return pid == os.Getpid() || mounts.Ours(pid) })
		if len(procs) > 0 {
			f := good("bypass", "%s bypass the mount", mounts.Describe(procs, 5))
			f.Fix = "cd . in these shells; restart the other programs"
			out = append(out, f)
		}
		if ways, _ := mounts.Used(mounts.Beside(st.Root)); len(ways) > 0 {
			f := good("bypass", "%s reach the project without the mount: %s", mounts.Describe(ways, 5), recordedBypass(st))
			f.Fix = "unmount them, or restart the programs that use them"
			out = append(out, f)
		}
	}
	return out
}

const maxCounted = 10000

// notCaptured reports contents that are not recorded, and why: gaps, and excluded directories at
// the top two levels.
func notCaptured(t cli.Target, st wire.Status) []Finding {
	var out []Finding
	if n := st.GapCount + st.Capture.Gaps; n > 0 {
		text := fmt.Sprintf("%s of old contents", text.Count(int(n), "gap"))
		if len(st.Gaps) > 0 {
			text += fmt.Sprintf(", the last of %s: %s", cli.Quote(string(st.Gaps[0].Path)), st.Gaps[0].Reason)
		}
		f := good("not kept", "%s", text)
		f.Fix = "cachebro status " + cli.Arg(t.Root)
		out = append(out, f)
	}
	dir, err := os.Open(t.Base())
	if err != nil {
		return append(out, wrongErr("not kept", "", err))
	}
	defer dir.Close()
	m, err := ignore.New(dir, ignore.Options{})
	if err != nil {
		return append(out, wrongErr("not kept", "", err))
	}
	defer m.Close()
	var names []string
	excluded(m, t.Base(), "", 2, &names)
	for i, n := range names {
		if i < 5 {
			names[i] = fmt.Sprintf("%s/ (%s)", cli.Quote(n), many(countBelow(filepath.Join(t.Base(), n), maxCounted), maxCounted))
		}
	}
	if len(names) > 0 {
		out = append(out, good("not kept", "excluded: %s", joinSome(names, 5)))
	}
	return append(out, good("not kept", "contents of files above %d MiB; ignored files, except for contents that are about to be destroyed; .git, except for what git would lose", limits.Content>>20))
}

// excluded collects the directories, down to depth, that are excluded from capture.
func excluded(m *ignore.Matcher, base, rel string, depth int, names *[]string) {
	entries, err := os.ReadDir(filepath.Join(base, rel))
	if err != nil || depth == 0 {
		return
	}
	for _, d := range entries {
		if d.Type()&fs.ModeDir == 0 || d.Name() == ".git" {
			continue
		}
		p := filepath.Join(rel, d.Name())
		if m.Class(p, true) == ignore.Excluded {
			*names = append(*names, p)
			continue
		}
		excluded(m, base, p, depth-1, names)
	}
}
