package main

import (
	"fmt"
	"strings"
	"time"

	"cachebro/cmd/cachebro/cli"
)

// The man pages are written from the same table as the help, so that neither knows a
// flag that the other does not. The packages install them ("cachebro help --man").

// page writes a man page in roff.
type page struct{ strings.Builder }

// roff escapes text: a backslash, a hyphen (which would become another sign) and what
// would be a request at the start of a line.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

func (p *page) head(name, short string) {
	date := ""
	if t, err := time.Parse(time.RFC3339, built); err == nil {
		date = t.Format("January 2006")
	}
	fmt.Fprintf(p, ".TH %s 1 %q \"cachebro %s\" cachebro\n.SH NAME\n%s \\- %s\n", roff(strings.ToUpper(name)), date, cli.Version, roff(name), roff(short))
}

// literal keeps lines as they are.
func (p *page) literal(text string) {
	p.WriteString(".PP\n.RS 4\n.nf\n")
	for _, line := range strings.Split(strings.Trim(text, "\n"), "\n") {
		p.WriteString(roff(strings.TrimPrefix(line, "  ")) + "\n")
	}
	p.WriteString(".fi\n.RE\n")
}

// paragraphs fills text; what is indented stays as it is.
func (p *page) paragraphs(text string) {
	for _, t := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		if strings.HasPrefix(t, "  ") {
			p.literal(t)
			continue
		}
		p.WriteString(".PP\n")
		for _, line := range strings.Split(t, "\n") {
			p.WriteString(roff(line) + "\n")
		}
	}
}

// commandPage is the man page of one command.
func commandPage(d described) string {
	var p page
	p.head("cachebro-"+d.Name, d.Short)
	fmt.Fprintf(&p, ".SH SYNOPSIS\n\\fBcachebro %s\\fR [\\fIFLAGS\\fR] %s\n", roff(d.Name), roff(d.Args))
	text, examples, _ := strings.Cut(d.Long, "Examples:\n")
	text = strings.TrimSpace(text)
	if text != "" {
		p.WriteString(".SH DESCRIPTION\n")
		p.paragraphs(text)
	}
	if len(d.Flags) > 0 {
		p.WriteString(".SH OPTIONS\n")
	}
	for _, f := range d.Flags {
		name := `\fB` + roff("--"+f.Name) + `\fR`
		if f.Short != "" {
			name = `\fB` + roff("-"+f.Short) + `\fR, ` + name
		}
		if f.takesValue() {
			name += `=\fI` + strings.ToUpper(f.Type) + `\fR`
		}
		usage := f.Usage
		if f.Default != "" && f.Default != "false" && f.Default != "0" && f.Default != "[]" {
			usage += " (default " + f.Default + ")"
		}
		fmt.Fprintf(&p, ".TP\n%s\n%s\n", name, roff(usage))
	}
	if examples != "" {
		p.WriteString(".SH EXAMPLES\n")
		p.literal(examples)
	}
	p.WriteString(".SH SEE ALSO\n\\fBcachebro\\fR(1)\n")
	return p.String()
}

// wholePage is the man page of cachebro.
func wholePage(all []described) string {
	var p page
	p.head("cachebro", "keeps every version of every file while you and your agents work")
	p.WriteString(".SH SYNOPSIS\n\\fBcachebro\\fR \\fICOMMAND\\fR [\\fIFLAGS\\fR] [\\fIARGUMENTS\\fR]\n.SH DESCRIPTION\n")
	p.paragraphs("cachebro mounts a FUSE overlay over a project directory, in place. It keeps every version\nof every file, knows which process or prompt made it, and takes any of it back. Agents that\nread through it are shown only what they have not seen yet.")
	group := ""
	for _, d := range all {
		if d.Group != group {
			group = d.Group
			fmt.Fprintf(&p, ".SH %s\n", strings.ToUpper(group))
		}
		fmt.Fprintf(&p, ".TP\n\\fB%s\\fR(1)\n%s\n", roff("cachebro-"+d.Name), roff(d.Short))
	}
	p.WriteString(".SH EXIT STATUS\n")
	p.paragraphs("0: done. 1: failed, or something was left and is named. 2: wrong usage, or nothing was done.")
	p.WriteString(".SH FILES\n.TP\n\\fI~/.local/state/cachebro\\fR\nthe histories; CACHEBRO_DIR overrides it\n")
	return p.String()
}
