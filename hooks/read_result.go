package hooks

import (
	"context"
	"encoding/json"
	"maps"
	"unicode/utf8"

	"cachebro/store/wire"
)

// The forms in which the client's Read and Bash deliver a file.
const (
	renderRead = "cc-read/1"
	renderBash = "raw/1" // the client trims white space; a text that lost lines at its beginning matches no version
)

// readFile is the "file" of the client's own Read result.
type readFile struct {
	FilePath   string `json:"filePath"`
	Content    string `json:"content"`
	NumLines   int    `json:"numLines"`
	StartLine  int    `json:"startLine"`
	TotalLines int    `json:"totalLines"`
}

// withLines returns the client's result with other lines. All other fields stay, because a client
// refuses a result that lacks one. A result without lines (file_unchanged) becomes one with lines.
func withLines(own fields, f readFile) fields {
	out, file := fields{}, fields{}
	if own.str("type") == "text" {
		out, file = maps.Clone(own), maps.Clone(own.object("file"))
	}
	b, err := json.Marshal(f)
	if err != nil || json.Unmarshal(b, &file) != nil {
		return nil
	}
	out["file"], err = json.Marshal(file)
	if err != nil {
		return nil
	}
	out["type"] = json.RawMessage(`"text"`)
	return out
}

// readResult handles a result of the built-in Read. It tells the daemon which text is about to be
// delivered. The text is pending until PostToolBatch confirms it. The daemon answers whether it can
// be replaced by a stub or by the changed lines. Images, PDFs, notebooks and cut results have other
// shapes and stay as they are.
func (c *call) readResult(ctx context.Context) answer {
	path, ok := c.relative(c.input.str("file_path"))
	if !ok || c.toolUse == "" {
		return answer{}
	}
	req := wire.ReadRequest{Reader: c.reader(), Path: []byte(path), Tool: "Read", Pending: true}
	rendering := renderRead
	if c.opt.client != "" {
		rendering = renderBash // raw lines; whether the last one ends in a newline is unknown
	}
	req.Offset, _ = c.input.number("offset")
	req.Limit, _ = c.input.number("limit")
	var body string
	switch c.response.str("type") {
	case "text":
		f, ok := plainRead(c.response.object("file"))
		if !ok {
			return answer{}
		}
		body = f.Content
		req.Rewrite = &wire.Rewrite{Rendering: rendering, StartLine: f.StartLine, NumLines: f.NumLines}
	case "file_unchanged":
		req.Rewrite = &wire.Rewrite{Rendering: renderRead, ClientUnchanged: true}
	default:
		return answer{}
	}
	text, ans := c.askRead(ctx, req, body)
	return c.rewriteRead(ans, text, body)
}

// askRead tells the daemon which text is about to be delivered, and returns its decision. The zero
// decision leaves the text as it is.
func (c *call) askRead(ctx context.Context, req wire.ReadRequest, body string) (text string, ans wire.ReadAnswer) {
	if c.opt.noRewrite || !c.checkChain(ctx) {
		if body != "" {
			s := wire.Shown{Reader: req.Reader, Path: req.Path, Rendering: req.Rewrite.Rendering, StartLine: req.Rewrite.StartLine, NumLines: req.Rewrite.NumLines}
			_, _ = c.ask(ctx, wire.MShown, s, []byte(body), nil)
		}
		return "", ans
	}
	req.Context = c.readLosses()
	b, err := c.ask(ctx, wire.MRead, req, []byte(body), &ans)
	if err != nil {
		return "", wire.ReadAnswer{}
	}
	return string(b), ans
}

// rewriteRead puts the daemon's decision into the shape of the tool's own result. body is the
// client's text, or "" if the client reported the file as unchanged.
func (c *call) rewriteRead(ans wire.ReadAnswer, text, body string) answer {
	name := c.input.str("file_path")
	clientUnchanged := body == ""
	how := formLines
	switch ans.Kind {
	case wire.ReadUnchanged:
		// The stub is not a line of the file, so its number is 0.
		how = formStub
		ans.Start, ans.NumLines = 0, 1
		if clientUnchanged || text == "" || len(text) >= len(body) {
			return answer{}
		}
	case wire.ReadSpan:
		if text == "" || !clientUnchanged && len(text)+len(ans.Note) >= len(body) {
			return answer{}
		}
	case wire.ReadFull:
		// The client reported the file as unchanged, but this reader lacks its text.
		if text == "" || !clientUnchanged {
			return answer{}
		}
	default:
		return answer{}
	}
	noNumber := how == formLines && ans.Start < 1
	if !utf8.ValidString(text) || noNumber || ans.NumLines < 1 || c.refuses(how) {
		return answer{}
	}
	updated := withLines(c.response, readFile{name, text, ans.NumLines, ans.Start, ans.TotalLines})
	return answer{out: output{updated: updated, context: ans.Note}, sent: func() { sent{ToolUse: c.toolUse, Form: how}.note(c) }}
}

// plainRead decodes a result that contains only lines of a text file. It returns false if there is
// an unknown field, such as truncatedByTokenCap.
func plainRead(f fields) (readFile, bool) {
	var r readFile
	var okN, okS, okT bool
	r.FilePath, r.Content = f.str("filePath"), f.str("content")
	r.NumLines, okN = f.number("numLines")
	r.StartLine, okS = f.number("startLine")
	r.TotalLines, okT = f.number("totalLines")
	for name, v := range f {
		switch name {
		case "filePath", "content", "numLines", "startLine", "totalLines":
			continue
		}
		if s := string(v); s != "false" && s != "null" {
			return readFile{}, false
		}
	}
	numbers := okN && okS && okT
	lines := r.Content != "" && r.NumLines > 0 && r.StartLine > 0
	return r, numbers && lines && r.FilePath != ""
}
