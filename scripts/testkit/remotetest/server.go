// Package remotetest is for tests of code that uses a bucket. It provides an object server with
// conditional writes, and faults between the server and its clients. The server is versitygw if
// CACHEBRO_VERSITYGW is the path of its program (make fleet-test), otherwise a small built-in one,
// which supports the requests that cachebro makes and ignores signatures.
package remotetest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Fault is what goes wrong with a request.
type Fault int

// The faults.
const (
	None     Fault = iota
	Error500       // the request is not carried out, and the answer is an error
	Error503
	CutBefore  // the request is not carried out, and the connection ends
	CutAfter   // the request is carried out, but the answer is lost
	Truncate   // only half of the answer is sent
	Twice      // the request is carried out twice, and the second answer is sent
	Slow       // the request is delayed a little
	Bare       // the answer has no ETag
	Skewed     // the server refuses the time of the request
	Forbidden  // the server refuses the credentials
	UnknownKey // the server does not know the credentials, and answers with an error code that only one product uses
	Faults     // number of faults
)

// The bucket and the credentials of the server.
const (
	Bucket = "histories"
	Key    = "fleet"
	Secret = "fleet-secret"
)

// Server is an object server for one test.
type Server struct {
	t   testing.TB
	url string

	inner http.Handler
	dir   string // directory of versitygw; "" if the objects are in memory
	// direct talks to versitygw without faults in between.
	direct *minio.Client

	mu      sync.Mutex
	objects map[string][]byte
	times   map[string]time.Time // when each object was written, by the server's clock
	ahead   time.Duration        // how far the server's clock is ahead of this process's clock
	fault   func(*http.Request) Fault
	asked   int
	took    int64
}

// New starts a server and sets this process's credentials for it.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, objects: map[string][]byte{}, times: map[string]time.Time{}}
	s.inner = http.HandlerFunc(s.serve)
	if bin := os.Getenv("CACHEBRO_VERSITYGW"); bin != "" {
		s.versity(bin)
	}
	front := httptest.NewServer(http.HandlerFunc(s.front))
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
	})
	s.url = front.URL
	for name, v := range s.Env() {
		if tt, ok := t.(interface{ Setenv(string, string) }); ok {
			tt.Setenv(name, v)
		}
	}
	return s
}

// Env returns the environment variables that let a process use the server and keep it from looking
// for credentials elsewhere.
func (s *Server) Env() map[string]string {
	return map[string]string{
		"AWS_ACCESS_KEY_ID": Key, "AWS_SECRET_ACCESS_KEY": Secret, "AWS_SESSION_TOKEN": "", "AWS_REGION": "us-east-1", "AWS_CA_BUNDLE": "",
		"AWS_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_S3": "", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1",
	}
}

// Address returns the address of a place in the server's bucket.
func (s *Server) Address(prefix string) string {
	return "s3://" + Bucket + "/" + prefix + "?endpoint=" + url.QueryEscape(s.url) + "&path-style=1&region=us-east-1"
}

// Break makes each request suffer the fault that f returns for it. If f is nil, no request fails.
func (s *Server) Break(f func(*http.Request) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// Asked returns the number of requests so far.
func (s *Server) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// Took returns the total size of the request bodies in bytes.
func (s *Server) Took() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.took
}

