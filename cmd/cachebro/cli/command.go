package cli

import (
	"context"
	"fmt"
	"strings"

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
	GroupSetup    = "Setting up"
	GroupStore    = "Store"
	GroupPlumbing = "Plumbing"
)

// PrintHelp prints the page of the running command.
func (e *Env) PrintHelp(fs *pflag.FlagSet) {
	line := e.Program() + " " + e.Cmd.Name
	if fs.HasFlags() {
		line += " [flags]"
	}
	fmt.Fprintf(e.Stdout, "%s\n\nUsage:\n  %s\n", e.Cmd.Short, strings.TrimSpace(line+" "+e.Cmd.Args))
	if e.Cmd.Long != "" {
		fmt.Fprintf(e.Stdout, "\n%s\n", e.Cmd.Long)
	}
	if fs.HasFlags() {
		fmt.Fprintf(e.Stdout, "\nFlags:\n%s", fs.FlagUsages())
	}
}

// Program is what this program is called.
func (e *Env) Program() string {
	if e.Called == "" {
		return "cachebro"
	}
	return e.Called
}
