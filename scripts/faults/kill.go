//go:build linux

package main

import (
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// oldEnough is an age. A kill must never lose content that was closed at least this long before. It
// may lose younger content that was not synced.
const oldEnough = time.Second

// patience is how long the store may take to show one more content. On a busy machine content may
// appear late, which does not mean that it is lost.
const patience = 90 * time.Second

// counts holds the numbers that the kill test prints.
type counts struct {
	rounds, kills             int
	killed                    map[string]int
	closed, synced            int
	damaged, lost, lostYoung  int
	lostSynced, noticed, late int
	detached, dead            int
	fsck                      int
	back                      []time.Duration
	mended, ingest            []time.Duration
}

func killRounds(s settings) (err error) {
	p, err := newPlace(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.remove(s.keep || err != nil)) }()
	if err := os.WriteFile(filepath.Join(p.dir, "probe.txt"), []byte("probe\n"), 0o644); err != nil {
		return err
	}
	rng := rand.New(rand.NewSource(s.seed))
	c := counts{killed: map[string]int{}}
	stop := &atomic.Bool{}
	writers := make([]*writer, s.writers)
	for i := range writers {
		writers[i] = newWriter(p.dir, i, s.seed+1, stop)
	}
	who := slices.DeleteFunc(slices.Clone(deaths), func(k death) bool { return s.only != "" && k.String() != s.only })
	if len(who) == 0 {
		return fmt.Errorf("-only is one of %q", deaths)
	}
	fmt.Printf("seed %d, %d writers, %d rounds\n", s.seed, s.writers, s.rounds)
	for i := range s.rounds {
		if err := p.round(i, s, who[i%len(who)], rng, writers, stop, &c); err != nil {
			c.print()
			return fmt.Errorf("round %d: %w", i+1, err)
		}
		c.rounds++
		if (i+1)%s.every == 0 || i+1 == s.rounds {
			c.fsck++
			if out, err := p.cachebro("store", "fsck", "--dir", p.dir); err != nil {
				c.print()
				return fmt.Errorf("after round %d: %w\n%s", i+1, err, out)
			}
		}
	}
	c.print()
	if c.damaged+c.lost+c.lostSynced+c.noticed+c.late+c.detached > 0 {
		return errors.New("not everything was kept")
	}
	return nil
}

func (c *counts) print() {
	fmt.Printf("rounds %d, kills %d %v, fsck runs %d (all clean unless said below)\n", c.rounds, c.kills, c.killed, c.fsck)
	fmt.Printf("contents closed %d (%d after fsync)\n", c.closed, c.synced)
	fmt.Printf("files damaged %d, lost although older than %v %d, lost after fsync %d, lost younger %d\n", c.damaged, oldEnough, c.lost, c.lostSynced, c.lostYoung)
	fmt.Printf("programs that noticed a kill they should not %d\n", c.noticed)
	fmt.Printf("mounts that nobody took over %d\n", c.detached)
	fmt.Printf("project readable again: %s, later than a second %d\n", spread(c.back), c.late)
	fmt.Printf("mounts whose processes were all killed: %d; mended by mount in: %s\n", c.dead, spread(c.mended))
	fmt.Printf("every content found in the log: %s after the round\n", spread(c.ingest))
}

func spread(ds []time.Duration) string {
	if len(ds) == 0 {
		return "never needed"
	}
	s := append([]time.Duration(nil), ds...)
	sort.Slice(s, func(i, j int) bool { return s[i] < s[j] })
	return fmt.Sprintf("median %v, worst %v", s[len(s)/2].Round(time.Millisecond), s[len(s)-1].Round(time.Millisecond))
}

// death names the processes that are killed in a round, and says how long the pauses between the
// kills are.
type death struct {
	names []string
	pause time.Duration // the pause is random, at most this long plus 200 ms
	dead  bool          // kill all at once, so that perhaps no process is left that could restore the mount
}

var deaths = []death{
	{names: []string{"mountd"}},
	{names: []string{"daemon"}},
	{names: []string{"supervise"}},
	{names: []string{"daemon", "mountd"}},
	{names: []string{"supervise", "daemon"}},
	// Mountd needs a moment to start another supervisor, and the supervisor needs a moment to start
	// another mountd.
	{names: []string{"supervise", "mountd"}, pause: time.Second},
	{names: []string{"supervise", "daemon", "mountd"}, pause: time.Second},
	{names: []string{"mountd", "supervise"}, dead: true},
	{names: []string{"daemon", "mountd", "supervise"}, dead: true},
}

func (k death) String() string {
	if k.dead {
		return strings.Join(k.names, "+") + " at once"
	}
	return strings.Join(k.names, ", ")
}

// kill kills the processes of one death. It returns the time at which mountd was killed, or the
// zero time.
func (p *place) kill(k death, rng *rand.Rand, c *counts) (mountd time.Time, err error) {
	c.killed[k.String()]++
	at := p.processes()
	for i, name := range k.names {
		if i > 0 && !k.dead {
			time.Sleep(k.pause + time.Duration(rng.Intn(200))*time.Millisecond)
			at = p.processes()
		}
		if at[name] == 0 {
			return mountd, fmt.Errorf("no %s is running", name)
		}
		if name == "mountd" {
			mountd = time.Now()
		}
		if err := syscall.Kill(at[name], syscall.SIGKILL); err != nil {
			return mountd, fmt.Errorf("kill %s: %w", name, err)
		}
		c.kills++
	}
	return mountd, nil
}

