package mcp

import (
	"context"
	"errors"
	"slices"
	"strings"

	"net/url"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"cachebro/store/wire"
)

const (
	uriStatus  = "cachebro://status"
	uriSet     = "cachebro://working-set"
	uriMetrics = "cachebro://metrics"
	uriHistory = "cachebro://history/"
)

// maxHistories is how many files changed by our tools are listed as resources.
const maxHistories = 20

// addResources registers resources with the information of some tools. The client itself reads a
// resource, so it needs no schema in the model's context.
func (s *Server) addResources() {
	for _, r := range []struct{ uri, name, desc string }{
		{uriStatus, "status", "Files tracked, tokens saved, mount and store"},
		{uriSet, "working-set", "Files touched, with edit counts and times"},
		{uriMetrics, "metrics", "Tokens per tool"},
	} {
		s.rpc.AddResource(mcp.NewResource(r.uri, r.name, mcp.WithResourceDescription(r.desc), mcp.WithMIMEType("text/plain")), s.readResource)
	}
	tmpl := mcp.NewResourceTemplate(uriHistory+"{+path}", "history",
		mcp.WithTemplateDescription("Versions of one file, oldest first"), mcp.WithTemplateMIMEType("text/plain"))
	s.rpc.AddResourceTemplate(tmpl, s.readResource)
}

func (s *Server) readResource(ctx context.Context, req mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	t, err := s.resource(ctx, req.Params.URI)
	if err != nil {
		if h := wire.Hint(err); h != "" {
			err = errors.New(err.Error() + " (" + h + ")")
		}
		return nil, err
	}
	return []mcp.ResourceContents{mcp.TextResourceContents{URI: req.Params.URI, MIMEType: "text/plain", Text: t}}, nil
}

func (s *Server) resource(ctx context.Context, uri string) (string, error) {
	switch uri {
	case uriStatus:
		st, err := s.status(ctx)
		if err != nil {
			return "", err
		}
		return st.String(), nil
	case uriSet:
		ws, err := s.workingSet(ctx, s.conn(ctx))
		if err != nil {
			return "", err
		}
		return s.workingSetText(ws), nil
	case uriMetrics:
		m, err := s.metrics(ctx, wire.MetricsQuery{})
		if err != nil {
			return "", err
		}
		return metricsText(m), nil
	}
	p, ok := strings.CutPrefix(uri, uriHistory)
	if !ok {
		return "", badInput("no resource "+quote(uri), "resources/list names them")
	}
	if dec, err := url.PathUnescape(p); err == nil {
		p = dec
	}
	if p == "" {
		return "", badInput("the path is missing", uriHistory+"src/main.go")
	}
	rel, err := s.resolve(p)
	if err != nil {
		return "", err
	}
	q := wire.LogQuery{Limit: 200, Baselines: true, Path: []byte(rel)}
	vs, gaps, err := s.history(ctx, q, "", nil)
	if err != nil {
		return "", err
	}
	return s.historyText(vs, gaps, p), nil
}

// listHistory adds a file that one of our tools changed to resources/list, which holds the newest
// maxHistories. mcp-go notifies clients.
func (s *Server) listHistory(rel string) {
	if s != s.start {
		return // a resource's URI names no project
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.listed, rel) {
		return
	}
	s.listed = append(s.listed, rel)
	var old []string
	if n := len(s.listed) - maxHistories; n > 0 {
		old = s.listed[:n]
		s.listed = slices.Clone(s.listed[n:])
	}
	for i := range old {
		old[i] = historyURI(old[i])
	}
	if len(old) > 0 {
		s.rpc.DeleteResources(old...)
	}
	r := mcp.NewResource(historyURI(rel), "history of "+quote(rel), mcp.WithMIMEType("text/plain"))
	s.rpc.AddResources(server.ServerResource{Resource: r, Handler: s.readResource})
}

func historyURI(rel string) string {
	return uriHistory + (&url.URL{Path: rel}).EscapedPath()
}
