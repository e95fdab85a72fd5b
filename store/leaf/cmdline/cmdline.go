// Package cmdline prepares command lines for storage and display. It removes secrets and limits the
// length to a kilobyte. mountd uses it for the command lines of processes, and the daemon for the
// commands that agents report.
//
// It masks the value of an option, variable or header whose name indicates a secret, tokens of a
// well-known form, and passwords in addresses. If a command refers to a file that may hold secrets
// ([ignore.Secret]), it may write a secret into that file. Everything except the program, its
// options and the names of such files is then masked. When in doubt, the rules mask. They cannot
// find a secret that looks like an ordinary word in an ordinary place.
package cmdline

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/text"
)

// Max is the largest length of a stored command line, in bytes.
const Max = 1 << 10

// Hidden replaces a secret.
const Hidden = "***"

// More ends a truncated command line.
const More = "…"

// secretName matches the part of an option's, variable's or header's name that indicates a secret.
const secretName = `(?:pass(?:wor[dt]|wd|phrase|code)|passwd|secret|token|api[_-]?key|access[_-]?key|auth[_-]?key|private[_-]?key|signing[_-]?key|encryption[_-]?key|credential|bearer|cookie)`

var (
	// shapes matches tokens that have a recognisable form.
	shapes = text.LazyRegexp(`(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{12,}|sk-[A-Za-z0-9_-]{16,}|(?:sk|rk|pk)_(?:live|test)_\w{10,}|xox[abeprs]-[\w-]{8,}|(?:AKIA|ASIA)[0-9A-Z]{12,}|AIza[\w-]{20,}|ya29\.[\w-]{10,}|eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?|npm_[A-Za-z0-9]{20,}|hf_[A-Za-z0-9]{16,}|pypi-[\w-]{16,}|dop_v1_\w{16,}|SG\.[\w-]{10,}\.[\w-]+|AGE-SECRET-KEY-\w+|(?s:-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)))`)
	// address matches a URL with a password or token before the host.
	address = text.LazyRegexp(`([a-zA-Z][\w+.-]*://)([^\s/@:'"]*:)?([^\s/@'"]+)@`)
	// assignment matches NAME=value, NAME: value, --name value.
	assignment = text.LazyRegexp(`(?i)([\w.-]*` + secretName + `[\w.-]*|\w+_pwd|\w+_pat|-{1,2}(?:pwd|auth|psk)|\bpwd|authorization)(["']?\s*(?:=|:(?:\s|=)?)\s*|["']\s*:\s*|\s+)((?:(?:basic|bearer|token|digest)\s+)?(?:"[^"]*"?|'[^']*'?|[^\s'"&|;)]+))`)
	// basic matches curl's -u user:password, pass matches openssl's pass:word.
	basic = text.LazyRegexp(`((?:^|\s)(?:-u\s*|--(?:proxy-)?user[ =])["']?[^\s:'"=]+:)([^\s'"]+)`)
	pass  = text.LazyRegexp(`(\bpass:)([^\s'"]+)`)
	// opaque matches long words that may be a key. Their characters are checked separately.
	opaque = text.LazyRegexp(`[A-Za-z0-9+_=-]{32,}`)
	// value matches an argument that is followed by a secret.
	value = text.LazyRegexp(`(?i)^-{1,2}[\w.-]*(?:` + secretName + `|pwd\b|\bauth\b|\bpsk\b)[\w.-]*$`)
)

// short lists programs with a short option for a password. The password is attached to the option
// or is the next argument.
var short = map[string]string{
	"mysql": "-p", "mysqldump": "-p", "mysqladmin": "-p", "mariadb": "-p", "mariadb-dump": "-p", "sshpass": "-p", "docker": "-p", "podman": "-p",
	"redis-cli": "-a", "smbclient": "-U", "ldapsearch": "-w", "ldapmodify": "-w", "ldapadd": "-w", "mongo": "-p", "mongosh": "-p", "mongodump": "-p", "wget": "--password",
	"unzip": "-P", "zip": "-P", "7z": "-p", "htpasswd": "-b", "bcp": "-P", "sqlcmd": "-P",
}

// beforeSecret lists options that many programs have and that may be followed by a secret.
var beforeSecret = []string{"-u", "--user", "--proxy-user", "-H", "--header"}

