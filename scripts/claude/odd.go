package main

import "strings"

// odd reads files of unusual kinds after they have changed. The answer to each read must contain
// the change or the whole text. It must never be the one-line answer that nothing has changed.
func odd(b *bench, c *checks) {
	m := b.conv("odd")
	m.do(shell(`sed 's/$/\r/' src/mid.go > src/crlf.go; printf '\357\273\277' > src/bom.go; cat src/mid.go >> src/bom.go; cp src/mid.go src/moved.go; cp src/mid.go src/end.go; ln -s mid.go src/link.go
printf '{"cells":[{"cell_type":"code","source":["first = 1\\n"],"metadata":{},"outputs":[],"execution_count":null}],"metadata":{"language_info":{"name":"python"}},"nbformat":4,"nbformat_minor":5}' > src/book.ipynb`))
	type change struct {
		what, file, command string
		want                string // part of the expected text; "" means any text except the stub
		kv                  []any
		known, told         int
	}
	cases := []*change{
		{what: "line ends", file: "src/crlf.go", command: `sed -i 's/\r$//' src/crlf.go`},
		{what: "a beginning with a byte order mark", file: "src/bom.go", command: `sed -i '1s/^...//' src/bom.go`},
		{what: "a link's target", file: "src/link.go", command: `sed -i 's/^var v1150 .*/var v1150 = -7 \/\/ odd/' src/mid.go`, want: "var v1150 = -7"},
		{what: "a file moved over it, as old", file: "src/moved.go", command: `sed 's/^var v1200 .*/var v1200 = -9 \/\/ odd/' src/moved.go > new && touch -r src/moved.go new && mv new src/moved.go`, want: "var v1200 = -9"},
		{what: "lines at the end", file: "src/end.go", command: `echo '// appended' >> src/end.go`, want: "// appended", kv: []any{"offset", 290, "limit", 100}},
		{what: "a notebook", file: "src/book.ipynb", command: `sed -i 's/first = 1/first = 2/' src/book.ipynb`, want: "first = 2"},
		{what: "a link to another file", file: "src/link.go", command: `ln -sf moved.go src/link.go`, want: "var v1200 = -9"},
	}
	for _, x := range cases {
		m.do(b.read(x.file, x.kv...))
		x.known = m.do(b.read(x.file, x.kv...))
		m.do(shell(x.command))
		x.told = m.do(b.read(x.file, x.kv...))
	}
	beyond := m.do(b.read("src/mid.go", "offset", 5000, "limit", 10))
	whole := m.do(b.read("src/mid.go"))
	m.say("finished")
	ended(c, b.with(m.ready()), "the session")
	for _, x := range cases {
		d := m.got(x.told)
		c.that(d.found && !isStub(d) && strings.Contains(d.text+d.notes, x.want), "%s: %d bytes, after %d: %s", x.what, d.size(), m.got(x.known).size(), head(d.text))
	}
	d := m.got(beyond)
	c.that(d.found && !strings.Contains(d.text, "not repeated"), "a read beyond the end: %s", head(d.text))
	d = m.got(whole)
	c.that(d.found && (isStub(d) || strings.Contains(d.text, "var v1150 = -7")), "the file after that: %d bytes: %s", d.size(), head(d.text))
}
