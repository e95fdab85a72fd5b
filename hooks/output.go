package hooks

import (
	"encoding/json"
	"unicode/utf8"
)

// maxContext is the client's limit for injected text, in characters.
const maxContext = 10_000

// output is what an event injects; the zero value is nothing to say.
type output struct {
	context string // for the model
	message string // a line for the user
	updated any    // PostToolUse: replaces the tool's result
	deny    bool   // PreToolUse: the call does not happen, context says why
	quiet   bool   // print "{}" although there is nothing to say
}

// encode returns the JSON of the answer, nil when there is nothing to print.
func (o output) encode(event string) []byte {
	type specific struct {
		Event   string `json:"hookEventName"`
		Context string `json:"additionalContext,omitempty"`
		Updated any    `json:"updatedToolOutput,omitempty"`
		Permit  string `json:"permissionDecision,omitempty"`
		Reason  string `json:"permissionDecisionReason,omitempty"`
	}
	var v struct {
		Message  string    `json:"systemMessage,omitempty"`
		Specific *specific `json:"hookSpecificOutput,omitempty"`
	}
	v.Message = o.message
	s := specific{Event: event, Context: cutText(o.context, maxContext), Updated: o.updated}
	if o.deny {
		s.Permit, s.Reason, s.Context = "deny", s.Context, ""
	}
	if s.Permit != "" || s.Context != "" || s.Updated != nil {
		v.Specific = &s
	}
	if v.Message == "" && v.Specific == nil && !o.quiet {
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return b
}

// cutText shortens s to n characters. The client counts UTF-16 units, so a rune
// beyond the first plane is two.
func cutText(s string, n int) string {
	units := 0
	for i, r := range s {
		w := 1
		if r > 0xffff {
			w = 2
		}
		if units+w > n {
			return s[:i]
		}
		units += w
	}
	if !utf8.ValidString(s) {
		return string([]rune(s))
	}
	return s
}
