package hooks

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	"cachebro/hooks/clients"
	"cachebro/hooks/reshape"
)

// options holds the flags of the hook command, as init registered it with the client.
type options struct {
	event     string                // from the arguments; a name in the input has precedence
	stopLine  string                // when to print the stop line: "changes" (default: if something was saved or changed), "always" or "off"
	noRewrite bool                  // do not replace results of the built-in tools
	noReshape map[reshape.Rule]bool // rules not applied to commands' outputs
	index     bool                  // give each prompt a compact index
	client    string                // name of a client other than Claude Code, from the table of package clients
	plugin    bool                  // registered by the plugin, not by init
	hold      bool                  // deny the first edit of a file that others changed, and show the diff
}

// parseOptions ignores unknown options, because the init of another version may have registered
// them.
func parseOptions(args []string) options {
	o := options{stopLine: "changes"}
	for _, a := range args {
		name, value, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
		switch {
		case !strings.HasPrefix(a, "-"):
			o.event = a
		case name == "stop-line" && value != "":
			o.stopLine = value
		case name == "no-rewrite":
			o.noRewrite = value != "false"
		case name == "no-reshape":
			o.noReshape = map[reshape.Rule]bool{}
			for rule := range strings.SplitSeq(cmp.Or(value, string(allRules)), ",") {
				o.noReshape[reshape.Rule(rule)] = true
			}
		case name == "prompt-index":
			o.index = value != "false"
		case name == "plugin":
			o.plugin = value != "false"
		case name == "hold":
			o.hold = value != "false"
		case name == "client":
			o.client = value
		}
	}
	return o
}

// event holds the fields of a client's event that we use. A field that is missing or has an
// unexpected type is empty, because clients change fields with every release.
type event struct {
	name       string
	clientName string // the client's own name of the event
	session    string
	agent      string // "" is the main loop
	prompt     string // prompt_id
	transcript string
	cwd        string
	home       string // status line: where the session began
	source     string // SessionStart
	text       string // UserPromptSubmit: the prompt itself
	queued     string // PreToolUse: the prompt typed while the model worked
	reply      string // Stop: the model's last message
	tool       string
	toolUse    string
	input      fields // tool_input
	response   fields // PostToolUse: tool_response, if it is an object
	own        string // PostToolUse: the client's form of the result, if response is a translation
	size       int    // PostToolUse: bytes of input and response
	calls      []finished
	// alive lists the calls whose results are in the context. It is nil if the client does not
	// report them, or if no result was removed since its last report.
	alive []string
}

// finished is one call of a PostToolBatch. text is what the model gets.
type finished struct {
	tool, toolUse, text string
	input               fields
	size                int // bytes of the input
}

func parseEvent(raw []byte, opt options) (event, bool) {
	f, ok := parseFields(bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf")))
	if !ok {
		return event{}, false
	}
	e := event{
		name:       f.str("hook_event_name"),
		session:    f.str("session_id"),
		agent:      f.str("agent_id"),
		prompt:     f.str("prompt_id"),
		transcript: f.str("transcript_path"),
		cwd:        f.str("cwd"),
		source:     f.str("source"),
		text:       f.str("prompt"),
		reply:      f.str("last_assistant_message") + f.str("prompt_response"),
		tool:       f.str("tool_name"),
		toolUse:    f.str("tool_use_id"),
		input:      f.object("tool_input"),
		response:   f.object("tool_response"),
		size:       len(f["tool_input"]) + len(f["tool_response"]),
	}
	e.name = cmp.Or(e.name, opt.event)
	var calls []fields
	if json.Unmarshal(f["tool_calls"], &calls) == nil {
		for _, c := range calls {
			e.calls = append(e.calls, finished{
				tool: c.str("tool_name"), toolUse: c.str("tool_use_id"),
				text: joinText(c["tool_response"]), input: c.object("tool_input"), size: len(c["tool_input"]),
			})
		}
	}
	e.clientName = e.name
	if d, ok := clients.DialectOf(opt.client); ok {
		e = translate(d, opt.client, e, f)
	}
	return e, true
}

func (f fields) str(name string) string {
	s, _ := unquote(f[name])
	return s
}

func (f fields) object(name string) fields {
	if v := f[name]; len(v) > 0 && v[0] == '{' {
		o, _ := parseFields(v)
		return o
	}
	return nil
}

// number returns a whole number, or 0, false.
func (f fields) number(name string) (int, bool) {
	var n int
	if f[name] == nil || json.Unmarshal(f[name], &n) != nil {
		return 0, false
	}
	return n, true
}

func (f fields) truth(name string) bool {
	return string(f[name]) == "true"
}

// joinText returns the text of a result, which is a string or a list of blocks.
func joinText(raw json.RawMessage) string { return joinBlocks(raw, "") }

// joinBlocks is like joinText, but writes the string between after each block that does not end in
// a newline and is not the last.
func joinBlocks(raw json.RawMessage, between string) string {
	if s, ok := unquote(raw); ok {
		return s
	}
	var blocks []fields
	if json.Unmarshal(raw, &blocks) != nil {
		return ""
	}
	var b strings.Builder
	for _, f := range blocks {
		if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") {
			b.WriteString(between)
		}
		b.WriteString(f.str("text"))
	}
	return b.String()
}