// Mask returns the arguments with secrets replaced by Hidden.
func Mask(args []string) []string {
	out := make([]string, len(args))
	secretFile := false
	for i, a := range args {
		out[i] = word(a)
		if i > 0 && (ignore.Secret(trim(a)) || strings.Contains(out[i], "=") && ignore.Secret(trim(a[strings.Index(a, "=")+1:]))) {
			secretFile = true
		}
	}
	if len(args) == 0 {
		return out
	}
	option, script := short[path.Base(args[0])], scriptOf(args)
	for i := 1; i < len(args); i++ {
		a := args[i]
		switch {
		case value().MatchString(a) && i+1 < len(args), option != "" && a == option && i+1 < len(args):
			i++
			out[i] = Hidden
		case len(option) == 2 && strings.HasPrefix(a, option) && len(a) > 2:
			out[i] = option + Hidden
		case slices.Contains(beforeSecret, a) && i+1 < len(args):
			i++
			out[i] = second(a, args[i])
		case i == script:
		case secretFile && !strings.HasPrefix(a, "-") && !ignore.Secret(trim(a)):
			out[i] = Hidden
		case secretFile && strings.HasPrefix(a, "-") && strings.Contains(a, "=") && !ignore.Secret(trim(a[strings.Index(a, "=")+1:])):
			out[i] = a[:strings.Index(a, "=")+1] + Hidden
		}
	}
	return out
}

// second masks the argument after an option of beforeSecret: a header after -H, or a user name,
// perhaps with a password, after -u.
func second(option, arg string) string {
	if strings.HasPrefix(strings.ToLower(option), "-h") || option == "--header" {
		return Text(arg)
	}
	if user, _, ok := strings.Cut(arg, ":"); ok {
		return user + ":" + Hidden
	}
	return word(arg)
}

// word masks the secrets in one argument, which may be a script.
func word(a string) string {
	if strings.ContainsAny(a, " \t\n") {
		return Text(a)
	}
	return patterns(a)
}

func patterns(s string) string {
	s = shapes().ReplaceAllString(s, Hidden)
	s = address().ReplaceAllStringFunc(s, func(m string) string {
		p := address().FindStringSubmatch(m)
		if p[2] == "" && (p[3] == "git" || len(p[3]) < 8) {
			return m // only a user name
		}
		return p[1] + p[2] + Hidden + "@"
	})
	s = basic().ReplaceAllString(s, "${1}"+Hidden)
	s = pass().ReplaceAllString(s, "${1}"+Hidden)
	s = assignment().ReplaceAllStringFunc(s, func(m string) string {
		p := assignment().FindStringSubmatch(m)
		if strings.TrimSpace(p[2]) == "" && !strings.HasPrefix(p[1], "-") {
			return m // two words, as in "token bucket"
		}
		return p[1] + p[2] + Hidden
	})
	return opaque().ReplaceAllStringFunc(s, func(m string) string {
		if strings.ContainsAny(m, "0123456789") && strings.ContainsAny(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") && strings.ContainsAny(m, "abcdefghijklmnopqrstuvwxyz") {
			return Hidden
		}
		return m
	})
}

// Text returns a shell command, or a sentence, with secrets replaced by Hidden.
func Text(s string) string {
	parts := cut(shapes().ReplaceAllString(s, Hidden), ";|&\n", true) // commands
	for i, p := range parts {
		var secretFile bool
		parts[i], secretFile = command(p)
		if secretFile && strings.Contains(p, "<<") && i+1 < len(parts) {
			return strings.Join(parts[:i+1], "") + Hidden // the here-document that follows is written into the file
		}
	}
	return strings.Join(parts, "")
}

// command masks one simple command of a script, and keeps the separator after it. secretFile
// reports whether the command refers to a file with secrets.
func command(s string) (masked string, secretFile bool) {
	words := cut(s, " \t\n", false) // and the separators between them
	program := -1
	for i, w := range words {
		if strings.TrimSpace(w) == "" {
			continue
		}
		if program < 0 && !strings.Contains(w, "=") {
			program = i
		}
		t := trim(w)
		if ignore.Secret(t) || strings.Contains(t, "=") && ignore.Secret(t[strings.LastIndexByte(t, '=')+1:]) {
			secretFile = true
		}
	}
	option := ""
	if program >= 0 {
		option = short[path.Base(trim(words[program]))]
	}
	next := false
	for i, w := range words {
		t := trim(w)
		switch {
		case strings.TrimSpace(w) == "":
		case next:
			words[i], next = Hidden, false
		case i == program:
		case option != "" && t == option, value().MatchString(t):
			next = true
		case option != "" && len(option) == 2 && strings.HasPrefix(t, option) && !strings.HasPrefix(t, "--"):
			words[i] = option + Hidden
		case secretFile && !strings.HasPrefix(t, "-") && !ignore.Secret(t) && strings.Trim(t, "<>|&;()0123456789") != "":
			words[i] = Hidden
		}
	}
	return patterns(strings.Join(words, "")), secretFile
}

