package hooks

import (
	"cmp"
	"strings"

	"cachebro/hooks/reshape"
)

// options are the options on the command line that init registered.
type options struct {
	event     string                // from the arguments; a name in the input takes precedence
	stopLine  string                // when to print the stop line: "changes" (the default) means if something was saved or changed; or "always", "off"
	noRewrite bool                  // do not replace results of the built-in tools
	noReshape map[reshape.Rule]bool // rules that are not applied to commands' outputs
	index     bool                  // give each prompt a compact index
	client    string                // another client than Claude Code, by its name in the table of package clients
	plugin    bool                  // registered by the plugin, not by init
	hold      bool                  // deny the first edit of a file that others changed, and show the diff
}

// parseOptions ignores options that it does not know, because the init of another version may
// have registered them and the hook must work all the same.
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
