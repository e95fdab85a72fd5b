package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Unknown stands in a word for an expansion, such as a variable, whose value only a running shell
// knows.
const Unknown = "\x00"

// A Pipeline is a list of commands, each a list of words without quotes. Patterns are not expanded.
type Pipeline [][]string

// Pipelines returns the pipelines that a command line runs, in order. It returns false unless the
// line has only simple commands in the foreground that print to its output: no loops, functions,
// substitutions, here-documents or redirections to files.
func Pipelines(command string) (all []Pipeline, ok bool) {
	for _, s := range statements(command) {
		if !pipelinesOf(s, &all) {
			return nil, false
		}
	}
	return all, len(all) > 0
}

func pipelinesOf(s *syntax.Stmt, all *[]Pipeline) bool {
	switch c := s.Cmd.(type) {
	case *syntax.BinaryCmd:
		if c.Op == syntax.AndStmt || c.Op == syntax.OrStmt {
			return inForeground(s) && pipelinesOf(c.X, all) && pipelinesOf(c.Y, all)
		}
	case *syntax.TimeClause:
		return inForeground(s) && c.Stmt != nil && pipelinesOf(c.Stmt, all)
	}
	var p Pipeline
	if !commandsOf(s, &p) {
		return false
	}
	*all = append(*all, p)
	return true
}

func commandsOf(s *syntax.Stmt, p *Pipeline) bool {
	if !inForeground(s) {
		return false
	}
	switch c := s.Cmd.(type) {
	case *syntax.BinaryCmd:
		return (c.Op == syntax.Pipe || c.Op == syntax.PipeAll) && commandsOf(c.X, p) && commandsOf(c.Y, p)
	case *syntax.CallExpr:
		var words []string
		for _, w := range c.Args {
			t, ok := wordText(w)
			if !ok {
				return false
			}
			words = append(words, t)
		}
		if len(words) == 0 {
			return false
		}
		*p = append(*p, words)
		return true
	}
	return false
}

// inForeground reports whether the shell waits for a statement and none of its output goes to a
// file.
func inForeground(s *syntax.Stmt) bool {
	if s.Negated || s.Background || s.Coprocess {
		return false
	}
	for _, r := range s.Redirs {
		to := ""
		if r.Word != nil {
			to, _ = literal(r.Word)
		}
		fd := ""
		if r.N != nil {
			fd = r.N.Value
		}
		switch {
		case r.Op == syntax.RdrIn && to == "/dev/null":
		case r.Op == syntax.RdrOut && fd == "2" && to == "/dev/null":
		case r.Op == syntax.DplOut && fd == "2" && to == "1":
		default:
			return false
		}
	}
	return true
}

// wordText returns a word without its quotes.
func wordText(w *syntax.Word) (string, bool) {
	var b strings.Builder
	for _, part := range w.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			b.WriteString(strings.ReplaceAll(part.Value, `\`, ""))
		case *syntax.SglQuoted:
			b.WriteString(part.Value)
		case *syntax.DblQuoted:
			for _, q := range part.Parts {
				switch q := q.(type) {
				case *syntax.Lit:
					b.WriteString(q.Value)
				case *syntax.ParamExp:
					b.WriteString(Unknown)
				case *syntax.CmdSubst:
					if !printsDocument(q) {
						return "", false
					}
					b.WriteString(Unknown)
				default:
					return "", false
				}
			}
		case *syntax.ParamExp, *syntax.ExtGlob, *syntax.BraceExp:
			b.WriteString(Unknown)
		default:
			return "", false
		}
	}
	return b.String(), true
}

// printsDocument reports whether a substitution has the form $(cat <<EOF …), the usual way to write
// several lines as one word.
func printsDocument(s *syntax.CmdSubst) bool {
	if len(s.Stmts) != 1 || len(s.Stmts[0].Redirs) != 1 || s.Stmts[0].Redirs[0].Hdoc == nil {
		return false
	}
	c, ok := s.Stmts[0].Cmd.(*syntax.CallExpr)
	if !ok || len(c.Args) != 1 {
		return false
	}
	name, ok := literal(c.Args[0])
	return ok && name == "cat"
}
