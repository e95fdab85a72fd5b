package hooks

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"cachebro/hooks/clients"
	"cachebro/hooks/reshape"
	"cachebro/store/leaf/text"
	"cachebro/store/tokens"
	"cachebro/store/wire"
)

// commandOutput shortens the output of a Bash command if package reshape has a rule for it. The
// output does not count as shown lines of a file, so no later "unchanged" relies on it.
func (c *call) commandOutput(ctx context.Context) answer {
	if len(c.response["stdout"]) > 2*reshape.MaxText {
		return answer{} // return before the output is decoded, which takes time
	}
	stdout, ok := plainOutput(c.response)
	if !ok || !c.reshapes() || c.input.truth("run_in_background") {
		return answer{}
	}
	o := reshape.Options{Off: c.opt.noReshape, Program: c.program}
	line := c.input.str("command")
	r, ok := reshape.Output(line, stdout, o)
	if ok && r.Folded {
		// The full text must be stored first, so that the model can ask for the rest.
		req := wire.OutputRequest{Session: c.session, ID: r.ID}
		if _, err := c.ask(ctx, wire.MOutput, req, []byte(stdout), nil); err != nil {
			o.NoFold = true
			r, ok = reshape.Output(line, stdout, o)
		}
	}
	if !ok || !utf8.ValidString(r.Text) {
		return answer{}
	}
	return c.reshaped(ctx, withStdout(c.response, trimEnd(r.Text)), stdout, r)
}

// program returns the words with which the agent's shell can start cachebro.
func (c *scene) program() string {
	for _, dir := range filepath.SplitList(c.env.Getenv("PATH")) {
		if fi, err := os.Stat(filepath.Join(dir, "cachebro")); err == nil && fi.Mode().IsRegular() && fi.Mode().Perm()&0o111 != 0 {
			return "cachebro"
		}
	}
	exe, err := os.Executable()
	if err != nil {
		return "cachebro"
	}
	return clients.ShellQuote(exe)
}

// grepPersists is the length in characters above which Claude Code stores a Grep's result in a
// file. The model then gets only the first 2,000 characters, less than our rules would leave.
const grepPersists = 20_000

// preview begins the text that replaces a result which the client stored in a file.
const preview = "<persisted-output>"

func (c *call) searchOutput(ctx context.Context) answer {
	text := c.response.str("content")
	if !c.reshapes() || c.response.str("mode") != "content" || text == "" {
		return c.listOutput(ctx)
	}
	if utf8.RuneCountInString(text) > grepPersists {
		return answer{}
	}
	o := reshape.Options{Off: c.opt.noReshape, Root: c.cwd}
	r, ok := reshape.Matches(text, true, o)
	if !ok {
		r, ok = reshape.Matches(text, false, o)
	}
	b, err := json.Marshal(r.Text)
	if !ok || err != nil {
		return answer{}
	}
	out := maps.Clone(c.response)
	out["content"] = b
	return c.reshaped(ctx, out, text, r)
}

// listOutput shortens a list of files from Grep or Glob.
func (c *call) listOutput(ctx context.Context) answer {
	var files []string
	if !c.reshapes() || c.response.str("content") != "" || json.Unmarshal(c.response["filenames"], &files) != nil {
		return answer{}
	}
	text := strings.Join(files, "\n")
	r, ok := reshape.Paths(text, reshape.Options{Off: c.opt.noReshape})
	if !ok || strings.Count(text, "\n") != len(files)-1 {
		return answer{}
	}
	b, err := json.Marshal(strings.Split(r.Text, "\n"))
	if err != nil {
		return answer{}
	}
	out := maps.Clone(c.response)
	out["filenames"] = b
	return c.reshaped(ctx, out, text, r)
}

// reshapes reports whether outputs are shortened for this client.
func (c *scene) reshapes() bool {
	return c.toolUse != "" && !c.opt.noRewrite && !c.opt.noReshape[allRules] && !c.refuses(c.outputForm())
}

// outputForm names the form of shortened results of this tool.
func (c *scene) outputForm() form { return form(c.tool + ", in fewer words") }

// allRules in options.noReshape means every rule.
const allRules = reshape.Rule("all")

// reshaped returns the answer that replaces the result with a reshaped text. It records the
// savings, which count only when the PostToolBatch event shows that the model got this text.
func (c *call) reshaped(ctx context.Context, updated fields, own string, r reshape.Result) answer {
	if lines := text.OwnWords(r.Text); len(lines) > 0 {
		_, _ = c.ask(ctx, wire.MGiven, wire.GivenQuery{Reader: c.reader(), Add: lines}, nil, nil)
	}
	s := sent{ToolUse: c.toolUse, Form: c.outputForm(), Own: outputDigest(own), New: outputDigest(r.Text), Saved: savings(own, r)}
	return answer{out: output{updated: updated}, sent: func() { s.note(c) }}
}

// saving is one rule's share of an output's tokens. The sum of full over all rules is the size of
// the original output, and the sum of sent is the size of the text that was sent.
type saving struct {
	Rule reshape.Rule `json:"rule"`
	Full int64        `json:"full"`
	Sent int64        `json:"sent"`
}

// savings divides the saved tokens among the rules in proportion to their saved bytes. The tokens
// that were sent count under the first rule.
func savings(own string, r reshape.Result) (out []saving) {
	full, sent := int64(tokens.EstimateString(own)), int64(tokens.EstimateString(r.Text))
	bytes := int64(max(1, len(own)-len(r.Text)))
	for _, p := range r.Parts[1:] {
		n := max(0, (full-sent)*int64(p.Saved)/bytes)
		out = append(out, saving{p.Rule, n, 0})
		full -= n
	}
	return append([]saving{{r.Parts[0].Rule, full, sent}}, out...)
}

// countOutput counts the tokens saved by a shortened output if the model got it, and records a
// refusal if the client showed its own text. counted reports whether the tokens were counted.
func (c *call) countOutput(ctx context.Context, f finished, s sent) (counted bool) {
	if strings.HasPrefix(f.text, preview) {
		return false // the client stored the output in a file, as it also does without hooks
	}
	given := outputDigest(f.text)
	ours := given == s.New || f.tool != "Bash" && strings.Contains(f.text, reshape.Mark)
	if !ours {
		if given == s.Own || f.tool != "Bash" {
			c.noteRefusal(s.Form)
		}
		return false
	}
	for _, part := range s.Saved {
		spend := wire.Spend{Reader: wire.Reader{Session: c.session, Agent: c.agent}, Tool: "output: " + string(part.Rule), Full: part.Full, Sent: part.Sent, Kind: "result"}
		_, _ = c.ask(ctx, wire.MSpend, spend, nil, nil)
	}
	return len(s.Saved) > 0
}
