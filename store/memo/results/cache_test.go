package results

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cachebro/store"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon"),
		// This goroutine checks only once a second whether its client was closed.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// call returns a Call that computes the answer to question n.
func call(tool string, n int, answer string) Call {
	return Call{Tool: tool, Args: map[string]any{"n": n}, Compute: func(context.Context) (Answer, error) {
		return Answer{Value: []byte(answer)}, nil
	}}
}

func TestKey(t *testing.T) {
	type args struct {
		B string `json:"b"`
		A int    `json:"a"`
	}
	k1, full, err := Key("search", args{"x", 1})
	if err != nil {
		t.Fatal(err)
	}
	k2, _, _ := Key("search", map[string]any{"a": 1, "b": "x"})
	if k1 != k2 || !strings.HasPrefix(k1, "search:") || len(k1) != len("search:")+16 || !strings.HasPrefix(full, k1[7:]) {
		t.Fatal(k1, k2, full)
	}
	seen := map[string]any{}
	for _, a := range []any{1, "1", []int{1}, nil, map[string]int{"a": 1}, 9007199254740993, 9007199254740992} {
		k, _, err := Key("search", a)
		if err != nil || seen[k] != nil {
			t.Fatal(a, seen[k], err)
		}
		seen[k] = a
	}
	if k, _, _ := Key("ls", 1); seen[k] != nil {
		t.Fatal("two tools, one key")
	}
	if _, _, err := Key("search", make(chan int)); err == nil {
		t.Fatal("a channel has no JSON")
	}
}

func TestHitMissExpiryAndSwitches(t *testing.T) {
	ctx, now := context.Background(), time.Unix(1e9, 0)
	var log bytes.Buffer
	c := New(Options{
		Now: func() time.Time { return now }, Tools: map[string]bool{"search": true, "edit": false},
		Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	computed := 0
	ask := func(tool string) bool {
		v, hit, err := c.Do(ctx, Call{Tool: tool, Args: "hunter2", Compute: func(context.Context) (Answer, error) {
			computed++
			return Answer{Value: []byte("s3cret")}, nil
		}})
		if err != nil || string(v) != "s3cret" {
			t.Fatal(string(v), err)
		}
		return hit
	}
	for i, step := range []struct {
		tool string
		wait time.Duration
		hit  bool
	}{{"search", 0, false}, {"search", 4 * time.Minute, true}, {"search", 59 * time.Second, true}, {"search", 2 * time.Second, false},
		{"search", 0, true}, {"edit", 0, false}, {"edit", 0, false}, {"unheard", 0, false}} {
		now = now.Add(step.wait)
		if got := ask(step.tool); got != step.hit {
			t.Fatalf("step %d: hit %v", i, got)
		}
	}
	if computed != 5 {
		t.Fatal(computed)
	}
	s := c.Stats()
	if s.Tools["search"] != (Counts{Hits: 3, Misses: 2}) || s.Tools["edit"] != (Counts{Bypassed: 2}) {
		t.Fatalf("%+v", s)
	}
	if out := log.String(); !strings.Contains(out, "outcome=hit") || strings.Contains(out, "hunter2") || strings.Contains(out, "s3cret") {
		t.Fatal(out)
	}
	if err := c.Clear(ctx); err != nil || ask("search") {
		t.Fatal("still there", err)
	}
}

func TestErrorsAreNotKept(t *testing.T) {
	c, ctx, n := New(Options{}), context.Background(), 0
	failing := Call{Tool: "search", Compute: func(context.Context) (Answer, error) {
		if n++; n < 3 {
			return Answer{}, errors.New("no")
		}
		return Answer{Value: []byte("yes")}, nil
	}}
	for i := range 2 {
		if _, _, err := c.Do(ctx, failing); err == nil {
			t.Fatal(i)
		}
	}
	if v, hit, err := c.Do(ctx, failing); hit || err != nil || string(v) != "yes" {
		t.Fatal(string(v), hit, err)
	}
	if _, hit, _ := c.Do(ctx, failing); !hit || n != 3 {
		t.Fatal(hit, n)
	}
}

// If 1,000 concurrent calls want an answer that is not cached, one of them computes it and the
// others wait.
func TestManyMissesComputeOnce(t *testing.T) {
	c, ctx := New(Options{}), context.Background()
	var computed, hits atomic.Int32
	begin, compute := make(chan struct{}), make(chan struct{})
	one := Call{Tool: "search", Args: "same", Compute: func(context.Context) (Answer, error) {
		computed.Add(1)
		<-compute
		return Answer{Value: []byte("v"), Uses: []Used{{"f", "1"}}}, nil
	}, Holds: func(_ context.Context, u []Used) bool { return len(u) == 1 && u[0].Version == "1" }}
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			<-begin
			v, hit, err := c.Do(ctx, one)
			if err != nil || string(v) != "v" {
				t.Error(string(v), err)
			}
			if hit {
				hits.Add(1)
			}
		})
	}
	close(begin)
	for computed.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	close(compute)
	wg.Wait()
	if computed.Load() != 1 || hits.Load() != 999 {
		t.Fatal(computed.Load(), hits.Load())
	}
}

