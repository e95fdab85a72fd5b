package hooks

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cachebro/store/leaf/text"
	"cachebro/store/wire"
)

// A client passes a hook's replacement of a result on to the model only if the replacement has the
// shape that this version of the client expects. New versions appear weekly, so a table of versions
// would soon be wrong. But PostToolBatch contains the text that the model really got. If the model
// got the client's own text although the hook sent another one, this version of the client refuses
// the form of the replacement, and hooks do not use that form again.

// form names a way to replace a result.
type form string

const (
	formStub  form = "Read, a sentence"
	formLines form = "Read, a part of the lines"
	formShell form = "Bash"
)

// Refusal records that a client's version did not show the model results in some form.
type Refusal struct {
	Client string    `json:"client"` // such as "claude-code/2.1.330"
	Form   string    `json:"form"`
	Time   time.Time `json:"time"`
}

const (
	maxRefusals = 64
	// refusedFor is how long a refused form is not sent. Then it is tried again, because the client
	// may have had another reason to show its own text.
	refusedFor = 7 * 24 * time.Hour
)

// refusalsFile returns the path of the file with all refusals. All projects share it.
func refusalsFile(p wire.Paths) (string, error) {
	base, err := p.StateBase()
	if err != nil {
		return "", err
	}
	return filepath.Join(base, "clients", "refused.json"), nil
}

// Refusals lists the refusals that are in effect at a given time, newest first.
func Refusals(p wire.Paths, now time.Time) []Refusal {
	file, err := refusalsFile(p)
	if err != nil {
		return nil
	}
	var all []Refusal
	if wire.ReadJSON(file, &all) != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(r Refusal) bool { return now.Sub(r.Time) > refusedFor })
}

// ForgetRefusals forgets all refusals, so that every form is tried again.
func ForgetRefusals(p wire.Paths) error {
	file, err := refusalsFile(p)
	if err != nil {
		return err
	}
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

func (c *scene) clientName() string {
	return cmp.Or(c.opt.client, clientName(c.env.Getenv("AI_AGENT")))
}

// refuses reports whether the client's version is recorded as refusing this form.
func (c *scene) refuses(f form) bool {
	return slices.ContainsFunc(Refusals(c.env.Paths, c.env.Now()), func(r Refusal) bool {
		return r.Client == c.clientName() && r.Form == string(f)
	})
}

func (c *scene) noteRefusal(f form) {
	if c.refuses(f) {
		return
	}
	all := append([]Refusal{{c.clientName(), string(f), c.env.Now()}}, Refusals(c.env.Paths, c.env.Now())...)
	if file, err := refusalsFile(c.env.Paths); err == nil && os.MkdirAll(filepath.Dir(file), 0o700) == nil {
		_ = wire.WriteJSON(file, all[:min(len(all), maxRefusals)]) // after an error, the form is tried again
	}
}

// sent describes a text printed to replace a result. Whether the model got it is known only at
// PostToolBatch. Until then it is stored as a line of a file, written after printing.
type sent struct {
	ToolUse string   `json:"call"`
	Form    form     `json:"form,omitempty"`
	Own     string   `json:"own,omitempty"` // digest of a command's output as the client printed it; "" for a Read
	New     string   `json:"new,omitempty"` // the same for our text
	Saved   []saving `json:"saved,omitempty"`
}

func (c *scene) sentFile() string { return c.stateFile(c.session, ".sent") }

// note appends s to the file. If the line is lost, the form is tried again.
func (s sent) note(c *call) {
	file := c.sentFile()
	line, err := json.Marshal(s)
	if err == nil && file != "" && s.ToolUse != "" {
		_ = wire.AppendTo(file, string(line)+"\n")
	}
}

// sentResults returns what was printed, by call. It removes a file that has grown large.
func (c *scene) sentResults() map[string]sent {
	file := c.sentFile()
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	all := map[string]sent{}
	for line := range bytes.Lines(b) {
		var s sent
		if json.Unmarshal(line, &s) == nil {
			all[s.ToolUse] = s
		}
	}
	if len(b) > 1<<20 {
		_ = os.Remove(file)
	}
	return all
}

// outputDigest identifies a command's output as the client delivers it, without white space at the
// end and without the client's own additions.
func outputDigest(s string) string {
	const open, end = "\n<system-reminder>", "</system-reminder>"
	for strings.HasSuffix(strings.TrimSpace(s), end) {
		i := strings.LastIndex(s, open)
		if i < 0 {
			break
		}
		s = s[:i]
	}
	return text.Hash([]byte(strings.TrimSpace(s)))[:32]
}
