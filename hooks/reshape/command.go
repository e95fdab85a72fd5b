package reshape

import (
	"path"
	"slices"
	"strings"

	"cachebro/hooks/shell"
)

// command is what is known about the command line that printed a text.
type command struct {
	// makers are the words of the programs that made the lines. Programs that only select lines are
	// left out.
	makers   [][]string
	numbered bool     // matches have line numbers
	roots    []string // searched paths; nil means the working directory
	only     []Rule   // the only rules to use, for a text that is not from a command line
}

// parse reads a command line. It returns true if every program in it is known to print for people.
func parse(line string) (*command, bool) {
	all, ok := shell.Pipelines(line)
	if !ok {
		return nil, false
	}
	c := &command{}
	for _, p := range all {
		words, ok := maker(p)
		if !ok {
			return nil, false
		}
		if words == nil {
			continue
		}
		known := slices.ContainsFunc(table, func(r rule) bool { return r.applies(words) })
		if !known || forbidden(words) {
			return nil, false
		}
		c.makers = append(c.makers, words)
	}
	c.searched()
	return c, len(c.makers) > 0
}

// takes reports whether a rule may be used for this output.
func (c *command) takes(r rule) bool {
	if c.only != nil {
		return slices.Contains(c.only, r.name)
	}
	return c.any(r.applies)
}

func (c *command) any(by func([]string) bool) bool { return slices.ContainsFunc(c.makers, by) }

// silent programs print nothing, or only a separator between two outputs.
var silent = []string{"cd", "pushd", "popd", "export", "set", "true", ":", "mkdir", "echo", "source", "."}

// filters pass lines on unchanged, except with these options.
var filters = map[string][]string{
	"head": {"-c", "--bytes"}, "tail": {"-c", "--bytes", "-f"}, "sort": {"-o", "-z"}, "uniq": {"-c", "--count", "-z"},
	"grep": {"-n", "-o", "-c", "-b", "-r", "-R", "-l", "-L", "-H", "--color", "--count", "--only-matching"}, "egrep": {"-n", "-o", "-c", "-b", "-r", "-R", "-l", "-L", "-H"},
	"rg": {"-n", "-o", "-c", "-b", "-l", "-H", "-r", "--replace", "--color", "--json", "--count", "--only-matching"},
}

// withValue lists the options of filters that may be followed by a value in a word of its own.
var withValue = map[string][]string{"head": {"-n"}, "tail": {"-n"}, "sort": {"-k", "-t"}}

// maker returns the words of the program in a pipeline that makes the lines, or nil if it prints
// nothing. ok is false if the pipeline is not understood.
func maker(p shell.Pipeline) (words []string, ok bool) {
	for i, w := range p {
		w = unwrap(w, i > 0)
		if len(w) == 0 || strings.Contains(w[0], shell.Unknown) {
			return nil, false
		}
		w[0] = path.Base(w[0])
		switch {
		case i == 0 && slices.Contains(silent, w[0]):
			return nil, len(p) == 1
		case i == 0 || w[0] != "" && wrapped(p[i]):
			words = w
		case !filtering(w):
			return nil, false
		}
	}
	return words, true
}

// filtering reports whether a program only selects lines of its input.
func filtering(w []string) bool {
	alters, ok := filters[w[0]]
	if !ok {
		return false
	}
	operands := 0
	for _, a := range w[1:] {
		if !strings.HasPrefix(a, "-") {
			operands++
			continue
		}
		name, _, _ := strings.Cut(a, "=")
		for _, x := range alters {
			if name == x || len(x) == 2 && !strings.HasPrefix(a, "--") && strings.Contains(a[1:], x[1:]) {
				return false
			}
		}
	}
	switch w[0] {
	case "grep", "egrep", "rg": // with a second operand it would read that file
		return operands <= 1
	}
	return operands == 0 || operands == 1 && hasAny(w[1:], withValue[w[0]]...)
}

// wrapped reports whether xargs runs the program that makes the lines.
func wrapped(w []string) bool { return len(w) > 0 && path.Base(w[0]) == "xargs" }

// unwrap removes the words of programs that only run another program. It removes xargs only after a
// pipe.
func unwrap(w []string, piped bool) []string {
	w = slices.Clone(w)
	for len(w) > 1 {
		n := 0
		switch path.Base(w[0]) {
		case "time", "command", "nohup", "sudo", "exec":
			n = 1
		case "env":
			for n = 1; n < len(w) && strings.Contains(w[n], "="); n++ {
			}
		case "timeout":
			n = 1 + options(w[1:], "-k", "-s") + 1
		case "nice", "stdbuf", "ionice":
			n = 1 + options(w[1:], "-n", "-i", "-o", "-e", "-c")
		case "npx", "bunx":
			n = 1 + options(w[1:], "-p", "--package")
		case "xargs":
			if !piped {
				return w
			}
			n = 1 + options(w[1:], "-n", "-I", "-P", "-L", "-d", "-s")
		case "python", "python3":
			if w[1] != "-m" {
				return w
			}
			n = 2
		case "poetry", "uv", "pipenv", "hatch", "rye":
			if w[1] != "run" {
				return w
			}
			n = 2
		case "pnpm", "yarn", "bundle":
			if w[1] != "exec" {
				return w
			}
			n = 2
		default:
			return w
		}
		if n >= len(w) || n == 0 {
			return nil
		}
		w = w[n:]
	}
	return w
}

// options counts the leading words that are options or values of options. valued are the options
// that take a value.
func options(w []string, valued ...string) (n int) {
	for n < len(w) && strings.HasPrefix(w[n], "-") {
		if slices.Contains(valued, w[n]) {
			n++
		}
		n++
	}
	return n
}

// flags are the options and operands of a command without the options' values.
type flags struct {
	short    string   // the letters of all short options
	long     []string // names of long options, without "=" and the value
	operands []string
}

func (f flags) has(letters string, names ...string) bool {
	return strings.ContainsAny(f.short, letters) || slices.ContainsFunc(names, func(n string) bool { return slices.Contains(f.long, n) })
}

// readFlags splits words into options and operands. letters and names are the short and long
// options that take a value.
func readFlags(words []string, letters string, names ...string) (f flags) {
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case w == "--":
			f.operands = append(f.operands, words[i+1:]...)
			return f
		case strings.HasPrefix(w, "--"):
			name, _, given := strings.Cut(w, "=")
			f.long = append(f.long, name)
			if !given && slices.Contains(names, name) {
				i++
			}
		case len(w) > 1 && w[0] == '-':
			for j := 1; j < len(w); j++ {
				f.short += w[j : j+1]
				if strings.IndexByte(letters, w[j]) >= 0 {
					if j == len(w)-1 {
						i++
					}
					break
				}
			}
		default:
			f.operands = append(f.operands, w)
		}
	}
	return f
}
