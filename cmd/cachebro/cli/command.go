package cli

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"
)

// Command is one entry of the table. Everything but name and run is for help.
type Command struct {
	Name  string
	Group string // "" hides it: started by cachebro itself
	Args  string // as in "[PATH]"
	Short string // half a line, no full stop
	Long  string // paragraphs and examples
	// ownSignals: the command decides what SIGINT and SIGTERM do; else they
	// cancel its context.
	OwnSignals bool
	Run        func(context.Context, *Env) error
}

// The groups of help, in their order.
const (
	GroupEvery    = "Everyday"
	GroupHistory  = "History"
	GroupProject  = "Notes, documents, results"
	GroupSetup    = "Setting up"
	GroupStore    = "Store"
	GroupPlumbing = "Plumbing"
)

// Groups lists the groups of help in their order.
func Groups() []string {
	return []string{GroupEvery, GroupHistory, GroupProject, GroupSetup, GroupStore, GroupPlumbing}
}

// PrintHelp prints the page of the running command.
func (e *Env) PrintHelp(fs *pflag.FlagSet) {
	line := e.Program() + " " + e.Cmd.Name
	if fs.HasFlags() {
		line += " [flags]"
	}
	fmt.Fprintf(e.Stdout, "%s\n\nUsage:\n  %s\n", e.Cmd.Short, strings.TrimSpace(line+" "+e.Cmd.Args))
	if e.Cmd.Long != "" {
		fmt.Fprintf(e.Stdout, "\n%s\n", filled(e.Cmd.Long))
	}
	if fs.HasFlags() {
		fmt.Fprintf(e.Stdout, "\nFlags:\n%s", fs.FlagUsagesWrapped(helpWidth))
	}
}

// helpWidth is the number of columns of a help page.
const helpWidth = 80

// filled breaks paragraphs at the width of a help page. Lines that begin with a blank are
// examples and stay as they are.
func filled(page string) string {
	var out []string
	fits := false // the last line of out goes on with the next words
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == ' ' {
			out, fits = append(out, line), false
			continue
		}
		for _, word := range strings.Fields(line) {
			last := len(out) - 1
			if fits && utf8.RuneCountInString(out[last])+1+utf8.RuneCountInString(word) <= helpWidth {
				out[last] += " " + word
			} else {
				out, fits = append(out, word), true
			}
		}
	}
	return strings.Join(out, "\n")
}

// Program is what this program is called.
func (e *Env) Program() string {
	if e.Called == "" {
		return "cachebro"
	}
	return e.Called
}
