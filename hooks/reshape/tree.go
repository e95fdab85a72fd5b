package reshape

import (
	"slices"
	"strings"
)

// A list of paths repeats directories on each line. In a tree, each directory occurs once, and its
// entries follow, indented by two blanks:
//
//	./hooks/
//	  doc.go
//	  shell/
//	    shell.go
//
// The order does not change. A line that ends with a slash is a directory that was not itself
// listed. A line without a slash was listed, even if its entries follow.

// listsPaths reports whether a command prints one path per line and nothing else.
func listsPaths(words []string) bool {
	switch words[0] {
	case "paths":
		return true
	case "find":
		for _, w := range words[1:] {
			switch w {
			case "-ls", "-fls", "-exec", "-execdir", "-ok", "-okdir", "-printf", "-fprintf", "-fprint", "-print0", "-fprint0", "-delete":
				return false
			}
		}
		return true
	case "fd", "fdfind":
		f := readFlags(words[1:], "dtegEScjSo")
		return !f.has("0lxX", "--print0", "--list-details", "--exec", "--exec-batch", "--format")
	case "rg":
		f, _ := searchFlags(words)
		return f.has("l", "--files", "--files-with-matches", "--files-without-match") && !f.has("0c", "--null", "--count", "--json", "--debug", "--trace")
	case "grep", "egrep", "fgrep":
		f, _ := searchFlags(words)
		return f.has("lL", "--files-with-matches", "--files-without-match") && !f.has("Zzc", "--null")
	case "git":
		if named := slices.Contains(words, "--name-only"); named && slices.Contains([]string{"diff", "ls-tree"}, firstOperand(words)) {
			return true
		}
		if len(words) < 2 || words[1] != "ls-files" {
			f, tool := searchFlags(words)
			return tool == "git" && f.has("lL", "--files-with-matches", "--name-only") && !f.has("z", "--null")
		}
		f := readFlags(words[2:], "xX")
		return !f.has("stzvfku", "--stage", "--unmerged", "--eol", "--debug", "--format", "--killed", "--resolve-undo", "-t", "-v")
	}
	return false
}

const treeNote = "paths are indented below their directory"

// maxDepth limits the depth of a tree.
const maxDepth = 64

func paths(c *command, text string) (string, string, bool) {
	lines, last := splitLines(text)
	if len(lines) < 8 || slices.ContainsFunc(lines, func(l string) bool { return !pathLine(l) }) {
		return "", "", false
	}
	var b strings.Builder
	if !treeOf(&b, lines, "", 0) {
		return "", "", false
	}
	out := b.String()
	if !last {
		out = strings.TrimSuffix(out, "\n")
	}
	return out, treeNote, true
}

// pathLine reports whether a line may be a path, unlike a message such as "find: …: Permission
// denied".
func pathLine(l string) bool {
	if l == "" || len(l) >= 4096 || strings.HasPrefix(l, " ") || strings.HasSuffix(l, "/") {
		return false
	}
	return !strings.Contains(l, ": ") && !strings.Contains(l, "//") && !strings.ContainsAny(l, "\t\r\x1b")
}

// treeOf writes paths that all begin with base as a tree, without base. It returns false if the
// tree is too deep.
func treeOf(b *strings.Builder, lines []string, base string, depth int) bool {
	if depth > maxDepth {
		return false
	}
	for i := 0; i < len(lines); {
		rel := lines[i][len(base):]
		indent := strings.Repeat("  ", depth)
		first, _, deeper := strings.Cut(rel, "/")
		// Find the entries of this path that follow in the list, in case it is a directory.
		end := i + 1
		for end < len(lines) && strings.HasPrefix(lines[end], lines[i]+"/") {
			end++
		}
		if end > i+1 {
			b.WriteString(indent + rel + "\n")
			if !treeOf(b, lines[i+1:end], lines[i]+"/", depth+1) {
				return false
			}
			i = end
			continue
		}
		if !deeper {
			b.WriteString(indent + rel + "\n")
			i++
			continue
		}
		dir := base + first + "/"
		for end = i + 1; end < len(lines) && strings.HasPrefix(lines[end], dir); end++ {
		}
		if end == i+1 {
			b.WriteString(indent + rel + "\n")
			i++
			continue
		}
		// If all paths share more directories, these go on the same line.
		for {
			next, _, more := strings.Cut(lines[i][len(dir):], "/")
			longer := dir + next + "/"
			if !more || !haveAll(lines[i:end], longer) {
				break
			}
			dir = longer
		}
		b.WriteString(indent + dir[len(base):] + "\n")
		if !treeOf(b, lines[i:end], dir, depth+1) {
			return false
		}
		i = end
	}
	return true
}

func haveAll(lines []string, prefix string) bool {
	return !slices.ContainsFunc(lines, func(l string) bool { return !strings.HasPrefix(l, prefix) })
}

// untree is the inverse of paths.
func untree(text string) (string, bool) {
	lines, last := splitLines(text)
	var above []string
	var out []string
	for _, l := range lines {
		name := strings.TrimLeft(l, " ")
		depth := (len(l) - len(name)) / 2
		if depth > len(above) || (len(l)-len(name))%2 != 0 || name == "" {
			return "", false
		}
		full := name
		if depth > 0 {
			full = above[depth-1] + name
		}
		above = above[:depth]
		if strings.HasSuffix(name, "/") {
			above = append(above, full)
			continue
		}
		above = append(above, full+"/")
		out = append(out, full)
	}
	return joinLines(out, last), true
}
