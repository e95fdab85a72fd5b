package hooks

import "testing"

func TestParseShow(t *testing.T) {
	is := map[string]shown{
		`cat a.go`:                       {file: "a.go", first: 1},
		`cat -- -x`:                      {file: "-x", first: 1},
		`cat 'a b.go'`:                   {file: "a b.go", first: 1},
		`cat "a b.go"`:                   {file: "a b.go", first: 1},
		`cat src/"x".go`:                 {file: "src/x.go", first: 1},
		`cd sub && cat a.go`:             {dir: "sub", file: "a.go", first: 1},
		`head a.go`:                      {file: "a.go", first: 1, last: 10},
		`head -n 5 a.go`:                 {file: "a.go", first: 1, last: 5},
		`head -n5 a.go`:                  {file: "a.go", first: 1, last: 5},
		`head -5 a.go`:                   {file: "a.go", first: 1, last: 5},
		`head --lines=5 a.go`:            {file: "a.go", first: 1, last: 5},
		`tail a.go`:                      {file: "a.go", tail: 10},
		`tail -n 5 a.go`:                 {file: "a.go", tail: 5},
		`tail -n +5 a.go`:                {file: "a.go", first: 5},
		`sed -n 10,20p a.go`:             {file: "a.go", first: 10, last: 20},
		`sed -n '10,$p' a.go`:            {file: "a.go", first: 10},
		`sed -n '10,+4p' a.go`:           {file: "a.go", first: 10, last: 14},
		`sed -n -e 10p a.go`:             {file: "a.go", first: 10, last: 10},
		`sed -n '20,10p' a.go`:           {file: "a.go", first: 20, last: 20},
		"cat a.go # the whole of it\n":   {file: "a.go", first: 1},
		`cat /abs/a.go`:                  {file: "/abs/a.go", first: 1},
		"\n  sed -n \"1,5p\" a.go  \n\n": {file: "a.go", first: 1, last: 5},
	}
	for cmd, want := range is {
		if got, ok := parseShow(cmd); !ok || got != want {
			t.Errorf("%q: %+v, %v; want %+v", cmd, got, ok, want)
		}
	}
	not := []string{
		``, `cat`, `cat a b`, `cat -n a`, `cat a | head`, `cat a > b`, `cat < a`, `cat $F`, `cat *.go`, `cat a{b,c}`,
		`cat ~/a`, `cat "$F"`, `cat $(ls)`, "cat `ls`", `! cat a`, `cat a &`, `cat a; ls`, `cat a && ls`, `X=1 cat a`,
		`cat a\ b`, `cat -`, `cat /dev/stdin`, `cat $'a\n'`, `head -c 5 a`, `head -n -5 a`, `head -n 0 a`, `head -n 5k a`,
		`tail -f a`, `tail -n 5 -f a`, `tail -c 5 a`, `sed -n 5p`, `sed 5p a`, `sed -i -n 5p a`, `sed -n '/x/p' a`,
		`sed -n '5,10p;12p' a`, `sed -n '5,10p' a b`, `sed -ne 5p a`, `sed -n '0,5p' a`, `sed -n '5!p' a`, `sed -n '5,+p' a`,
		`sed -n '+5p' a`, `sed -n '$p' a`, `cd a; cat b`, `cd a || cat b`, `cd - && cat b`, `cd && cat b`, `cd a && cd b && cat c`,
		`(cat a)`, `{ cat a; }`, `if true; then cat a; fi`, `time cat a`, `sudo cat a`, "cat <<EOF\nx\nEOF", `cat a 2>/dev/null`,
		`function cat() { rm a; }; cat a`, `cat 'unclosed`,
	}
	for _, cmd := range not {
		if got, ok := parseShow(cmd); ok {
			t.Errorf("%q counts as %+v", cmd, got)
		}
	}
}

func FuzzParseShow(f *testing.F) {
	f.Add(`cat a`)
	f.Add(`cd "x" && sed -n '1,+2p' 'a b'`)
	f.Fuzz(func(t *testing.T, cmd string) {
		s, ok := parseShow(cmd)
		if ok && (s.file == "" || s.tail == 0 && s.first < 1 || s.last > 0 && s.last < s.first || s.tail < 0) {
			t.Errorf("%q: %+v", cmd, s)
		}
	})
}
