package setup

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"cachebro/cmd/cachebro/cli"
)

// launchAgent returns the file that launchd(8) reads at each login of the user or, for root, at
// boot. launchd loads every file in its directory, so launchd need not be running now.
func launchAgent(e *cli.Env) (loginUnit, error) {
	dir := "/Library/LaunchDaemons"
	if os.Getuid() != 0 {
		home := e.Paths().Home
		if !filepath.IsAbs(home) {
			return loginUnit{}, cli.Hintf("export HOME=/Users/you", "no home directory is known, so launchd's files cannot be found")
		}
		dir = filepath.Join(home, "Library", "LaunchAgents")
	}
	text, err := plist(e)
	return loginUnit{file: filepath.Join(dir, launchLabel+".plist"), text: text, reader: "launchd"}, err
}

const launchLabel = "dev.cachebro.mount"

// plist returns the agent as a property list. With AbandonProcessGroup, the processes that
// serve the mounts outlive the command that started them.
func plist(e *cli.Env) (string, error) {
	var w strings.Builder
	var err error
	text := func(s string) string {
		var b strings.Builder
		if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
			err = cli.Hintf("mv it to a path without such characters", "a property list cannot contain %q", s)
		}
		_ = xml.EscapeText(&b, []byte(s))
		return b.String()
	}
	w.WriteString(`<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
	<key>Label</key>
	<string>` + launchLabel + `</string>
	<key>ProgramArguments</key>
	<array>
		<string>` + text(e.Exe) + `</string>
		<string>mount</string>
		<string>--all</string>
	</array>
	<key>RunAtLoad</key>
	<true/>
	<key>AbandonProcessGroup</key>
	<true/>
`)
	var env strings.Builder
	for _, name := range []string{"CACHEBRO_DIR", "XDG_STATE_HOME"} {
		if v := absVar(e, name); v != "" {
			env.WriteString("\t\t<key>" + name + "</key>\n\t\t<string>" + text(v) + "</string>\n")
		}
	}
	if env.Len() > 0 {
		w.WriteString("\t<key>EnvironmentVariables</key>\n\t<dict>\n" + env.String() + "\t</dict>\n")
	}
	w.WriteString("</dict>\n</plist>\n")
	return w.String(), err
}
