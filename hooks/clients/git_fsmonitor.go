package clients

import (
	"bytes"
	"slices"
	"strings"
)

// GitSetup configures git to ask the mount which files have changed. It changes the user's own
// configuration, never the project's: a few lines in Config include another file, for the
// repositories in Dirs only.
type GitSetup struct {
	Config  string   // git's global configuration file; "" means that git is not configured
	Include string   // our file, which Config includes
	Dirs    []string // git directories, absolute
}

const (
	gitBegin = "# cachebro: begin (taken back by: cachebro uninit)"
	gitEnd   = "# cachebro: end"
)

func gitFiles(s Setup) []file {
	return []file{{s.Git.Include, gitMonitor{s.Exe}}, {s.Git.Config, gitIncludes{s.Git.Include, s.Git.Dirs}}}
}

// gitMonitor writes the included file. git runs the command in a shell, which exec replaces. If the
// command fails, git looks at all files itself. Errors are discarded, so that git stays quiet if
// the binary was removed.
type gitMonitor struct{ exe string }

func (m gitMonitor) Add([]byte) ([]byte, error) {
	return []byte("# written by cachebro init --git-fsmonitor\n[core]\n\tfsmonitor = " +
		gitQuote("exec 2>/dev/null; exec "+ShellQuote(m.exe)+" fsmonitor") + "\n\tfsmonitorHookVersion = 2\n"), nil
}

// Remove empties the file, which has only our lines.
func (gitMonitor) Remove([]byte, []byte) ([]byte, error) { return []byte{}, nil }

// gitIncludes are the lines in git's own configuration.
type gitIncludes struct {
	include string
	dirs    []string
}

func (g gitIncludes) Add(before []byte) ([]byte, error) {
	from, to, err := findSection(before, gitBegin, gitEnd)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	text.WriteString(gitBegin + "\n")
	for _, d := range g.dirs {
		text.WriteString("[includeIf " + gitQuote("gitdir:"+globQuote(d)) + "]\n\tpath = " + gitQuote(g.include) + "\n")
	}
	text.WriteString(gitEnd + "\n")
	if to > 0 {
		return bytes.Join([][]byte{before[:from], text.Bytes(), before[to:]}, nil), nil
	}
	out := bytes.Clone(before)
	if len(out) > 0 && !bytes.HasSuffix(out, []byte("\n")) {
		out = append(out, '\n')
	}
	return append(out, text.Bytes()...), nil
}

func (gitIncludes) Remove(now, original []byte) ([]byte, error) {
	from, to, err := findSection(now, gitBegin, gitEnd)
	if err != nil || to == 0 {
		return now, err
	}
	if head := now[:from]; to == len(now) && bytes.Equal(head, append(bytes.Clone(original), '\n')) {
		return bytes.Clone(original), nil // the last line had no newline, so init had added one
	}
	return bytes.Join([][]byte{now[:from], now[to:]}, nil), nil
}

// GitDirs lists the git directories for which init made entries in a configuration file.
func GitDirs(config []byte) []string {
	from, to, err := findSection(config, gitBegin, gitEnd)
	if err != nil || to == 0 {
		return nil
	}
	var dirs []string
	for line := range strings.Lines(string(config[from:to])) {
		if d, ok := strings.CutPrefix(line, `[includeIf "gitdir:`); ok {
			d, ok = strings.CutSuffix(strings.TrimSpace(d), `"]`)
			if ok {
				dirs = append(dirs, unescape(unescape(d)))
			}
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// gitQuote quotes a value or the name of a subsection for git's configuration.
func gitQuote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(s) + `"`
}

// globQuote returns a pattern that matches only this path.
func globQuote(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

// unescape removes one level of backslashes.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
