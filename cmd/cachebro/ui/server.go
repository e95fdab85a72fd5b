package ui

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/wire"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed assets/*.js assets/*.css assets/*.svg
var assetFiles embed.FS

// source is the project that the pages show, with the connection to its daemon.
type source struct {
	e     *cli.Env
	t     cli.Target
	c     *wire.Client
	state string // directory
	past  recent
}

// server answers the pages' requests. Its methods may be called concurrently.
type server struct {
	source
	g     *guard
	pages *template.Template
	live  *live
	// applying is held while a plan is carried out, so that only one is carried out at a time.
	applying sync.Mutex
	seen     seenMarks
}

// recent caches the newest actions with their files, for all pages, until there is a newer version.
// Requesting them takes longer than any other request of a page.
type recent struct {
	mu     sync.Mutex // held while the actions are requested
	newest uint64     // the newest version when the actions were requested
	known  wire.Actions
}

func (s *source) recent(ctx context.Context) (wire.Actions, error) {
	s.past.mu.Lock()
	defer s.past.mu.Unlock()
	ctx = context.WithoutCancel(ctx) // the daemon finishes the request even if the page is closed
	n, err := s.newest(ctx)
	if err != nil || n > 0 && n == s.past.newest {
		return s.past.known, err
	}
	a, err := wire.Call[wire.Actions](ctx, s.c, wire.MActions, wire.ActionsQuery{Limit: recentActions, Files: laneFiles})
	if err == nil {
		s.past.newest, s.past.known = n, a
	}
	return a, err
}

func newServer(ctx context.Context, e *cli.Env, t cli.Target, c *wire.Client, g *guard, state string) (*server, error) {
	s := &server{source: source{e: e, t: t, c: c, state: state}, g: g}
	s.live = &live{ctx: ctx, s: &s.source, pages: map[chan news]bool{}}
	s.seen.file = seenFile(state)
	var err error
	s.pages, err = template.New("").Funcs(template.FuncMap{"link": link}).ParseFS(templateFiles, "templates/*.html")
	return s, err
}

// target returns the project with its present mountpoint, which may have changed since the start.
func (s *source) target() cli.Target {
	t, err := s.e.Locate(s.t.Root)
	if err != nil || t.Root != s.t.Root {
		t = cli.Target{Root: s.t.Root}
	}
	return t
}

// checkExists returns an error if the project or its history no longer exists. A request to the daemon
// would then start a new history.
func (s *source) checkExists() error {
	switch {
	case !cli.IsDir(s.t.Root):
		return errors.New("the project no longer exists")
	case !cli.IsDir(s.state):
		return errors.New("the history of this project no longer exists")
	}
	return nil
}

// routes returns the handlers of all pages. The pages are in one directory, so links between them
// can be relative.
func (s *server) routes() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /{$}", s.page("timeline", s.timeline))
	for name, answer := range map[string]answerer{"browse": s.browse, "file": s.file, "search": s.search, "savings": s.savings, "storage": empty, "health": empty, "comments": s.comments, "projects": s.projects} {
		m.HandleFunc("GET /"+name, s.page(name, answer))
	}
	for name, answer := range map[string]answerer{
		"comment": s.commentForm, "hits": s.hits, "since": s.since, "findings": s.findings, "stored": s.storage, "names": s.browse, "version": s.version,
		"actions": s.actions, "lanes": s.lanes, "files": s.actionFiles, "diff": s.diff, "plan": s.plan, "plandiff": s.planDiff, "prune": s.prunePlan, "tree": s.tree, "project": s.project,
	} {
		m.HandleFunc("GET /"+name, s.part(name, answer))
	}
	m.HandleFunc("POST /apply", s.apply)
	m.HandleFunc("POST /comment", s.comment)
	m.HandleFunc("POST /seen", s.mark)
	m.HandleFunc("POST /prune", s.prune)
	m.HandleFunc("GET /events", s.live.serve)
	m.HandleFunc("GET /raw", s.raw)
	m.HandleFunc("GET /assets/{name}", asset)
	return m
}

type answerer func(ctx context.Context, q url.Values) (any, error)

type shell struct {
	Title, Page, Project, CSRF string
	Nav                        []navItem
	Main                       any
}

type navItem struct {
	Name, Title string
	Here        bool
}

