package ui

import (
	"path"
	"strings"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/leaf/text"
	"cachebro/store/wire/visible"
)

// name returns a path for people, with control characters and invisible characters escaped.
func name(p []byte) string { return visible.Name(string(p)) }

func baseName(p string) string { return visible.Name(path.Base(p)) }

// oneLine returns an untrusted text on one line, without control characters.
func oneLine(s string) string { return cli.OneLine(strings.ToValidUTF8(s, "\uFFFD")) }

// lines returns an untrusted text with its line breaks, but without other control characters.
func lines(s string) string {
	all := strings.Split(strings.TrimSpace(s), "\n")
	for i := range all {
		all[i] = oneLine(all[i])
	}
	return strings.Join(all, "\n")
}

func (s *source) timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return cli.Stamp(t, s.e.Now())
}

// nameOfSession names a session for people, by its first prompt.
func nameOfSession(id, client, began string) string {
	client, _, _ = strings.Cut(oneLine(client), "/") // without its version
	switch {
	case id == "":
		return "outside of sessions"
	case began != "":
		return "“" + text.Clip(oneLine(began), 48) + "”"
	}
	id = oneLine(id)
	return strings.TrimSpace(client + " " + id[:min(len(id), 8)])
}

// cutName splits a name into its directory and the last element, so that a page can dim the
// directory.
func cutName(p []byte, dir bool) (above, last string) {
	n := name(p)
	if dir {
		n += "/"
	}
	if strings.HasPrefix(n, `"`) {
		return "", n
	}
	i := strings.LastIndexByte(strings.TrimSuffix(n, "/"), '/') + 1
	return n[:i], n[i:]
}
