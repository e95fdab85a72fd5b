package shell

import (
	"fmt"
	"testing"
)

func TestPipelines(t *testing.T) {
	for cmd, want := range map[string]string{
		`rg -n foo src`:                               `[[[rg -n foo src]]]`,
		`cd x && grep -rn "a b" . | head -5`:          `[[[cd x]] [[grep -rn a b .] [head -5]]]`,
		`rg a; echo ---; rg b 2>/dev/null`:            `[[[rg a]] [[echo ---]] [[rg b]]]`,
		`time go test -v ./... 2>&1 | tail -20`:       `[[[go test -v ./...] [tail -20]]]`,
		`npm test || true`:                            `[[[npm test]] [[true]]]`,
		`find . -name '*.go' \( -type f \)`:           `[[[find . -name *.go ( -type f )]]]`,
		`ls -l $HOME/x`:                               "[[[ls -l \x00/x]]]",
		"git commit -m \"$(cat <<'E'\na\n\nb\nE\n)\"": "[[[git commit -m \x00]]]",
		`A=1 go vet ./...`:                            `[[[go vet ./...]]]`,
	} {
		got, ok := Pipelines(cmd)
		if s := fmt.Sprint(got); !ok || s != want {
			t.Errorf("%q: %q, %v; want %q", cmd, s, ok, want)
		}
	}
	for _, cmd := range []string{
		``, `rg a > out`, `rg a >> out`, `rg a &> out`, `rg a | tee out > b`, `rg a &`, `for f in *; do rg a $f; done`, `rg $(cat x)`, "rg `cat x`", `rg "$(cat x)"`, "rg \"$(rg a <<E\nx\nE\n)\"",
		`! rg a`, "cat <<E\nx\nE", `(rg a)`, `f() { rg a; }`, `rg a < list`, `X=1`, `diff <(rg a) <(rg b)`, `rg 'a`, `{ rg a; } 2>&1`,
	} {
		if got, ok := Pipelines(cmd); ok {
			t.Errorf("%q counts as %q", cmd, got)
		}
	}
}
