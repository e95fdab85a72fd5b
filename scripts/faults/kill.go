package main

import (
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// oldEnough: content closed so long before a kill must never be lost; younger
// only if it was synced.
const oldEnough = time.Second

// patience is how long the store may take to show one more content: on a busy
// machine it gets on slowly, and what comes late is not lost.
const patience = 90 * time.Second

// counts are what the kill test prints.
type counts struct {
	rounds, kills             int
	killed                    map[string]int
	closed, synced            int
	damaged, lost, lostYoung  int
	lostSynced, noticed, late int
	detached                  int
	fsck                      int
	back                      []time.Duration
	ingest                    []time.Duration
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
	fmt.Printf("seed %d, %d writers, %d rounds\n", s.seed, s.writers, s.rounds)
	for i := range s.rounds {
		if err := p.round(i, s, rng, writers, stop, &c); err != nil {
			c.print()
			return fmt.Errorf("round %d: %w", i+1, err)
		}
		c.rounds++
		if (i+1)%s.every == 0 || i+1 == s.rounds {
			c.fsck++
			if out, err := p.cachebro("fsck", "--dir", p.dir); err != nil {
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

// victims are who dies in a round, and how long after the one before.
func victims(rng *rand.Rand) (names []string, pauses []time.Duration) {
	short := time.Duration(rng.Intn(200)) * time.Millisecond
	switch rng.Intn(8) {
	case 0, 1, 2:
		return []string{"mountd"}, []time.Duration{0}
	case 3:
		return []string{"daemon"}, []time.Duration{0}
	case 4:
		return []string{"supervise"}, []time.Duration{0}
	case 5:
		return []string{"daemon", "mountd"}, []time.Duration{0, short}
	case 6:
		return []string{"supervise", "daemon"}, []time.Duration{0, short}
	}
	// Mountd needs a moment to get another supervisor.
	return []string{"supervise", "mountd"}, []time.Duration{0, 500*time.Millisecond + short}
}

// round writes, kills, waits for the project to be back and checks everything.
func (p *place) round(i int, s settings, rng *rand.Rand, writers []*writer, stop *atomic.Bool, c *counts) error {
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
	time.Sleep(time.Duration(200+rng.Intn(1800)) * time.Millisecond)
	names, pauses := victims(rng)
	fatal := false
	var killed time.Time
	for n, name := range names {
		time.Sleep(pauses[n])
		pid := p.processes()[name]
		if pid == 0 {
			return fmt.Errorf("no %s is running", name)
		}
		if name == "mountd" {
			fatal, killed = true, time.Now()
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return fmt.Errorf("kill %s: %w", name, err)
		}
		c.kills++
		c.killed[name]++
	}
	if fatal { // another one takes over while the writers go on
		p.readable(killed, c)
	}
	time.Sleep(time.Duration(rng.Intn(700)) * time.Millisecond)
	stop.Store(true)
	if !fatal {
		killed = time.Now()
	}
	wg.Wait()
	if fatal && !p.mounted() {
		c.detached++
	}
	for _, w := range writers {
		if w.err != nil {
			c.noticed++
			fmt.Printf("round %d (%s): %s: %v\n", i+1, strings.Join(names, ", "), w.rel, w.err)
		}
		for _, bad := range w.damaged() {
			c.damaged++
			fmt.Printf("round %d (%s): DAMAGED %s\n", i+1, strings.Join(names, ", "), bad)
		}
	}
	n, err := p.judge(i, begun, killed, fatal, writers, c)
	if s.verbose {
		fmt.Printf("round %d: %s, %d contents\n", i+1, strings.Join(names, ", "), n)
	}
	return err
}

// readable measures how long the project could not be used.
func (p *place) readable(since time.Time, c *counts) {
	for {
		// A path anew: a descriptor from before would stay in the dead mount.
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
		time.Sleep(5 * time.Millisecond)
	}
}

// judge looks for every closed content in the log. The store gets patience to
// take in what the spool holds: on a machine that is busy otherwise 20 s were too
// few, and a whole round that was only late was called lost.
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
		time.Sleep(100 * time.Millisecond)
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
