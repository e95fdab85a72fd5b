package hooks

import (
	"unicode/utf8"
)

// maxContext is the client's limit for injected text, in characters.
const maxContext = 10_000

// output is what a hook prints for an event. The zero value prints nothing.
type output struct {
	context string // for the model
	message string // a line for the user
	updated fields // PostToolUse: replaces the tool's result
	deny    bool   // PreToolUse: prevents the call; context says why
	result  string // PostToolUse: replaces the result for a client that takes plain text
	block   bool   // send result as the reason for blocking the call
	quiet   bool   // print "{}" if all other fields are empty
}

// encode returns the JSON of the answer, or nil to print nothing.
func (o output) encode(event string) []byte {
	var b []byte
	add := func(open, name, text string) {
		if text != "" {
			b = appendString(append(b, open+`"`+name+`":`...), text)
		}
	}
	switch {
	case o.result == "":
	case o.block:
		b = appendString([]byte(`{"decision":"block","reason":`), o.result)
		return append(b, '}')
	default:
		add("{", "output", o.result)
		return append(b, '}')
	}
	text := cutText(o.context, maxContext)
	if o.deny && event == "BeforeTool" { // Gemini CLI's form
		b = appendString([]byte(`{"decision":"deny","reason":`), text)
		return append(b, '}')
	}
	add("{", "systemMessage", o.message)
	if text != "" || o.deny || o.updated != nil {
		if len(b) == 0 {
			b = append(b, '{')
		} else {
			b = append(b, ',')
		}
		b = appendString(append(b, `"hookSpecificOutput":{"hookEventName":`...), event)
		if o.deny {
			add(",", "permissionDecision", "deny")
			add(",", "permissionDecisionReason", text)
		} else {
			add(",", "additionalContext", text)
		}
		if o.updated != nil {
			b = o.updated.encode(append(b, `,"updatedToolOutput":`...))
		}
		b = append(b, '}')
	}
	switch {
	case len(b) > 0:
		return append(b, '}')
	case o.quiet:
		return []byte("{}")
	}
	return nil
}

// cutText shortens s to n UTF-16 units, as the client counts.
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
