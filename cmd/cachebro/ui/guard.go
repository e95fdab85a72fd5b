package ui

import (
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
	"slices"
	"strings"
)

// guard lets in only the browser that was opened with the token.
//
// Other local users can reach the port too. So can every page that the browser shows, by the port's
// number or by a name that resolves to 127.0.0.1. The guard therefore works as follows:
//
//   - The token is sent once, in the first address. It becomes a cookie that scripts cannot read
//     and other sites cannot send.
//   - The Host must be this server's, which a page under another name cannot send.
//   - A request that changes something must come from one of these pages (Origin), with a second
//     secret that only they have.
//   - The cookie is for a path that cannot be guessed, because a browser sends the cookies of
//     127.0.0.1 to all of its ports.
type guard struct {
	token  string // part of the first address
	cookie string // replaces the token
	csrf   string // part of the pages
	base   string // the path below which all pages are, "/…/"
	hosts  []string
}

// newGuard makes the secrets for a server at an address.
func newGuard(addr *net.TCPAddr) *guard {
	g := &guard{token: rand.Text(), cookie: rand.Text(), csrf: rand.Text(), base: "/" + rand.Text()[:16] + "/"}
	_, port, _ := net.SplitHostPort(addr.String())
	g.hosts = []string{"127.0.0.1:" + port, "localhost:" + port}
	return g
}

const (
	cookieName = "cachebro"
	csrfHeader = "X-Cachebro"
	maxForm    = 1 << 20
)

// first returns the address for the person who started the server.
func (g *guard) first() string { return "http://" + g.hosts[0] + "/?token=" + g.token }

// policy is the content security policy. It allows only scripts that are files on this server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// wrap serves the pages below the base to requests that may see them.
func (g *guard) wrap(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !slices.Contains(g.hosts, r.Host) {
			http.Error(w, "this host name is not allowed", http.StatusForbidden)
			return
		}
		if r.URL.Path == "/" && r.Method == http.MethodGet && r.URL.Query().Has("token") {
			if !same(r.URL.Query().Get("token"), g.token) {
				http.Error(w, "the token is wrong; open the address that cachebro ui printed", http.StatusForbidden)
				return
			}
			http.SetCookie(w, &http.Cookie{Name: cookieName, Value: g.cookie, Path: g.base, HttpOnly: true, SameSite: http.SameSiteStrictMode})
			// After a redirect the browser would treat the next request as sent by the page with
			// the link, and would not send the cookie. So the answer is a page of this server that
			// loads the next one.
			h.Set("Content-Type", "text/html; charset=utf-8")
			h.Set("Refresh", "0; url="+g.base)
			_, _ = w.Write([]byte("<!doctype html><title>cachebro</title>\n"))
			return
		}
		c, err := r.Cookie(cookieName)
		if err != nil || !same(c.Value, g.cookie) || !strings.HasPrefix(r.URL.Path, g.base) {
			http.Error(w, "no access; open the address that cachebro ui printed, which contains the token", http.StatusForbidden)
			return
		}
		if !g.fromUs(r) {
			http.Error(w, "this request does not come from a page of cachebro ui", http.StatusForbidden)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		http.StripPrefix(strings.TrimSuffix(g.base, "/"), pages).ServeHTTP(w, r)
	})
}

// fromUs reports whether a request comes from one of these pages, or from a person who typed the
// address. A request that changes something must name its page and contain the second secret.
func (g *guard) fromUs(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && (site != "none" || r.Method != http.MethodGet) {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin != "" && origin != "http://"+r.Host {
		return false
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return true
	case http.MethodPost:
		return origin != "" && same(r.Header.Get(csrfHeader), g.csrf)
	}
	return false
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
