package results

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cachebro/scripts/testkit/redistest"
)

// need skips the test if there is no redis-server, unless one is required.
func need(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, redistest.ErrNone) && os.Getenv("CACHEBRO_NEED_REDIS") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func dialRedis(t *testing.T, url string) *Redis {
	t.Helper()
	// Wait longer than usual, because on a busy machine an answer, or a request to a node that has
	// ended, can take longer than redisWait.
	r, err := newRedis(url, 4*redisWait)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// eventually polls, because writes to Redis are queued and nodes need time.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatal("never: " + what)
}

// Two caches, like those of two machines, share one server. Each gets the answers that the other
// has computed.
func TestRedisShares(t *testing.T) {
	s, err := redistest.Start(t.TempDir(), "--requirepass", "se:cret")
	need(t, err)
	t.Cleanup(s.Stop)
	url := fmt.Sprintf("redis://:se%%3Acret@%s/3?prefix=team[1]:", s.Addr())
	ra, rb := dialRedis(t, url), dialRedis(t, url)
	other := dialRedis(t, fmt.Sprintf("redis://:se%%3Acret@%s/3?prefix=other:", s.Addr()))
	a := New(Options{Stores: []Store{NewMemory(0), ra}})
	b := New(Options{Stores: []Store{NewMemory(0), rb}})
	ctx := context.Background()
	if err := other.Set(ctx, "x", Entry{Key: "x", At: time.Now()}, time.Hour); err != nil {
		t.Fatal(err)
	}
	if v, hit, err := a.Do(ctx, call("search", 1, "answer")); err != nil || hit || string(v) != "answer" {
		t.Fatal(string(v), hit, err)
	}
	eventually(t, "the entry is in Redis", func() bool { n, _ := keysOf(ctx, ra); return n == 1 })
	if v, hit, err := b.Do(ctx, call("search", 1, "not computed")); err != nil || !hit || string(v) != "answer" {
		t.Fatal(string(v), hit, err)
	}
	if st := b.Stats(); st.Stores["redis"] != 1 {
		t.Fatal(st)
	}
	// Now the answer is in the memory of the second cache too.
	if _, hit, _ := b.Do(ctx, call("search", 1, "not computed")); !hit || b.Stats().Stores["memory"] != 1 {
		t.Fatal(b.Stats())
	}
	if err := a.Clear(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another prefix is left alone", func() bool { n, err := keysOf(ctx, other); return err == nil && n == 1 })
	if n, err := keysOf(ctx, ra); n != 0 || err != nil {
		t.Fatal(n, err)
	}
}

// While a server is down, only hits are lost. After its restart it is used again.
func TestRedisDownAndBack(t *testing.T) {
	s, err := redistest.Start(t.TempDir())
	need(t, err)
	r := dialRedis(t, s.URL())
	c := New(Options{Stores: []Store{NewMemory(1), r}})
	ctx := context.Background()
	if _, _, err := c.Do(ctx, call("search", 0, "a")); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	for i := range 40 {
		if v, hit, err := c.Do(ctx, call("search", i+1, "computed")); err != nil || hit || string(v) != "computed" {
			t.Fatal(i, string(v), hit, err)
		}
	}
	since, why := r.Down()
	if since.IsZero() || why == nil || r.until.Load() == 0 {
		t.Fatal("not noticed", since, why)
	}
	// The port is still free, because the system gives a port that was just in use only to a
	// program that requests this port.
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	n := 100
	eventually(t, "results are shared again", func() bool {
		n++
		if _, _, err := c.Do(ctx, call("search", n, "again")); err != nil {
			t.Fatal(err)
		}
		have, err := keysOf(ctx, r)
		return err == nil && have > 0
	})
	if since, _ := r.Down(); !since.IsZero() {
		t.Fatal("up again, but reported as down since", since)
	}
}

// The message says why there is no connection, and not just that connecting timed out.
func TestRedisWhyDown(t *testing.T) {
	s, err := redistest.Start(t.TempDir())
	need(t, err)
	t.Cleanup(s.Stop)
	unknown := httptest.NewTLSServer(nil) // its certificate is not trusted
	unknown.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(unknown.Close)
	secure := dialRedis(t, "rediss://"+unknown.Listener.Addr().String())
	if _, _, err := secure.Get(t.Context(), "x"); err == nil {
		t.Fatal("it answers")
	}
	if _, why := secure.Down(); why == nil || !strings.Contains(why.Error(), "certificate") {
		t.Errorf("the certificate: %v", why)
	}
	s.Stop()
	gone := dialRedis(t, s.URL())
	if _, _, err := gone.Get(t.Context(), "x"); err == nil {
		t.Fatal("it answers")
	}
	if _, why := gone.Down(); why == nil || !strings.Contains(why.Error(), "refused") {
		t.Errorf("nobody listens: %v", why)
	}
}

// A cluster loses a node: every call is answered, and entries on the other nodes are still
// shared.
func TestClusterLosesANode(t *testing.T) {
	cl, err := redistest.StartCluster(t.TempDir())
	need(t, err)
	t.Cleanup(cl.Stop)
	ra, rb := dialRedis(t, cl.URL()), dialRedis(t, cl.URL())
	ctx := context.Background()
	a := New(Options{Stores: []Store{NewMemory(0), ra}})
	const n = 30
	for i := range n {
		if _, _, err := a.Do(ctx, call("search", i, "shared")); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all entries are in the cluster", func() bool { have, _ := keysOf(ctx, rb); return have == n })
	sharing := func() (hits int) {
		b := New(Options{Stores: []Store{NewMemory(0), rb}})
		for i := range n {
			v, hit, err := b.Do(ctx, call("search", i, "shared"))
			if err != nil || string(v) != "shared" {
				t.Fatal(i, string(v), err)
			}
			if hit {
				hits++
			}
		}
		return hits
	}
	if got := sharing(); got != n {
		t.Fatalf("%d of %d shared through the whole cluster", got, n)
	}
	cl.Nodes[2].Stop()
	eventually(t, "two thirds are shared without the third node", func() bool {
		got := sharing()
		return got >= n/3 && got < n
	})
}

func TestRedisAddress(t *testing.T) {
	for _, bad := range []string{"", "localhost:6379", "http://h:1", "redis://", "redis://u:pa%ss@h:1", "redis://h:1?addr=h:2&nonsense=1"} {
		r, err := NewRedis(bad)
		if !errors.Is(err, ErrURL) {
			t.Errorf("%q: %v", bad, err)
		}
		if r != nil {
			r.Close()
		}
		if err != nil && strings.Contains(err.Error(), "pa%ss") {
			t.Errorf("the error tells the password: %v", err)
		}
	}
	r := dialRedis(t, "rediss://u:p@h:1/2")
	if r.Host() != "h:1" {
		t.Error(r.Host())
	}
}

// keysOf counts the entries on a server.
func keysOf(ctx context.Context, r *Redis) (int, error) {
	var n atomic.Int64
	err := r.each(ctx, func(_ context.Context, _ commands, keys []string) error {
		n.Add(int64(len(keys)))
		return nil
	})
	return int(n.Load()), err
}
