package ui

import (
	"bytes"
	"context"
	"html/template"
	"net/http"
	"net/url"
	"strconv"

	"cachebro/store/diff"
	"cachebro/store/wire"
)

// commentPart is the form for a comment on a line.
type commentPart struct {
	Where   string
	Quote   template.HTML
	Asked   template.URL // where the form is sent
	To      string
	Deaf    string // the session's client, if it cannot receive text from hooks
	Copy    string // the beginning of the comment as text
	Said    string // the typed text, if it was not saved; Problem is the reason
	Problem string
	Listed  []commentRow
}

type commentRow struct {
	Where, Text, State string
	Quote              template.HTML
	To                 template.URL
	Copy               string // the whole comment as text
}

// forPasting returns a comment in a form that can be pasted into any agent's prompt.
func forPasting(c wire.Comment) string {
	return name(c.Path) + ":" + strconv.Itoa(c.Line) + ": " + oneLine(c.Quote) + "\n" + c.Text
}

// commented finds the line that a comment is about.
func (s *server) commented(ctx context.Context, q url.Values) (c wire.Comment, err error) {
	x, err := s.sideOf(ctx, number(q, "seq"))
	if err != nil {
		return c, err
	}
	lines := diff.Compare(nil, x.data).New
	n, _ := strconv.Atoi(q.Get("line"))
	if n < 1 || n > len(lines) || x.Actor.Session == "" {
		return c, wire.Errorf(wire.ErrBadRequest, "", "comments can be made only on lines that a session wrote")
	}
	quote := bytes.TrimSpace(lines[n-1])
	return wire.Comment{Session: x.Actor.Session, Path: x.Path, Seq: x.Seq, Line: n, Quote: string(quote[:min(len(quote), 200)])}, nil
}

func (s *server) commentForm(ctx context.Context, q url.Values) (any, error) {
	c, err := s.commented(ctx, q)
	if err != nil {
		return nil, err
	}
	a, err := wire.Call[wire.CommentsAnswer](ctx, s.c, wire.MComments, wire.CommentsRequest{Do: "list", Session: c.Session, Path: c.Path})
	if err != nil {
		return nil, err
	}
	return commentPart{Where: name(c.Path) + ":" + strconv.Itoa(c.Line), Quote: line([]byte(c.Quote), nil, nil), Asked: link("comment", "seq", c.Seq, "line", c.Line),
		To: "session " + oneLine(c.Session[:min(len(c.Session), 8)]), Deaf: oneLine(a.Deaf), Copy: forPasting(c)}, nil
}

// comment stores a comment for the session's next prompt.
func (s *server) comment(w http.ResponseWriter, r *http.Request) {
	err := r.ParseForm()
	var c wire.Comment
	if err == nil {
		c, err = s.commented(r.Context(), r.URL.Query())
	}
	if err == nil {
		c.Text = r.PostForm.Get("text")
		_, err = wire.Call[wire.CommentsAnswer](r.Context(), s.c, wire.MComments, wire.CommentsRequest{Do: "add", Comment: c})
	}
	if err != nil {
		form, ferr := s.commentForm(r.Context(), r.URL.Query())
		if ferr != nil {
			s.fail(w, r, err)
			return
		}
		part := form.(commentPart)
		part.Said, part.Problem = r.PostForm.Get("text"), oneLine(err.Error())
		s.render(w, r, "comment", part)
		return
	}
	s.render(w, r, "done", donePart{Text: "saved; it will be sent with the next prompt of session " + oneLine(c.Session[:min(len(c.Session), 8)])})
}

func (s *server) comments(ctx context.Context, _ url.Values) (any, error) {
	a, err := wire.Call[wire.CommentsAnswer](ctx, s.c, wire.MComments, wire.CommentsRequest{Do: "list"})
	if err != nil {
		return nil, err
	}
	var out commentPart
	for i := len(a.Comments) - 1; i >= 0; i-- {
		c := a.Comments[i]
		out.Listed = append(out.Listed, commentRow{Where: name(c.Path) + ":" + strconv.Itoa(c.Line), Text: c.Text, State: s.stateOf(c), Quote: line([]byte(c.Quote), nil, nil), Copy: forPasting(c),
			To: link("file", "path", string(c.Path), "seq", c.Seq, "view", "change")})
	}
	return out, nil
}

func (s *server) stateOf(c wire.Comment) string {
	switch {
	case !c.Delivered.IsZero():
		return "delivered " + s.timeText(c.Delivered)
	case !c.Claimed.IsZero():
		return "sent " + s.timeText(c.Claimed) + "; the next prompt shows whether it arrived"
	}
	return "will be sent with the session's next prompt"
}

// commentsAt returns the comments on one version, by line.
func (s *server) commentsAt(ctx context.Context, v wire.Version) map[int][]commentRow {
	a, err := wire.Call[wire.CommentsAnswer](ctx, s.c, wire.MComments, wire.CommentsRequest{Do: "list", Session: v.Actor.Session, Path: v.Path})
	if err != nil {
		return nil
	}
	out := map[int][]commentRow{}
	for _, c := range a.Comments {
		if c.Seq == v.Seq {
			out[c.Line] = append(out[c.Line], commentRow{Text: c.Text, State: s.stateOf(c)})
		}
	}
	return out
}
