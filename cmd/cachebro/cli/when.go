package cli

import (
	"os"
	"strconv"
	"strings"
	"time"

	"cachebro/store/wire"
)

// SplitVersion splits "PATH@VERSION". The whole argument is the path if a file of that name
// exists, or if the text after the last @ is not a version.
func (e *Env) SplitVersion(arg string) (path string, q wire.ShowQuery, err error) {
	if n, ok := e.Number(arg); ok {
		return "", wire.ShowQuery{Seq: n}, nil
	}
	if n, ok := strings.CutPrefix(arg, "#"); ok {
		if _, err := strconv.ParseUint(n, 10, 64); err != nil || n == "0" {
			return "", q, e.Usagef("%s: want a number as log prints it, such as 178", e.Cmd.Name())
		}
	}
	i := strings.LastIndexByte(arg, '@')
	if i < 0 {
		return arg, q, nil
	}
	if q, ok := parseVersion(arg[i:], e.Now()); ok && !e.Exists(arg) {
		return arg[:i], q, nil
	}
	return arg, q, nil
}

// Number parses 178 or "#178", a number as log prints it. If a file has that name, the argument
// means the file.
func (e *Env) Number(arg string) (uint64, bool) {
	n, err := strconv.ParseUint(strings.TrimPrefix(arg, "#"), 10, 64)
	if err != nil || n == 0 || e.Exists(arg) {
		return 0, false
	}
	return n, true
}

// Exists reports whether a path given on the command line exists. It does not follow a symlink.
func (e *Env) Exists(path string) bool {
	abs, err := e.Abs(path)
	if err != nil {
		return false
	}
	_, err = os.Lstat(abs)
	return err == nil
}

// VersionFlag parses --from, --to and the like, of a command about path. Labels are those of the
// project that contains path.
func (e *Env) VersionFlag(name, value, path string) (wire.ShowQuery, error) {
	if value == "" {
		return wire.ShowQuery{}, nil
	}
	q, ok := parseVersion(value, e.Now())
	if !ok {
		if l, ok := e.label(value, path); ok {
			return wire.ShowQuery{Seq: l.Seq}, nil
		}
		return q, e.Usagef("--%s %s: want a number of the log (812), a version of the file (@3, -1), a time (12:40, 2026-05-01 12:40), an age (10m) or a label", name, Quote(value))
	}
	return q, nil
}

// MomentFlag is VersionFlag for commands about more than one file, where @3 has no meaning.
func (e *Env) MomentFlag(name, value, path string) (wire.ShowQuery, error) {
	q, err := e.VersionFlag(name, value, path)
	if err != nil || q.Number != 0 {
		return q, e.Usagef("--%s %s: want a number of the log (812), a time (12:40, 2026-05-01 12:40), an age (10m) or a label", name, Quote(value))
	}
	return q, nil
}

// IsNewest reports whether q chooses no version, which means the newest one.
func IsNewest(q wire.ShowQuery) bool { return q.Seq == 0 && q.Number == 0 && q.At.IsZero() }

// parseVersion parses 812 (a number of the log), @3 (the third version of the path), @-1 or -1
// (the version before the newest), a time of day or date, or an age.
func parseVersion(s string, now time.Time) (q wire.ShowQuery, ok bool) {
	s, ofPath := strings.CutPrefix(s, "@")
	digits, ofLog := strings.CutPrefix(s, "#")
	n, err := strconv.Atoi(digits)
	switch {
	case ofLog || err == nil && n > 0 && !ofPath:
		return wire.ShowQuery{Seq: uint64(max(n, 0))}, err == nil && n > 0
	case err == nil:
		return wire.ShowQuery{Number: n}, n != 0
	}
	at, ok := wire.ParseTime(s, now)
	return wire.ShowQuery{At: at}, ok
}

// TimeFlag parses --since and --until of a command about path, like VersionFlag.
func (e *Env) TimeFlag(name, value, path string) (time.Time, error) {
	if value == "" {
		return time.Time{}, nil
	}
	t, ok := wire.ParseTime(value, e.Now())
	if !ok {
		if l, ok := e.label(value, path); ok {
			return l.At.Add(1), nil // just after it, so that --since does not include the version at the moment itself
		}
		return t, e.Usagef("--%s %s: want a time (12:40, 2026-05-01 12:40), an age (10m, 2h, 3d, 1w) or a label", name, Quote(value))
	}
	return t, nil
}