// Objects returns the keys of all objects in the bucket, sorted.
func (s *Server) Objects() (keys []string) {
	if s.dir != "" {
		root := filepath.Join(s.dir, Bucket)
		_ = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				keys = append(keys, strings.TrimPrefix(p, root+"/"))
			}
			return nil
		})
		return keys
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.objects {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Object returns the content of an object.
func (s *Server) Object(key string) []byte {
	s.t.Helper()
	if s.dir != "" {
		b, err := os.ReadFile(filepath.Join(s.dir, Bucket, key))
		if err != nil {
			s.t.Fatal(err)
		}
		return b
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.objects[key])
}

// Set replaces the content of an object. If b is nil, it removes the object.
func (s *Server) Set(key string, b []byte) {
	s.t.Helper()
	if s.dir != "" {
		err := os.Remove(filepath.Join(s.dir, Bucket, key))
		if b != nil { // store the object through the server, because a file without an ETag is not an object
			_, err = s.direct.PutObject(context.Background(), Bucket, key, bytes.NewReader(b), int64(len(b)), minio.PutObjectOptions{})
		}
		if err != nil {
			s.t.Fatal(err)
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b == nil {
		delete(s.objects, key)
		return
	}
	s.objects[key], s.times[key] = bytes.Clone(b), s.nowLocked()
}

// Pass advances the server's clock.
func (s *Server) Pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

func (s *Server) nowLocked() time.Time { return time.Now().Add(s.ahead) }

// front handles requests in front of the server and causes the faults.
func (s *Server) front(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	choose, fault := s.fault, None
	s.mu.Unlock()
	if choose != nil { // called without the lock, because choose may make requests itself
		fault = choose(r)
	}
	s.mu.Lock()
	s.asked++
	s.took += int64(len(body))
	s.mu.Unlock()
	do := func() *httptest.ResponseRecorder {
		again := r.Clone(r.Context())
		again.Body = io.NopCloser(bytes.NewReader(body))
		rec := httptest.NewRecorder()
		s.inner.ServeHTTP(rec, again)
		s.mu.Lock()
		now := s.nowLocked()
		s.mu.Unlock()
		rec.Header().Set("Date", now.UTC().Format(http.TimeFormat))
		if r.Method == http.MethodPut && rec.Code == http.StatusOK && s.dir != "" {
			if err := os.Chtimes(filepath.Join(s.dir, filepath.FromSlash(r.URL.Path)), time.Time{}, now); err != nil && !errors.Is(err, fs.ErrNotExist) {
				s.t.Error(err)
			}
		}
		return rec
	}
	switch fault {
	case Error500:
		refuse(w, http.StatusInternalServerError, "InternalError")
		return
	case Error503:
		refuse(w, http.StatusServiceUnavailable, "SlowDown")
		return
	case Skewed:
		refuse(w, http.StatusForbidden, "RequestTimeTooSkewed")
		return
	case UnknownKey:
		refuse(w, http.StatusNotFound, "XAdminUserNotFound")
		return
	case Forbidden:
		refuse(w, http.StatusForbidden, "ExpiredToken")
		return
	case CutBefore:
		panic(http.ErrAbortHandler)
	case CutAfter:
		do()
		panic(http.ErrAbortHandler)
	case Twice:
		do()
	case Slow:
		time.Sleep(5 * time.Millisecond)
	}
	rec := do()
	if fault == Bare {
		rec.Header().Del("ETag")
	}
	for k, v := range rec.Header() {
		w.Header()[k] = v
	}
	b := rec.Body.Bytes()
	if r.Method != http.MethodHead {
		w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	}
	w.WriteHeader(rec.Code)
	if fault == Truncate && len(b) > 0 {
		_, _ = w.Write(b[:len(b)/2])
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(b)
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>%s</Message></Error>`, code, code)
}

func etagOf(b []byte) string {
	h := md5.Sum(b)
	return `"` + hex.EncodeToString(h[:]) + `"`
}

// serve is the built-in server.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && strings.TrimSuffix(r.URL.Path, "/") == "/"+Bucket && r.URL.Query().Get("list-type") == "2" {
		s.list(w, r.URL.Query())
		return
	}
	key, ok := strings.CutPrefix(r.URL.Path, "/"+Bucket+"/")
	if !ok || key == "" {
		refuse(w, http.StatusNotFound, "NoSuchBucket")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b, there := s.objects[key]
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		if !there {
			refuse(w, http.StatusNotFound, "NoSuchKey")
			return
		}
		w.Header().Set("ETag", etagOf(b))
		w.Header().Set("Last-Modified", s.times[key].UTC().Format(http.TimeFormat))
		w.Header().Set("Content-Length", strconv.Itoa(len(b)))
		if r.Method == http.MethodGet {
			_, _ = w.Write(b)
		}
	case http.MethodPut:
		must, not := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
		if must != "" && !there {
			refuse(w, http.StatusNotFound, "NoSuchKey")
			return
		}
		if must != "" && must != etagOf(b) || not == "*" && there {
			refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
			return
		}
		all, _ := io.ReadAll(r.Body)
		s.objects[key], s.times[key] = all, s.nowLocked()
		w.Header().Set("ETag", etagOf(all))
	case http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	default:
		refuse(w, http.StatusMethodNotAllowed, "MethodNotAllowed")
	}
}

// listPage is the maximum number of objects in one page of a listing. It is small so that tests get
// several pages.
const listPage = 50

type listing struct {
	XMLName               xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListBucketResult"`
	Name, Prefix          string
	KeyCount, MaxKeys     int
	EncodingType          string `xml:",omitempty"`
	IsTruncated           bool
	NextContinuationToken string `xml:",omitempty"`
	Contents              []listed
}

type listed struct {
	Key, LastModified, ETag string
	Size                    int
}

// list answers ListObjectsV2 without a delimiter.
func (s *Server) list(w http.ResponseWriter, q url.Values) {
	if q.Get("delimiter") != "" {
		refuse(w, http.StatusNotImplemented, "NotImplemented")
		return
	}
	l := listing{Name: Bucket, Prefix: q.Get("prefix"), MaxKeys: listPage, EncodingType: q.Get("encoding-type")}
	after := cmp.Or(q.Get("continuation-token"), q.Get("start-after"))
	keys := s.Objects()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		b, there := s.objects[key]
		if !there || key <= after || !strings.HasPrefix(key, l.Prefix) {
			continue
		}
		if l.KeyCount == listPage {
			l.IsTruncated = true
			break
		}
		l.KeyCount++
		l.NextContinuationToken = key
		name := key
		if l.EncodingType == "url" {
			name = url.QueryEscape(key)
		}
		l.Contents = append(l.Contents, listed{name, s.times[key].UTC().Format(time.RFC3339Nano), etagOf(b), len(b)})
	}
	if !l.IsTruncated {
		l.NextContinuationToken = ""
	}
	w.Header().Set("Content-Type", "application/xml")
	if err := xml.NewEncoder(w).Encode(l); err != nil {
		s.t.Error(err)
	}
}

// versity starts versitygw, which stores its objects in a directory.
func (s *Server) versity(bin string) {
	s.t.Helper()
	s.dir = s.t.TempDir()
	if err := os.Mkdir(filepath.Join(s.dir, Bucket), 0o755); err != nil {
		s.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	c := exec.Command(bin, "--quiet", "--port", at, "posix", s.dir)
	c.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+Key, "ROOT_SECRET_KEY="+Secret)
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if conn, err := net.Dial("tcp", at); err == nil {
			conn.Close()
			break
		}
		if time.Now().After(end) {
			s.t.Fatal("versitygw does not answer")
		}
	}
	s.direct, err = minio.New(at, &minio.Options{Creds: credentials.NewStaticV4(Key, Secret, ""), Region: "us-east-1", BucketLookup: minio.BucketLookupPath})
	if err != nil {
		s.t.Fatal(err)
	}
	to := &url.URL{Scheme: "http", Host: at}
	s.inner = &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(to)
		p.Out.Host = p.In.Host // keep the Host header, because the client has signed it
	}}
}
