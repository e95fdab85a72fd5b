package results

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"golang.org/x/sync/errgroup"
)

const (
	// redisWait limits the time of one request. A slower request would save no time, because
	// computing the answer again is as fast.
	redisWait = 150 * time.Millisecond
	// After redisFails consecutive failures, no request is sent for redisPause. After the pause, a
	// single failure causes the next pause. In a cluster it again takes redisFails failures,
	// because the next request may go to another node.
	redisFails = 6
	redisPause = 2 * time.Second
	// redisQueue is the number of writes that may wait. More are dropped.
	redisQueue = 512
	// redisLargest is the size of the largest value that is sent, in bytes.
	redisLargest = 16 << 20
	// redisAtOnce is the number of concurrent commands when many keys are deleted.
	redisAtOnce = 8
)

// ErrURL means that the address of a Redis cannot be parsed.
var ErrURL = errors.New("not the address of a Redis: redis://[user:password@]host:port[/db], rediss:// for TLS, ?addr=host:port for each other node of a cluster")

// commands lists the few commands in use. go-redis's interface of all commands, or a pipeline,
// would link five hundred commands and their replies into the binary, which takes 3 MB.
type commands interface {
	Get(ctx context.Context, key string) *redis.StringCmd
	Set(ctx context.Context, key string, value any, ttl time.Duration) *redis.StatusCmd
	Del(ctx context.Context, keys ...string) *redis.IntCmd
	Scan(ctx context.Context, cursor uint64, match string, count int64) *redis.ScanCmd
	Close() error
}

// Redis stores entries on a server or a cluster that several machines share. It connects on first
// use, and again after every failure.
type Redis struct {
	c      commands
	nodes  func(ctx context.Context, fn func(ctx context.Context, c commands) error) error // calls fn for each master of a cluster, otherwise for c
	host   string                                                                          // address without user and password, for the status
	wait   time.Duration                                                                   // redisWait
	after  int32                                                                           // the value of failures after a pause
	prefix string

	failures atomic.Int32 // consecutive failures
	until    atomic.Int64 // ns; no request is sent before this time

	queue  chan func(context.Context)
	done   chan struct{} // closed by Close; ends the writer
	writer sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	since   time.Time  // when the first of the consecutive failures happened
	why     error
	connect error // why connecting failed
}

var _ Store = (*Redis)(nil)

// quiet discards the log of go-redis, which writes to stderr. Failures are counted and shown
// anyway.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

var quieten = sync.OnceFunc(func() { redis.SetLogger(quiet{}) })

// NewRedis accepts the addresses of redis-cli -u, with additional parameters. cluster=true or
// addr=host:port (repeatable) means a cluster. prefix=NAME is the prefix of the keys ("cachebro:").
// NewRedis does not connect yet.
func NewRedis(address string) (*Redis, error) { return newRedis(address, redisWait) }

func newRedis(address string, wait time.Duration) (*Redis, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "redis" && u.Scheme != "rediss" {
		return nil, ErrURL // err would reveal the password
	}
	q := u.Query()
	prefix := cmp.Or(q.Get("prefix"), "cachebro:")
	cluster := len(q["addr"]) > 0 || q.Get("cluster") == "true" || q.Get("cluster") == "1"
	q.Del("prefix")
	q.Del("cluster")
	u.RawQuery = q.Encode()
	r := &Redis{host: u.Host, prefix: prefix, wait: wait, queue: make(chan func(context.Context), redisQueue), done: make(chan struct{})}
	quieten()
	none := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if cluster {
		o, err := redis.ParseClusterURL(u.String())
		if err != nil {
			return nil, ErrURL
		}
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = wait, wait, wait, wait
		o.MinRetryBackoff = time.Millisecond
		o.MaxRetryBackoff = 8 * time.Millisecond
		o.ContextTimeoutEnabled = true
		o.MaintNotificationsConfig, o.Dialer = none, guardedDial(wait, o.TLSConfig, r.dialed)
		c := redis.NewClusterClient(o)
		r.c = c
		r.nodes = func(ctx context.Context, fn func(context.Context, commands) error) error {
			return c.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return fn(ctx, c) })
		}
	} else {
		o, err := redis.ParseURL(u.String())
		if err != nil {
			return nil, ErrURL
		}
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = wait, wait, wait, wait
		o.MaxRetries = 1
		o.MinRetryBackoff = time.Millisecond
		o.MaxRetryBackoff = 8 * time.Millisecond
		o.ContextTimeoutEnabled = true
		o.MaintNotificationsConfig, o.Dialer = none, guardedDial(wait, o.TLSConfig, r.dialed)
		r.c, r.after = redis.NewClient(o), redisFails-1
		r.nodes = func(ctx context.Context, fn func(context.Context, commands) error) error { return fn(ctx, r.c) }
	}
	r.writer.Go(r.write)
	return r, nil
}

