package store_test

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"cachebro/store"
	"cachebro/store/undo"

	"golang.org/x/sys/unix"
)

// BenchmarkBurst measures what the daemon does while 10,000 small files are unpacked, removed and
// restored. The changes come in batches of the size that ingestion uses. It prints the CPU time of
// each part, in milliseconds per 1,000 files.
func BenchmarkBurst(b *testing.B) {
	const files, perDir, batch = 10_000, 50, 256
	name := func(i int) store.Path { return store.Path(fmt.Sprintf("tree/d%d/f%d.txt", i/perDir, i)) }
	dirName := func(i int) store.Path { return store.Path(fmt.Sprintf("tree/d%d", i/perDir)) }
	content := func(i int) []byte {
		var text []byte
		for l := range 20 + i%60 {
			text = fmt.Appendf(text, "line %d of file %d, which has some words in it\n", l, i)
		}
		return text
	}
	spent := map[string]float64{}
	var order []string
	for range b.N {
		s, err := store.Open(filepath.Join(b.TempDir(), "store"), store.Options{Ballast: -1, MinFree: 1 << 20})
		if err != nil {
			b.Fatal(err)
		}
		var cs []store.Change
		at, ino, who := int64(1), uint64(0), store.SessionID("")
		flush := func() {
			if _, err := s.Apply(context.Background(), cs, fmt.Appendf(nil, "%d", at)); err != nil {
				b.Fatal(err)
			}
			cs = cs[:0]
		}
		add := func(c store.Change) {
			at++
			c.Time, c.Actor = at*1e6, store.Actor{PID: 7, Start: 77, Comm: "tar", Args: "tar xf x.tar", Session: who}
			if cs = append(cs, c); len(cs) == batch {
				flush()
			}
		}
		part := func(what string, do func()) {
			who = store.SessionID(what)
			began := cpuTime()
			do()
			flush()
			if spent[what] == 0 {
				order = append(order, what)
			}
			spent[what] += float64(cpuTime()-began) / 1e6 / (files / 1000)
		}
		stat := func(kind uint32) store.Stat {
			ino++
			return store.Stat{Dev: 1, Ino: ino, Birth: at, Mode: kind | 0o755, Nlink: 1, Mtime: at * 1e6, Ctime: at * 1e6}
		}
		make := func(plan string) {
			for i := range files {
				if i == 0 {
					add(store.Change{Op: store.OpMkdir, Path: "tree", Stat: stat(unix.S_IFDIR), Plan: plan})
				}
				if i%perDir == 0 {
					add(store.Change{Op: store.OpMkdir, Path: dirName(i), Stat: stat(unix.S_IFDIR), Plan: plan})
				}
				c := store.Change{Op: store.OpCreate, Path: name(i), Stat: stat(unix.S_IFREG), HasContent: true, Content: content(i), Plan: plan}
				c.Stat.Size, c.Node = int64(len(c.Content)), ino
				add(c)
			}
		}
		part("unpack", func() { make("") })
		remove := func() {
			for i := range files {
				add(store.Change{Op: store.OpUnlink, Path: name(i), Stat: store.Stat{Mode: unix.S_IFREG | 0o644, Nlink: 1}, LastName: true})
				if i%perDir == perDir-1 {
					add(store.Change{Op: store.OpRmdir, Path: dirName(i), Stat: store.Stat{Mode: unix.S_IFDIR | 0o644}})
				}
			}
			add(store.Change{Op: store.OpRmdir, Path: "tree", Stat: store.Stat{Mode: unix.S_IFDIR | 0o644}})
		}
		part("rm -rf", remove)
		var p *undo.Draft
		part("plan", func() {
			if p, err = (undo.Planner{Store: s}).Undo(undo.Query{Select: store.Filter{Session: "rm -rf"}}); err != nil || len(p.Steps) != files+files/perDir+1 {
				b.Fatal(err, len(p.Steps))
			}
		})
		part("begin", func() {
			if err := s.Journal.Begin(context.Background(), &p.Plan, p.Made); err != nil {
				b.Fatal(err)
			}
		})
		part("fetch", func() {
			for _, st := range p.Steps {
				if _, ok := p.Read[st.Blob]; st.Do == store.DoWrite && !ok {
					if _, err := s.Content(st.Blob); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
		part("bring back", func() { make(p.ID) })
		part("rm -rf again", remove)
		part("pack", func() {
			if err := s.Repack(context.Background()); err != nil {
				b.Fatal(err)
			}
		})
		part("plan, packed", func() {
			if p, err = (undo.Planner{Store: s}).Undo(undo.Query{Select: store.Filter{Session: "rm -rf again"}}); err != nil || len(p.Steps) != files+files/perDir+1 {
				b.Fatal(err, len(p.Steps))
			}
		})
		part("fetch, packed", func() {
			for _, st := range p.Steps {
				if st.Do == store.DoWrite {
					if _, err := s.Content(st.Blob); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	for _, what := range order {
		b.Logf("%-14s %6.1f ms of CPU per 1,000 files", what, spent[what]/float64(b.N))
	}
}

// cpuTime returns the user and system time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
