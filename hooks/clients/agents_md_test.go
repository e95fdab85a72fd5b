package clients

import (
	"strings"
	"testing"
)

func TestAgentsSection(t *testing.T) {
	for _, text := range []string{"", "# Mine\n", "# Mine", "a\r\nb\r\n", "\n\n", "x\n\n"} {
		added, err := section{}.Add([]byte(text))
		if err != nil || !strings.Contains(string(added), "## cachebro") {
			t.Fatalf("%q: %v", text, err)
		}
		if again, err := (section{}).Add(added); err != nil || string(again) != string(added) {
			t.Errorf("%q: not the same twice: %v", text, err)
		}
		back, err := section{}.Remove(added, []byte(text))
		if err != nil || strings.TrimRight(string(back), "\r\n") != strings.TrimRight(text, "\r\n") {
			t.Errorf("%q came back as %q, %v", text, back, err)
		}
	}
	for _, bad := range []string{sectionBegin + "\n", sectionEnd + "\n" + sectionBegin, sectionBegin + sectionBegin + sectionEnd} {
		if _, err := (section{}).Add([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
