package clients

import (
	"bytes"
	"errors"
)

// agentsFiles returns the section in AGENTS.md, which many clients read at the start of a session.
// It costs tokens in each session. So init writes it only on request, and it contains only what an
// agent cannot find out by itself.
func agentsFiles(s Setup) []file { return []file{{s.AgentsMD, section{}}} }

const (
	sectionBegin = "<!-- cachebro: begin -->"
	sectionEnd   = "<!-- cachebro: end -->"
	sectionText  = `## cachebro

Every version of every file here is kept, whatever program wrote it.

- ` + "`cachebro log PATH`, `cachebro diff PATH`" + `: what changed, when, by whom
- ` + "`cachebro undo --prompt last --dry-run`" + `: what undoing the last prompt's changes would do
- ` + "`cachebro revert PATH`" + `: the file as it was before; deleted files too
`
)

// section is a part of a Markdown file between two comments.
type section struct{}

func (section) Add(before []byte) ([]byte, error) {
	nl := "\n"
	if bytes.Contains(before, []byte("\r\n")) {
		nl = "\r\n"
	}
	text := bytes.ReplaceAll([]byte(sectionBegin+"\n"+sectionText+sectionEnd+"\n"), []byte("\n"), []byte(nl))
	from, to, err := findSection(before, sectionBegin, sectionEnd)
	if err != nil {
		return nil, err
	}
	if to > 0 {
		return bytes.Join([][]byte{before[:from], text, before[to:]}, nil), nil
	}
	out := bytes.Clone(before)
	if len(out) > 0 && !bytes.HasSuffix(out, []byte(nl)) {
		out = append(out, nl...)
	}
	if len(out) > 0 {
		out = append(out, nl...) // Markdown wants an empty line
	}
	return append(out, text...), nil
}

func (section) Remove(now, _ []byte) ([]byte, error) {
	from, to, err := findSection(now, sectionBegin, sectionEnd)
	if err != nil || to == 0 {
		return now, err
	}
	head := now[:from]
	for _, nl := range []string{"\r\n\r\n", "\n\n"} {
		if bytes.HasSuffix(head, []byte(nl)) {
			head = head[:len(head)-len(nl)/2]
			break
		}
	}
	return bytes.Join([][]byte{head, now[to:]}, nil), nil
}

// findSection returns where the section between two comments begins and ends. The line end after the
// second comment belongs to the section. to is 0 if there is no section.
func findSection(b []byte, first, last string) (from, to int, err error) {
	from = bytes.Index(b, []byte(first))
	end := bytes.Index(b, []byte(last))
	switch {
	case from < 0 && end < 0:
		return 0, 0, nil
	case from < 0 || end < from || bytes.Count(b, []byte(first)) > 1 || bytes.Count(b, []byte(last)) > 1:
		return 0, 0, errors.New("the comments around cachebro's section do not match")
	}
	to = end + len(last)
	for _, nl := range []string{"\r\n", "\n"} {
		if bytes.HasPrefix(b[to:], []byte(nl)) {
			to += len(nl)
			break
		}
	}
	return from, to, nil
}
