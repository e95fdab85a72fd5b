package shell

import (
	"testing"
)

func TestParseShow(t *testing.T) {
	is := map[string]shown{
		`cat a.go`:                       {file: "a.go", First: 1},
		`cat -- -x`:                      {file: "-x", First: 1},
		`cat 'a b.go'`:                   {file: "a b.go", First: 1},
		`cat "a b.go"`:                   {file: "a b.go", First: 1},
		`cat src/"x".go`:                 {file: "src/x.go", First: 1},
		`cd sub && cat a.go`:             {dir: "sub", file: "a.go", First: 1},
		`head a.go`:                      {file: "a.go", First: 1, Last: 10},
		`head -n 5 a.go`:                 {file: "a.go", First: 1, Last: 5},
		`head -n5 a.go`:                  {file: "a.go", First: 1, Last: 5},
		`head -5 a.go`:                   {file: "a.go", First: 1, Last: 5},
		`head --lines=5 a.go`:            {file: "a.go", First: 1, Last: 5},
		`tail a.go`:                      {file: "a.go", Tail: 10},
		`tail -n 5 a.go`:                 {file: "a.go", Tail: 5},
		`tail -n +5 a.go`:                {file: "a.go", First: 5},
		`sed -n 10,20p a.go`:             {file: "a.go", First: 10, Last: 20},
		`sed -n '10,$p' a.go`:            {file: "a.go", First: 10},
		`sed -n '10,+4p' a.go`:           {file: "a.go", First: 10, Last: 14},
		`sed -n -e 10p a.go`:             {file: "a.go", First: 10, Last: 10},
		`sed -n '20,10p' a.go`:           {file: "a.go", First: 20, Last: 20},
		"cat a.go # the whole of it\n":   {file: "a.go", First: 1},
		`cat /abs/a.go`:                  {file: "/abs/a.go", First: 1},
		`cat a.go 2>/dev/null`:           {file: "a.go", First: 1},
		`cat a.go 2>&1`:                  {file: "a.go", First: 1},
		`cat a.go | head`:                {file: "a.go", First: 1, Last: 10},
		`cat a.go 2>/dev/null | tail -3`: {file: "a.go", Tail: 3},
		`head -50 a.go | tail -n 20`:     {file: "a.go", First: 31, Last: 50},
		`sed -n '10,$p' a.go | head -5`:  {file: "a.go", First: 10, Last: 14},
		`cat a.go | sed -n 10,20p`:       {file: "a.go", First: 10, Last: 20},
		`cd x && cat a.go | head -2`:     {dir: "x", file: "a.go", First: 1, Last: 2},
		"\n  sed -n \"1,5p\" a.go  \n\n": {file: "a.go", First: 1, Last: 5},
	}
	for cmd, want := range is {
		if got, ok := ParseShow(cmd); !ok || got != want {
			t.Errorf("%q: %+v, %v; want %+v", cmd, got, ok, want)
		}
	}
	not := []string{
		``, `cat`, `cat a b`, `cat -n a`, `cat a | wc`, `cat a | head -c 5`, `cat a > b`, `cat a 2> b`, `cat a >/dev/null`, `cat a 1>&2`, `cat a 2>&3`, `nl a`, `cat a | nl`, `cat -n a | head`, `cat a | head b`, `tail -5 a | head -2`, `sed -n '5,$p' a | tail -2`, `cat a | head -3 | sed -n 5,9p`, `cat < a`, `cat $F`, `cat *.go`, `cat a{b,c}`,
		`cat ~/a`, `cat "$F"`, `cat $(ls)`, "cat `ls`", `! cat a`, `cat a &`, `cat a; ls`, `cat a && ls`, `X=1 cat a`,
		`cat a\ b`, `cat -`, `cat /dev/stdin`, `cat $'a\n'`, `head -c 5 a`, `head -n -5 a`, `head -n 0 a`, `head -n 5k a`,
		`tail -f a`, `tail -n 5 -f a`, `tail -c 5 a`, `sed -n 5p`, `sed 5p a`, `sed -i -n 5p a`, `sed -n '/x/p' a`,
		`sed -n '5,10p;12p' a`, `sed -n '5,10p' a b`, `sed -ne 5p a`, `sed -n '0,5p' a`, `sed -n '5!p' a`, `sed -n '5,+p' a`,
		`sed -n '+5p' a`, `sed -n '$p' a`, `cd a; cat b`, `cd a || cat b`, `cd - && cat b`, `cd && cat b`, `cd a && cd b && cat c`,
		`(cat a)`, `{ cat a; }`, `if true; then cat a; fi`, `time cat a`, `sudo cat a`, "cat <<EOF\nx\nEOF",
		`function cat() { rm a; }; cat a`, `cat 'unclosed`,
	}
	for _, cmd := range not {
		if got, ok := ParseShow(cmd); ok {
			t.Errorf("%q counts as %+v", cmd, got)
		}
	}
}

func FuzzParseShow(f *testing.F) {
	f.Add(`cat a`)
	f.Add(`cd "x" && sed -n '1,+2p' 'a b'`)
	f.Fuzz(func(t *testing.T, cmd string) {
		s, ok := ParseShow(cmd)
		if ok && (s.file == "" || s.Tail == 0 && s.First < 1 || s.Last > 0 && s.Last < s.First || s.Tail < 0) {
			t.Errorf("%q: %+v", cmd, s)
		}
	})
}