// write runs the queued jobs.
func (r *Redis) write() {
	for {
		select {
		case <-r.done:
			return
		case job := <-r.queue:
			ctx, cancel := context.WithTimeout(context.Background(), 4*r.wait)
			job(ctx)
			cancel()
		}
	}
}

// Close closes the connections. Queued jobs are dropped.
func (r *Redis) Close() error {
	close(r.done)
	err := r.c.Close()
	r.writer.Wait()
	return err
}

// Name implements Store.
func (r *Redis) Name() string { return "redis" }

// Host returns the address without user and password.
func (r *Redis) Host() string { return r.host }

// Down returns since when every request has failed, and why. since is zero if the server is up or
// no request was sent yet.
func (r *Redis) Down() (since time.Time, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since, r.why
}

// errDown means that the server failed recently, so no request is sent yet.
var errDown = errors.New("redis does not answer")

// ask runs one operation with a time limit.
func (r *Redis) ask(ctx context.Context, within time.Duration, op func(context.Context) error) error {
	if time.Now().UnixNano() < r.until.Load() {
		return errDown
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := op(ctx)
	if err == nil || errors.Is(err, redis.Nil) {
		r.failures.Store(0)
		r.note(nil)
		return err
	}
	r.note(err)
	if r.failures.Add(1) >= redisFails {
		r.until.Store(time.Now().Add(redisPause).UnixNano())
		r.failures.Store(r.after)
	}
	return fmt.Errorf("redis at %s: %w", r.host, err)
}

// dialed records whether a connection could be made.
func (r *Redis) dialed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		r.connect = err
	}
}

func (r *Redis) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Is(err, context.DeadlineExceeded) && r.connect != nil {
		err = r.connect
	}
	switch {
	case err == nil:
		r.since, r.why = time.Time{}, nil
	case r.since.IsZero():
		r.since, r.why = time.Now(), err
	default:
		r.why = err
	}
}

// Get implements Store.
func (r *Redis) Get(ctx context.Context, key string) (e Entry, ok bool, err error) {
	var raw []byte
	err = r.ask(ctx, r.wait, func(ctx context.Context) (err error) {
		raw, err = r.c.Get(ctx, r.prefix+key).Bytes()
		return err
	})
	if errors.Is(err, redis.Nil) {
		return Entry{}, false, nil
	}
	if err != nil {
		return Entry{}, false, err
	}
	e, err = decodeEntry(raw)
	if err != nil {
		return Entry{}, false, nil // another program's value, or a later format
	}
	return e, true, nil
}

// Set implements Store. It queues the write, so that the caller does not wait for the network.
func (r *Redis) Set(_ context.Context, key string, e Entry, ttl time.Duration) error {
	if len(e.Value) > redisLargest {
		return nil
	}
	raw, err := encodeEntry(e)
	if err != nil {
		return err
	}
	return r.later(func(ctx context.Context) {
		_ = r.ask(ctx, 2*r.wait, func(ctx context.Context) error { return r.c.Set(ctx, r.prefix+key, raw, ttl).Err() })
	})
}

func (r *Redis) later(job func(context.Context)) error {
	select {
	case r.queue <- job:
		return nil
	default:
		return errDown
	}
}

// each calls fn with groups of keys that have r's prefix, node by node.
func (r *Redis) each(ctx context.Context, fn func(ctx context.Context, c commands, keys []string) error) error {
	match := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(r.prefix) + "*"
	scan := func(ctx context.Context, c commands) error {
		for cursor := uint64(0); ; {
			keys, next, err := c.Scan(ctx, cursor, match, 500).Result()
			if err == nil && len(keys) > 0 {
				err = fn(ctx, c, keys)
			}
			if err != nil || next == 0 {
				return err
			}
			cursor = next
		}
	}
	return r.ask(ctx, 10*time.Second, func(ctx context.Context) error { return r.nodes(ctx, scan) })
}

// Clear implements Store. It leaves keys with other prefixes alone.
func (r *Redis) Clear(ctx context.Context) error {
	return r.each(ctx, func(ctx context.Context, c commands, keys []string) error {
		var all errgroup.Group // one DEL per key, because keys of a cluster are in different slots
		all.SetLimit(redisAtOnce)
		for _, k := range keys {
			all.Go(func() error { return c.Del(ctx, k).Err() })
		}
		return all.Wait()
	})
}
