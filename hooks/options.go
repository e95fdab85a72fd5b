package hooks

import (
	"cmp"
	"strings"

	"cachebro/hooks/reshape"
)

// options are from the command line that init registered.
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
