package reshape

import (
	"slices"
	"strings"

	"cachebro/store/leaf/text"
)

// forbidden reports whether a command's words request exact output or output for another program.
// Without such words, the programs in the tables of the rules print for people.
func forbidden(words []string) bool {
	for i, w := range words {
		l := strings.ToLower(w)
		name, value, _ := strings.Cut(l, "=")
		switch name {
		case "--json", "-json", "--porcelain", "--xml", "--csv", "--tap", "-0", "-z", "--null", "-print0", "--null-data", "--pickle", "--raw", "--patch", "-p", "--patch-with-stat", "--jsonl", "--sarif":
			// npx and pytest use -p for something else, but in doubt nothing is changed.
			return true
		case "--format", "--output", "-o", "--reporter", "--reporters", "--output-format", "--log-format", "--pretty", "-f", "--formatter", "--message-format", "--template":
			if searches(words) {
				continue
			}
			if value == "" && i+1 < len(words) {
				value = strings.ToLower(words[i+1])
			}
			for _, form := range []string{"json", "xml", "yaml", "yml", "csv", "tap", "sarif", "tsv", "ndjson", "junit", "checkstyle", "diff", "patch"} {
				if strings.Contains(value, form) {
					return true
				}
			}
		}
		if strings.HasPrefix(w, "-") && strings.Contains(l, "tap-") {
			return true
		}
	}
	return false
}

// forbiddenText reports whether a text is meant for another program or for matching byte for byte:
// JSON, YAML, CSV, TAP, XML, patches.
func forbiddenText(text string) bool {
	head := strings.TrimLeft(text, " \t\r\n")
	if head == "" {
		return true
	}
	for _, p := range []string{"TAP version", "<?xml", "%YAML", "---\n", "1..", "%PDF", "<!DOCTYPE", "<html"} {
		if strings.HasPrefix(head, p) {
			return true
		}
	}
	for _, p := range []string{"diff --git ", "--- a/", "+++ b/", "@@ -", "*** Begin Patch", "Index: "} {
		if strings.HasPrefix(head, p) || strings.Contains(text, "\n"+p) {
			return true
		}
	}
	whole := strings.TrimRight(head, " \t\r\n")
	if strings.ContainsAny(whole[:1], "{[") && strings.ContainsAny(whole[len(whole)-1:], "}]") {
		return true
	}
	keys := map[string]bool{} // lines that all begin with "warning:" are not YAML
	lines, structured, oks, pairs := 0, 0, 0, 0
	commas, even := 0, true // the first line has this number of commas; so have all others
	for l := range strings.Lines(text) {
		l = strings.TrimRight(l, "\r\n")
		if l == "" {
			continue
		}
		if lines == 400 {
			break
		}
		switch {
		case strings.HasPrefix(l, `{"`), strings.HasPrefix(l, `["`):
			structured++
		case strings.HasPrefix(l, "ok ") && len(l) > 3 && l[3] >= '0' && l[3] <= '9', strings.HasPrefix(l, "not ok "):
			oks++
		}
		if key, ok := yamlPair(l); ok {
			pairs++
			keys[key] = true
		}
		n := strings.Count(l, ",")
		if lines == 0 {
			commas = n
		}
		even = even && n == commas
		lines++
	}
	yaml := 10*pairs > 9*lines && len(keys) > 3
	table := even && commas > 1 && lines > 2
	return 3*structured > lines || 2*oks > lines || yaml || table
}

// yamlPair returns the key of a line "key: value", "- key: value" or "key:".
func yamlPair(l string) (key string, ok bool) {
	t := strings.TrimLeft(l, " ")
	t = strings.TrimPrefix(t, "- ")
	key, rest, ok := strings.Cut(t, ":")
	if !ok || key == "" || rest != "" && rest[0] != ' ' {
		return "", false
	}
	return key, !strings.ContainsFunc(key, func(r rune) bool {
		return !text.IsWord(r) && r != '-'
	})
}

// secretWords occur near secrets; keyMarks are parts of secrets.
var (
	secretWords = []string{"password", "passwd", "secret", "api_key", "apikey", "api-key", "access_key", "access-key", "auth_token", "authtoken", "access_token", "bearer ", "private key", "credential"}
	keyMarks    = []string{"-----BEGIN ", "AKIA", "ASIA", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "sk-ant-", "sk-proj-", "sk_live_", "npm_", "eyJhbGci", "AIza", "pypi-AgE", "hf_"}
)

// secrets reports whether a text may contain a secret. Such a text is never stored.
func secrets(text string) bool {
	if slices.ContainsFunc(keyMarks, func(m string) bool { return strings.Contains(text, m) }) {
		return true
	}
	lower := strings.ToLower(text)
	return slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(lower, w) })
}