// trim strips quotes and redirections from a word.
func trim(w string) string { return strings.Trim(w, `"'<>()&;|`) }

func cut(s, at string, keep bool) []string {
	var out []string
	quote := byte(0)
	start := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '\\':
			i++
		case strings.IndexByte(at, c) >= 0:
			if keep {
				out = append(out, s[start:i+1])
			} else {
				if i > start {
					out = append(out, s[start:i])
				}
				out = append(out, s[i:i+1])
			}
			start = i + 1
		}
	}
	if start < len(s) {
		out = append(out, s[start:])
	}
	return out
}

// Pack joins arguments with NUL, in at most [Max] bytes. cut means that some arguments are already
// missing.
func Pack(args []string, cut bool) string {
	var b strings.Builder
	for i, a := range args {
		room := Max - b.Len() - len(More) - 2
		if len(a) > room {
			if i <= 2 { // store at least the beginning of a script
				a = strings.ToValidUTF8(a[:max(min(room, len(a)), 0)], "")
				b.WriteString(sep(i) + a)
			}
			cut = true
			break
		}
		b.WriteString(sep(i) + a)
	}
	if cut {
		b.WriteString(sep(b.Len()) + More)
	}
	return b.String()
}

func sep(i int) string {
	if i == 0 {
		return ""
	}
	return "\x00"
}

// Unpack reverses Pack. Older versions stored a command line as one text, which becomes one
// argument.
func Unpack(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "\x00")
}

// shells lists programs that take a script with -c.
var shells = map[string]bool{"sh": true, "bash": true, "zsh": true, "dash": true, "ksh": true, "fish": true, "ash": true}

// IsShell reports whether a program, given by its path or first argument, is a shell.
func IsShell(program string) bool { return shells[strings.TrimPrefix(path.Base(program), "-")] }

// scriptOf returns the index of the argument that is a shell's script, or 0.
func scriptOf(args []string) int {
	if !IsShell(args[0]) {
		return 0
	}
	for i := 1; i+1 < len(args) && strings.HasPrefix(args[i], "-"); i++ {
		if !strings.HasPrefix(args[i], "--") && strings.HasSuffix(args[i], "c") {
			return i + 1
		}
	}
	return 0
}

// Show returns a command as a user would type it, in about width bytes. For a shell it returns the
// script. It shortens long lists of arguments.
func Show(args []string, width int) string {
	if len(args) == 0 {
		return ""
	}
	if i := scriptOf(args); i > 0 {
		return Line(args[i], width)
	}
	var b strings.Builder
	program := path.Base(args[0])
	b.WriteString(quoted(strings.TrimPrefix(program, "-")))
	for i, a := range args[1:] {
		left := len(args) - 1 - i
		w := " " + quoted(a)
		if a == More {
			b.WriteString(" " + More)
			break
		}
		if left > 1 && b.Len()+len(w) > width-10 || b.Len()+len(w) > width {
			if i == 0 || left == 1 { // one long word
				b.WriteString(Line(w, max(width-b.Len(), 16)))
				left--
			}
			if left > 0 {
				if args[len(args)-1] == More {
					b.WriteString(" " + More)
				} else {
					b.WriteString(" " + More + " (" + strconv.Itoa(left) + " more)")
				}
			}
			break
		}
		b.WriteString(w)
	}
	return b.String()
}

func quoted(w string) string {
	if w != "" && !strings.ContainsAny(w, " \t\n'\"\\$`|&;()<>!#") {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

// Line returns a script on one line of about width bytes. It joins lines with "; " and cuts a long
// result between two characters.
func Line(s string, width int) string {
	lead := ""
	if strings.HasPrefix(s, " ") {
		lead = " "
	}
	var parts []string
	for line := range strings.Lines(s) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") {
			parts = append(parts, line)
		}
	}
	return Cut(lead+strings.Join(parts, "; "), width)
}

// Cut returns the beginning of a text, about width bytes. It cuts a longer text between two
// characters and appends More.
func Cut(s string, width int) string {
	if len(s) <= width {
		return s
	}
	n := max(width-len(More), 0)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.TrimRight(s[:n], " ") + More
}
