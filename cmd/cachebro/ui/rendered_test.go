package ui

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"cachebro/store/wire"
)

// TestMarkdownIsTame: the text is shown, and nothing in it is run or loaded.
func TestMarkdownIsTame(t *testing.T) {
	for _, x := range []struct{ name, text, want string }{
		{"a heading", "# A `b`\n", "<h1>A <code>b</code></h1>\n"},
		{"raw HTML in a line", "a <img src=x onerror=alert(1)> b\n", "<p>a &lt;img src=x onerror=alert(1)&gt; b</p>\n"},
		{"a block of it", "<script>\nalert(1)\n</script>\n", "<pre><code>&lt;script&gt;\nalert(1)\n&lt;/script&gt;\n</code></pre>\n"},
		{"a link that runs", "[x](javascript:alert(1))\n", "<p>x</p>\n"},
		{"one in brackets", "<javascript:alert(1)>\n", "<p>javascript:alert(1)</p>\n"},
		{"data", "[x](data:text/html,y) <vbscript:x>\n", "<p>x vbscript:x</p>\n"},
		{"another site", "[x](https://example.org/?a=1&b=2)\n", `<p><a href="https://example.org/?a=1&amp;b=2">x</a></p>` + "\n"},
		{"without a scheme", "[x](//example.org/y)\n", "<p>x</p>\n"},
		{"a file beside it", "[x](../web/a%20b.js#top \"t\")\n", `<p><a href="file?path=web%2Fa+b.js">x</a></p>` + "\n"},
		{"one outside", "[x](../../etc/passwd)\n", "<p>x</p>\n"},
		{"a place in the page", "[x](#plan)\n", "<p>x</p>\n"},
		{"a remote picture", "![alt *b*](https://example.org/p.png)\n", `<p><a href="https://example.org/p.png">alt <em>b</em></a></p>` + "\n"},
		{"a picture in a link", "[![](p.png)](https://example.org)\n", `<p><a href="https://example.org">picture</a></p>` + "\n"},
		{"what is not seen", "a\u202eb\n", "<p>a&lt;U+202E&gt;b</p>\n"},
		{"columns", "|a|\n|-:|\n|1|\n", "<table>\n<thead>\n<tr>\n<th align=\"right\">a</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td align=\"right\">1</td>\n</tr>\n</tbody>\n</table>\n"},
	} {
		var got strings.Builder
		for _, b := range markdown("doc/x.md", []byte(x.text)) {
			got.WriteString(string(b.Doc))
		}
		if got.String() != x.want {
			t.Errorf("%s: %q, want %q", x.name, got.String(), x.want)
		}
	}
}

// TestNotebook: cells are shown with their outputs, and an output that is not a picture is not sent
// as one.
func TestNotebook(t *testing.T) {
	png := base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\n rest"))
	text := fmt.Sprintf(`{"cells": [
		{"cell_type": "markdown", "source": ["# Title\n", "<b>x</b>"]},
		{"cell_type": "code", "source": "print(1)\nx", "outputs": [
			{"output_type": "stream", "name": "stdout", "text": ["1\n"]},
			{"output_type": "display_data", "data": {"text/plain": ["<Figure>"], "image/png": "%s\n"}},
			{"output_type": "display_data", "data": {"image/png": "PGI+"}},
			{"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\u001b[31mE\u001b[0m: v"]}]}],
		"metadata": {"language_info": {"file_extension": ".py"}}, "nbformat": 4}`, png)
	x := side{Version: wire.Version{Path: []byte("a.ipynb"), Seq: 7}, there: true, data: []byte(text)}
	all := blocksOf(x)
	if len(all) != 2 || !strings.Contains(string(all[0].Doc), "<h1>Title</h1>") || strings.Contains(string(all[0].Doc), "<b>") {
		t.Fatalf("%+v", all)
	}
	out := all[1].Out
	if len(all[1].Code) != 2 || len(out) != 4 || out[0].Lines[0] != "1" || out[1].Picture != "raw?cell=2&out=2&seq=7" || out[2].Note != "image/png, not shown" || !out[3].Bad || out[3].Lines[0] != "E: v" {
		t.Errorf("%+v", all[1])
	}
	n := notebookOf(x.data)
	if b, kind := n.pictureOf(2, 2); kind != "image/png" || len(b) != 13 {
		t.Errorf("%q %s", b, kind)
	}
	for _, at := range [][2]int{{2, 3}, {2, 1}, {0, 0}, {1, 1}, {3, 1}, {2, 9}} {
		if _, kind := n.pictureOf(at[0], at[1]); kind != "" {
			t.Errorf("%v is sent as %s", at, kind)
		}
	}
	for _, other := range []string{"", "[]", `{"cells": 1}`, `{"a": 1}`} {
		if notebookOf([]byte(other)) != nil {
			t.Errorf("%q is a notebook", other)
		}
	}
}

// TestChangedBlocks: a diff shows the removed and added blocks, and one unchanged block before and
// after them.
func TestChangedBlocks(t *testing.T) {
	of := func(keys string) (all []block) {
		for _, k := range strings.Split(keys, "") {
			all = append(all, block{key: k, Label: k})
		}
		return all
	}
	for _, x := range []struct{ old, new, want string }{
		{"abcdefgh", "abXdefgh", "… b c- X+ d …"},
		{"ab", "ab", ""},
		{"a", "ba", "b+ a"},
		{"abcdef", "bcdefg", "a- b … f g+"},
	} {
		var got []string
		for _, b := range changedBlocks(of(x.old), of(x.new)) {
			got = append(got, b.Label+map[string]string{" del": "-", " add": "+"}[b.Kind])
		}
		if s := strings.Join(got, " "); s != x.want {
			t.Errorf("%s to %s: %s, want %s", x.old, x.new, s, x.want)
		}
	}
}
