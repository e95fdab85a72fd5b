//go:build linux

// Command faults tries to break a mount and counts the failures. It uses the finished binary as a
// user would, only with files, processes and signals. So a user could meet every fault that it
// finds.
//
//	faults kill  [-rounds N] [-seed S]   kill -9 of our processes under load
//	faults fsx   [-ops N] [-seed S] DIR  random I/O on one file, mmap included
//	faults torn  [-closes N] [-seed S]   closes of files that are renamed or overwritten at the same time
//	faults under [-wait D]               changes made in the source, bypassing the mount
//	faults twin  [-seeds N] [-first S] [-live] [-net] [-shrink D]
//	             random operations, undone and redone, against copies; needs root
//	faults typed [-lines N] [-seed S] [-shell zsh]
//	             lines typed into a shell in tmux, each undone
//	faults net   [-rounds N] [-seed S]   kill -9 of our processes while a command runs under
//	             "cachebro run", without /dev/fuse and as an ordinary user without
//	             capabilities; then the command is undone; needs root
//	faults power [-rounds N] [-seed S]   power cuts, simulated on a disk that is made for this; needs root
//
// All sub-commands except fsx make a project in -dir (by default the directory for temporary files)
// and remove it. fsx works in an existing directory. Each sub-command prints its counts, and its
// exit status is 1 if anything was wrong.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

// settings are the flags of all sub-commands.
type settings struct {
	binary  string
	dir     string
	rounds  int
	ops     int
	writers int
	seed    int64
	every   int
	keep    bool
	verbose bool
	wait    time.Duration
	seeds   int
	first   int64
	side    int
	live    bool
	// excluded makes twin use directories whose content is never saved.
	excluded bool
	net      bool
	shrink   time.Duration
	closes   int
	blind    string
	only     string
	lines    int
	shell    string
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("want a test: kill, fsx, torn, under, twin, typed, net or power")
	}
	var s settings
	fs := flag.NewFlagSet(args[0], flag.ContinueOnError)
	fs.StringVar(&s.binary, "cachebro", "bin/cachebro", "the binary under test")
	fs.StringVar(&s.dir, "dir", os.TempDir(), "the directory in which to make the project")
	fs.IntVar(&s.rounds, "rounds", 100, "kill, net, power: the number of rounds")
	fs.IntVar(&s.writers, "writers", 8, "kill, torn, power: the number of concurrent writers")
	fs.IntVar(&s.every, "fsck", 10, "kill: check the store each time after this many rounds")
	fs.IntVar(&s.ops, "ops", 1_000_000, "fsx: the number of operations")
	fs.Int64Var(&s.seed, "seed", time.Now().UnixNano(), "the seed of the random numbers; the same seed makes the same operations")
	fs.IntVar(&s.closes, "closes", 10_000, "torn: the number of closes")
	fs.BoolVar(&s.keep, "keep", false, "keep the project and its state for inspection")
	fs.BoolVar(&s.verbose, "v", false, "print one line per round")
	fs.IntVar(&s.lines, "lines", 500, "typed: the number of lines to type")
	fs.StringVar(&s.shell, "shell", "bash", "typed: the shell, bash or zsh")
	fs.StringVar(&s.only, "only", "", "kill: run only the rounds with this name, which -v prints")
	fs.DurationVar(&s.wait, "wait", time.Second, "under: how soon a change must be visible")
	fs.IntVar(&s.seeds, "seeds", 100, "twin: the number of seeds")
	fs.Int64Var(&s.first, "first", 1, "twin: the first seed")
	fs.IntVar(&s.side, "side", 1, "twin: the number of mounts side by side")
	fs.BoolVar(&s.live, "live", false, "twin: check while writers continue to write")
	fs.BoolVar(&s.net, "net", false, "twin: use cachebro run instead of a mount")
	fs.BoolVar(&s.excluded, "excluded", false, "twin: also use directories whose content is never saved")
	fs.StringVar(&s.blind, "blind", "", "twin: ignore these differences, separated by commas: absence, content, mode, owner, xattr, acl, links …")
	fs.DurationVar(&s.shrink, "shrink", 0, "twin: how long to search for a shorter script of each failure")
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "agent":
		return serveAgent(fs.Arg(0))
	case "scribe":
		return scribes(fs.Arg(0), s.seed)
	case "twin":
		return twins(s)
	case "kill":
		return killRounds(s)
	case "fsx":
		if fs.NArg() != 1 {
			return fmt.Errorf("fsx: want the directory to work in")
		}
		return fsx(fs.Arg(0), s)
	case "torn":
		return torn(s)
	case "under":
		return underneath(s)
	case "typed":
		return typed(s)
	case "net":
		return netRounds(s)
	case "power":
		return powerCuts(s)
	}
	return fmt.Errorf("%s: want kill, fsx, torn, under, twin, typed, net or power", args[0])
}