var nav = []navItem{{"./", "Timeline", false}, {"browse", "Files", false}, {"search", "Search", false}, {"comments", "Comments", false}, {"savings", "Savings", false}, {"storage", "Storage", false}, {"health", "Health", false}, {"projects", "Projects", false}}

// page answers with a whole page. If answer fails, the page shows the error instead of the content.
func (s *server) page(name string, answer answerer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		sh, show := shell{Page: name, Project: baseName(s.t.Root), CSRF: s.g.csrf}, "shell-"+name
		err := s.checkExists()
		if err == nil {
			sh.Main, err = answer(r.Context(), r.URL.Query())
		}
		if err != nil {
			p := problemOf(err, r)
			if p.Again != "" {
				w.Header().Set("Refresh", "3")
			}
			p.Again = ""
			sh.Main, show = p, "shell-problem"
		}
		for _, n := range nav {
			n.Here = n.Name == name || n.Name == "./" && name == "timeline" || n.Name == "browse" && name == "file"
			if n.Here {
				sh.Title = n.Title
			}
			sh.Nav = append(sh.Nav, n)
		}
		s.render(w, r, show, sh)
	}
}

// part answers with a piece of a page.
func (s *server) part(name string, answer answerer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := s.checkExists()
		var v any
		if err == nil {
			v, err = answer(r.Context(), r.URL.Query())
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		if p, ok := v.(addressed); ok {
			where := "HX-Push-Url"
			if r.Header.Get("HX-Trigger") == p.series() {
				where = "HX-Replace-Url"
			}
			w.Header().Set(where, string(p.address()))
		}
		s.render(w, r, name, v)
	}
}

// addressed is a part of a page with its own address, so that the back button, a reload and a
// shared link show it again.
type addressed interface {
	address() template.URL
	// series returns the id of the control, such as a slider, that requests such parts in quick
	// succession. All of them together are one step for the back button.
	series() string
}

func (s *server) render(w http.ResponseWriter, r *http.Request, name string, v any) {
	var b bytes.Buffer
	if err := s.pages.ExecuteTemplate(&b, name, v); err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes())
}

type problem struct {
	Text, Hint string
	Again      template.URL // the request to repeat after a while, whose answer replaces the error
}

// problemOf returns an error for a page. If the daemon may answer later, the page repeats the
// request.
func problemOf(err error, r *http.Request) problem {
	p := problem{Text: oneLine(err.Error()), Hint: oneLine(cli.HintOf(err))}
	passing := []error{wire.ErrNoDaemon, wire.ErrTimeout, wire.ErrLocked, wire.ErrNoSpace}
	switch {
	case errors.Is(err, wire.ErrVersion):
		p.Hint = "cachebro was updated while this page was open: end cachebro ui and start it again"
	case r.Method == http.MethodGet && slices.ContainsFunc(passing, func(e error) bool { return errors.Is(err, e) }):
		p.Again = template.URL(strings.TrimPrefix(r.URL.RequestURI(), "/"))
	}
	return p
}

// fail sends an error instead of the requested part. The status is 200, because htmx shows only such
// answers.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	var b bytes.Buffer
	if terr := s.pages.ExecuteTemplate(&b, "problem", problemOf(err, r)); terr != nil {
		http.Error(w, "cannot be shown", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes())
}

// asset sends an embedded file. These files change only with the binary.
func asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	b, err := assetFiles.ReadFile("assets/" + name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}[path.Ext(name)])
	w.Header().Set("Cache-Control", "private, max-age=3600")
	_, _ = w.Write(b)
}

// link returns the address of a page with a query of names and values. Values may contain any
// bytes. Empty texts and version number 0 are omitted.
func link(page string, args ...any) template.URL {
	q := url.Values{}
	for pair := range slices.Chunk(args, 2) {
		if name, v := pair[0], pair[1]; v != "" && v != uint64(0) {
			q.Add(fmt.Sprint(name), fmt.Sprint(v))
		}
	}
	if len(q) == 0 {
		return template.URL(page)
	}
	return template.URL(page + "?" + q.Encode())
}

// number returns a number of a query, 0 if there is none.
func number(q url.Values, name string) uint64 {
	n, _ := strconv.ParseUint(q.Get(name), 10, 64)
	return n
}

// uid is the user whose server this is.
var uid = uint32(os.Getuid())
