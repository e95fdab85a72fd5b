//go:build linux

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The power test cuts the power of a disk. Project and state are on a separate ext4 file system. It
// is shut down in the middle of the work (EXT4_IOC_SHUTDOWN without flushing the journal), so that
// the disk has only data that was made durable. Then all processes are killed, and the file system
// is mounted again, which replays its journal, as after a reset.
const (
	diskSize      = 2 << 30
	shutdownIoctl = 0x8004587d // _IOR('X', 125, __u32)
	shutdownNow   = 2          // do not flush the journal
)

// disk is an ext4 file system in a file.
type disk struct{ image, at string }

func newDisk(base string) (*disk, error) {
	d := &disk{filepath.Join(base, "disk.img"), filepath.Join(base, "disk")}
	f, err := os.Create(d.image)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Truncate(diskSize), f.Close(), os.Mkdir(d.at, 0o700)); err != nil {
		return nil, err
	}
	if err := command("mkfs.ext4", "-q", "-F", d.image); err != nil {
		return nil, err
	}
	return d, d.mount()
}

func (d *disk) mount() error { return command("mount", "-o", "loop", d.image, d.at) }

// cut stops all writing to the disk at once.
func (d *disk) cut() error {
	f, err := os.Open(d.at)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), shutdownIoctl, shutdownNow); err != nil {
		return fmt.Errorf("shut the file system down: %w", err)
	}
	return nil
}

// unmount unmounts the disk. It tries again while processes that have just been killed still use
// it.
func (d *disk) unmount() (err error) {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		err = syscall.Unmount(d.at, 0)
		if err == nil || err == syscall.EINVAL {
			return nil
		}
	}
	return fmt.Errorf("unmount %s: %w", d.at, err)
}

func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w: %.300s", name, args, err, out)
	}
	return nil
}

// durable records the contents that one writer wrote, and which of them an fsync made durable.
type durable struct {
	contents map[string]string          // hash → name
	newest   map[string]string          // name → hash of the newest synced content; the file may have a later one
	later    map[string]map[string]bool // name → hashes of the contents that the writer began to write after newest
	slow     int
	loose    map[string]bool // contents that were closed but not synced
}

// writeDurably writes until the disk is gone. A content counts as durable if an fsync that began
// after its close has returned, because fsync waits until pending versions are stored. An fsync
// that returns while the power is being cut does not count, because the project's file may be
// durable although the state is lost.
func writeDurably(dir string, n int, seed int64, cut *atomic.Bool, stop <-chan struct{}) durable {
	d := durable{contents: map[string]string{}, newest: map[string]string{}, later: map[string]map[string]bool{}, loose: map[string]bool{}}
	rng := rand.New(rand.NewSource(seed + int64(n)))
	for i := 0; ; i++ {
		select {
		case <-stop:
			return d
		default:
		}
		name := filepath.Join(dir, fmt.Sprintf("w%d-%d.txt", n, rng.Intn(20)))
		text := make([]byte, 100+rng.Intn(30_000))
		for k := range text {
			text[k] = byte(' ' + rng.Intn(90))
		}
		sum := sha256.Sum256(text)
		hash := hex.EncodeToString(sum[:])
		if d.later[name] == nil {
			d.later[name] = map[string]bool{}
		}
		d.later[name][hash] = true
		if os.WriteFile(name, text, 0o644) != nil {
			return d
		}
		if rng.Intn(3) == 0 {
			d.loose[hash] = true
			continue
		}
		start := time.Now()
		f, err := os.Open(name)
		if err != nil {
			return d
		}
		err = f.Sync()
		if err != nil || cut.Load() {
			f.Close()
			return d
		}
		if f.Close() != nil {
			return d
		}
		if time.Since(start) > time.Second {
			d.slow++ // fsync waits for a slow store only for a limited time, and then returns before the versions are stored
			continue
		}
		d.contents[hash], d.newest[name] = name, hash
		clear(d.later[name])
	}
}