// A call may join an earlier call that began before a write. Its answer nevertheless includes the
// write.
func TestJoinedCallSeesWritesBeforeIt(t *testing.T) {
	c, ctx := New(Options{}), context.Background()
	var version atomic.Int32
	reading, goOn := make(chan struct{}), make(chan struct{})
	first := true
	var mu sync.Mutex
	one := Call{Tool: "search", Compute: func(context.Context) (Answer, error) {
		v := fmt.Sprint(version.Load())
		mu.Lock()
		wait := first
		first = false
		mu.Unlock()
		if wait {
			close(reading)
			<-goOn
		}
		return Answer{Value: []byte(v), Uses: []Used{{"f", v}}}, nil
	}, Holds: func(_ context.Context, u []Used) bool { return u[0].Version == fmt.Sprint(version.Load()) }}
	var wg sync.WaitGroup
	wg.Go(func() {
		if v, _, err := c.Do(ctx, one); err != nil || string(v) != "0" {
			t.Error(string(v), err) // this call began before the write, so either answer would be right; 0 is what it read
		}
	})
	<-reading
	version.Store(1)
	wg.Go(func() {
		if v, _, err := c.Do(ctx, one); err != nil || string(v) != "1" {
			t.Error("a call after the write got", string(v), err)
		}
	})
	time.Sleep(time.Millisecond) // lets the second call join; the result is right even if it does not
	close(goOn)
	wg.Wait()
}

// If the first call is cancelled, one of the waiting calls computes the answer.
func TestLeaderIsCancelled(t *testing.T) {
	c := New(Options{})
	ctx, cancel := context.WithCancel(context.Background())
	started := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _, err := c.Do(ctx, Call{Tool: "search", Compute: func(ctx context.Context) (Answer, error) {
			close(started)
			<-ctx.Done()
			return Answer{}, ctx.Err()
		}})
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	<-started
	wg.Go(func() {
		if v, _, err := c.Do(context.Background(), Call{Tool: "search", Compute: func(context.Context) (Answer, error) {
			return Answer{Value: []byte("mine")}, nil
		}}); err != nil || string(v) != "mine" {
			t.Error(string(v), err)
		}
	})
	cancel()
	wg.Wait()
}

// Whatever happens in whatever order, an answer equals the computed one.
func TestCachedEqualsFresh(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx, now := context.Background(), time.Unix(1e9, 0)
		files := map[string]int{"a": 0, "b": 0, "c": 0}
		names := []string{"a", "b", "c"}
		c := New(Options{Stores: []Store{NewMemory(1500), NewMemory(3000)}, Now: func() time.Time { return now }})
		fresh := func(a, b string) string { return fmt.Sprintf("%s=%d %s=%d", a, files[a], b, files[b]) }
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			a, b := rapid.SampledFrom(names).Draw(t, "a"), rapid.SampledFrom(names).Draw(t, "b")
			switch rapid.IntRange(0, 4).Draw(t, "do") {
			case 0:
				files[a] = rapid.IntRange(0, 2).Draw(t, "content")
			case 1:
				now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "s")) * time.Second)
			default:
				v, _, err := c.Do(ctx, Call{Tool: "search", Args: []string{a, b}, Compute: func(context.Context) (Answer, error) {
					return Answer{Value: []byte(fresh(a, b)), Uses: []Used{{a, fmt.Sprint(files[a])}, {b, fmt.Sprint(files[b])}}}, nil
				}, Holds: func(_ context.Context, uses []Used) bool {
					for _, u := range uses {
						if fmt.Sprint(files[u.Path]) != u.Version {
							return false
						}
					}
					return true
				}})
				if err != nil || string(v) != fresh(a, b) {
					t.Fatalf("%q, fresh %q, %v", v, fresh(a, b), err)
				}
			}
		}
	})
}