// round lets the writers write, kills processes, waits until the project can be used again, and
// checks everything.
func (p *place) round(i int, s settings, k death, rng *rand.Rand, writers []*writer, stop *atomic.Bool, c *counts) error {
	if !p.mounted() {
		if _, err := p.cachebro("mount", p.dir); err != nil {
			return err
		}
	}
	begun := time.Now()
	stop.Store(false)
	var wg sync.WaitGroup
	for _, w := range writers {
		w.done, w.err = nil, nil
		wg.Go(w.run)
	}
	time.Sleep(time.Duration(100+rng.Intn(600)) * time.Millisecond)
	killed, err := p.kill(k, rng, c)
	if err != nil {
		return err
	}
	fatal, dead := !killed.IsZero(), false
	switch {
	case k.dead:
		// If a process is left that can react to the kills, the mount recovers by itself. Otherwise
		// a user repairs it with "cachebro mount", and so does this test.
		dead = !p.answersWithin(time.Second)
		if !dead {
			c.back = append(c.back, time.Since(killed))
			break
		}
		c.dead++
		stop.Store(true)
		wg.Wait()
		begin := time.Now()
		if out, err := p.cachebro("mount", p.dir); err != nil {
			return fmt.Errorf("mount does not mend it: %w\n%s", err, out)
		}
		c.mended = append(c.mended, time.Since(begin))
	case fatal: // another mountd takes over while the writers continue
		p.readable(killed, c)
	}
	time.Sleep(time.Duration(rng.Intn(300)) * time.Millisecond)
	stop.Store(true)
	if !fatal {
		killed = time.Now()
	}
	wg.Wait()
	if fatal && !p.mounted() {
		c.detached++
	}
	for _, w := range writers {
		if w.err != nil && !dead {
			c.noticed++
			fmt.Printf("round %d (%s): %s: %v\n", i+1, k, w.rel, w.err)
		}
		for _, bad := range w.damaged() {
			c.damaged++
			fmt.Printf("round %d (%s): DAMAGED %s\n", i+1, k, bad)
		}
	}
	n, err := p.judge(i, begun, killed, fatal, writers, c)
	if s.verbose {
		fmt.Printf("round %d: %s, %d contents\n", i+1, k, n)
	}
	return err
}

// answersWithin reports whether the mount answers a request within d.
func (p *place) answersWithin(d time.Duration) bool {
	for end := time.Now().Add(d); ; time.Sleep(5 * time.Millisecond) {
		if b, err := os.ReadFile(filepath.Join(p.dir, "probe.txt")); err == nil && string(b) == "probe\n" {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// readable measures how long the project could not be used.
func (p *place) readable(since time.Time, c *counts) {
	for asked := false; ; {
		// Open the file by its path each time, because an old descriptor would stay in the dead
		// mount.
		b, err := os.ReadFile(filepath.Join(p.dir, "probe.txt"))
		d := time.Since(since)
		if err == nil && string(b) == "probe\n" {
			c.back = append(c.back, d)
			if d > time.Second {
				c.late++
			}
			return
		}
		if d > 20*time.Second {
			c.late++
			return
		}
		if pid := p.processes()["mountd"]; pid != 0 && d > 7*time.Second && !asked {
			asked = true
			_ = syscall.Kill(pid, syscall.SIGQUIT) // makes the process write to its log where it waits
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// judge looks for every closed content in the log. It gives up when the store has shown no more
// contents for patience. When it waited only 20 s, the contents of a whole round counted as lost
// although a busy machine was only slow.
func (p *place) judge(i int, begun, killed time.Time, fatal bool, writers []*writer, c *counts) (int, error) {
	start := time.Now()
	var missing []closed
	total, fewest, since := 0, -1, start
	for {
		asked := time.Now()
		list, err := p.log(int(time.Since(begun).Seconds()) + 2)
		if err != nil {
			return 0, err
		}
		have := map[string]bool{}
		for _, v := range list {
			if v.NoContent == "" {
				have[v.Hash] = true
			}
		}
		missing, total = nil, 0
		for _, w := range writers {
			for _, k := range w.done {
				total++
				if !have[k.hash] {
					missing = append(missing, k)
				}
			}
		}
		if fewest < 0 || len(missing) < fewest {
			fewest, since = len(missing), time.Now()
		}
		if len(missing) == 0 || asked.Sub(since) > patience {
			break
		}
		time.Sleep(300 * time.Millisecond) // pause, because each look at the log starts a process
	}
	c.ingest = append(c.ingest, time.Since(start))
	for _, w := range writers {
		for _, k := range w.done {
			c.closed++
			if k.synced {
				c.synced++
			}
		}
	}
	for _, k := range missing {
		age := killed.Sub(k.at).Round(time.Millisecond)
		switch {
		case k.synced:
			c.lostSynced++
		case !fatal || age > oldEnough || age < 0:
			c.lost++
		default:
			c.lostYoung++
			continue
		}
		fmt.Printf("round %d: LOST %s, closed %v before the kill, synced %v, %s\n", i+1, k.path, age, k.synced, k.hash[:12])
	}
	return total, nil
}