func powerCuts(s settings) (err error) {
	base, err := os.MkdirTemp(s.dir, "cachebro-power")
	if err != nil {
		return err
	}
	d, err := newDisk(base)
	if err != nil {
		return errors.Join(err, os.RemoveAll(base))
	}
	s.dir = d.at
	p, err := newPlace(s)
	if err != nil {
		return errors.Join(err, d.unmount(), os.RemoveAll(base))
	}
	defer func() {
		err = errors.Join(err, p.remove(false), d.unmount())
		if s.keep || err != nil {
			fmt.Println("left in", base)
		} else {
			err = os.RemoveAll(base)
		}
	}()
	fmt.Printf("seed %d, %d writers, %d cuts\n", s.seed, s.writers, s.rounds)
	rng := rand.New(rand.NewSource(s.seed))
	synced, lost, damaged := 0, 0, 0
	for i := range s.rounds {
		all, err := p.cutOnce(d, rng, s, int64(i))
		if err != nil {
			return fmt.Errorf("cut %d: %w", i+1, err)
		}
		n, l, dam, err := p.afterCut(i, all)
		synced, lost, damaged = synced+n, lost+l, damaged+dam
		if err != nil {
			return fmt.Errorf("cut %d: %w", i+1, err)
		}
	}
	fmt.Printf("power cuts %d (store clean after each), contents fsynced %d, versions of them lost %d, files damaged %d\n", s.rounds, synced, lost, damaged)
	if lost+damaged > 0 {
		return errors.New("something that was synced is gone")
	}
	return nil
}

// cutOnce mounts the project, writes, cuts the power and mounts the disk again.
func (p *place) cutOnce(d *disk, rng *rand.Rand, s settings, round int64) ([]durable, error) {
	if _, err := p.cachebro("mount", p.dir); err != nil {
		return nil, err
	}
	all := make([]durable, s.writers)
	stop := make(chan struct{})
	var cutting atomic.Bool
	var wg sync.WaitGroup
	for n := range all {
		wg.Go(func() { all[n] = writeDurably(p.dir, n, s.seed+1000*round, &cutting, stop) })
	}
	time.Sleep(time.Duration(2000+rng.Intn(6000)) * time.Millisecond)
	cutting.Store(true)
	err := d.cut()
	close(stop)
	for _, sub := range []string{"supervise", "daemon", "mountd"} {
		if pid := p.processes()[sub]; pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	wg.Wait()
	for deadline := time.Now().Add(20 * time.Second); len(p.processes()) > 0 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		for _, pid := range p.processes() { // look again, because a killed process may just have started another process
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if p.mounted() {
		err = errors.Join(err, syscall.Unmount(p.dir, syscall.MNT_DETACH))
	}
	return all, errors.Join(err, d.unmount(), d.mount())
}

// afterCut looks for the synced contents in the project's files and in the log.
func (p *place) afterCut(round int, all []durable) (synced, lost, damaged int, err error) {
	for _, w := range all {
		for name, hash := range w.newest {
			b, rerr := os.ReadFile(name)
			sum := sha256.Sum256(b)
			if got := hex.EncodeToString(sum[:]); rerr == nil && (got == hash || w.later[name][got]) {
				continue
			}
			if rerr == nil && len(w.later[name]) > 0 {
				continue // a later write had emptied the file (O_TRUNC) when the power was cut
			}
			damaged++
			fmt.Printf("cut %d: DAMAGED %s: %d bytes, %v\n", round+1, filepath.Base(name), len(b), rerr)
		}
	}
	if _, err := p.cachebro("mount", p.dir); err != nil {
		return synced, lost, damaged, err
	}
	if out, err := p.cachebro("store", "fsck", "--dir", p.dir); err != nil {
		return synced, lost, damaged, fmt.Errorf("%w\n%s", err, out)
	}
	var missing map[string]string
	loose, gone := 0, 0 // contents that were not synced, and how many of them were lost; if none ever is, the test proves nothing
	for deadline := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		list, err := p.log(24 * 3600)
		if err != nil {
			return synced, lost, damaged, err
		}
		have := map[string]bool{}
		for _, v := range list {
			have[v.Hash] = have[v.Hash] || v.NoContent == ""
		}
		missing, synced, loose, gone = map[string]string{}, 0, 0, 0
		for _, w := range all {
			synced += len(w.contents)
			loose += len(w.loose)
			for hash := range w.loose {
				if !have[hash] {
					gone++
				}
			}
			for hash, name := range w.contents {
				if !have[hash] {
					missing[hash] = name
				}
			}
		}
		if len(missing) == 0 || time.Now().After(deadline) {
			break
		}
	}
	for hash, name := range missing {
		fmt.Printf("cut %d: LOST a version of %s, %s\n", round+1, filepath.Base(name), hash[:12])
	}
	if _, err := p.cachebro("umount", p.dir); err != nil {
		return synced, len(missing), damaged, err
	}
	slow := 0
	for _, w := range all {
		slow += w.slow
	}
	fmt.Printf("cut %d: %d contents fsynced, %d versions lost, %d files damaged, %d fsyncs too slow to count; of %d others %d lost\n",
		round+1, synced, len(missing), damaged, slow, loose, gone)
	return synced, len(missing), damaged, nil
}