// Every store keeps, replaces and clears in the same way.
func TestStores(t *testing.T) {
	s, err := store.Open(t.TempDir(), store.Options{Ballast: -1, MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	kept, err := NewDisk(s.KV("results"), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range []Store{NewMemory(0), kept} {
		ctx := context.Background()
		big := bytes.Repeat([]byte("0123456789abcdef"), 60_000) // longer than a part, but it compresses well
		for i := range big {
			big[i] ^= byte(i * 7919 >> 8)
		}
		want := Entry{Key: "full", At: time.Unix(5, 6), Uses: []Used{{"src/a.go", "h1"}}, Value: big}
		for _, e := range []Entry{{Key: "full", At: time.Unix(1, 0), Value: []byte("old")}, want} {
			if err := st.Set(ctx, "k", e, time.Hour); err != nil {
				t.Fatal(st.Name(), err)
			}
		}
		got, ok, err := st.Get(ctx, "k")
		if err != nil || !ok || got.Key != want.Key || !got.At.Equal(want.At) || len(got.Uses) != 1 || got.Uses[0] != want.Uses[0] || !bytes.Equal(got.Value, want.Value) {
			t.Fatal(st.Name(), ok, err)
		}
		if err := st.Set(ctx, "other", Entry{At: time.Now(), Value: []byte{}}, time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := st.Clear(ctx); err != nil {
			t.Fatal(err)
		}
		for _, k := range []string{"k", "other"} {
			if _, ok, _ := st.Get(ctx, k); ok {
				t.Fatal(st.Name(), "cleared, and still there:", k)
			}
		}
	}
	// Nothing is left in the database, not even parts.
	left := 0
	if err := s.KV("results").Scan("", func(string, []byte) error { left++; return nil }); err != nil || left != 0 {
		t.Fatal(left, err)
	}
}

// Entries survive a restart of the daemon. If they exceed their budget, the oldest are removed
// first.
func TestKeptSurvivesAndStaysWithinBudget(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	open := func() (*store.Store, *Disk) {
		s, err := store.Open(dir, store.Options{Ballast: -1, MinFree: 1})
		if err != nil {
			t.Fatal(err)
		}
		k, err := NewDisk(s.KV("results"), 100_000)
		if err != nil {
			t.Fatal(err)
		}
		return s, k
	}
	s, k := open()
	noise := make([]byte, 10_000)
	for n := range 30 {
		for i := range noise {
			noise[i] = byte((i*i*(n+3) + i*n) >> 3)
		}
		if err := k.Set(ctx, fmt.Sprint("k", n), Entry{Key: "f", At: time.Unix(int64(n), 0), Value: append([]byte(fmt.Sprint(n)), noise...)}, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if k.Bytes() > 100_000 {
		t.Fatal(k.Bytes())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, k = open()
	defer s.Close()
	if e, ok, err := k.Get(ctx, "k29"); !ok || err != nil || !bytes.HasPrefix(e.Value, []byte("29")) {
		t.Fatal(ok, err)
	}
	if n, err := k.Len(); n == 0 || k.Bytes() > 100_000 || k.Bytes() == 0 || err != nil {
		t.Fatal(n, k.Bytes(), err)
	}
	k.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	if _, ok, _ := k.Get(ctx, "k29"); ok {
		t.Fatal("outlived its time")
	}
}

func TestParseSettings(t *testing.T) {
	s, err := ParseSettings("ttl=10m, search=off,disk=128", "redis://h:1")
	if err != nil || s.TTL != 10*time.Minute || s.Tools["search"] || !s.Tools["ls"] || s.Budget != 128<<20 || s.Redis == "" || s.Off {
		t.Fatalf("%+v %v", s, err)
	}
	if s, err := ParseSettings("off", ""); err != nil || !s.Off {
		t.Fatal(s, err)
	}
	for _, bad := range []string{"ttl=x", "ttl=-1s", "disk=0", "search=maybe", "nosuch=on", "yes"} {
		if _, err := ParseSettings(bad, ""); !errors.Is(err, ErrSettings) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
