package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"syscall"
	"time"

	"cachebro/store"
	"cachebro/store/keep"
	"cachebro/store/undo"
)

func cpu() time.Duration {
	var r syscall.Rusage
	syscall.Getrusage(0, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func main() {
	dir := os.Args[1]
	only := os.Args[2:]
	t0, c0 := time.Now(), cpu()
	s, err := store.Open(filepath.Join(dir, "store"), store.Options{})
	if err != nil {
		panic(err)
	}
	fmt.Println("open", time.Since(t0), cpu()-c0)
	do := func(name string, f func() string) {
		ok := len(only) == 0
		for _, o := range only {
			ok = ok || o == name
		}
		if !ok {
			return
		}
		p, _ := os.Create("/tmp/t/quiet/prof." + name)
		t, c := time.Now(), cpu()
		pprof.StartCPUProfile(p)
		what := f()
		pprof.StopCPUProfile()
		p.Close()
		fmt.Println(name, "wall", time.Since(t).Round(time.Millisecond), "cpu", (cpu() - c).Round(time.Millisecond), what)
	}
	ctx := context.Background()
	do("scan", func() string { n := 0; s.Each(func(store.Version) bool { n++; return true }); return fmt.Sprint(n) })
	do("log", func() string { vs, _, err := s.Log(store.Filter{Limit: 20}); return fmt.Sprint(len(vs), err) })
	do("live", func() string { n := 0; s.Live("", func(store.Version) error { n++; return nil }); return fmt.Sprint(n) })
	do("undoedits", func() string {
		p, err := (undo.Planner{Store: s}).Undo(undo.Query{Select: store.Filter{Session: "edits"}})
		return fmt.Sprint(len(p.Steps), err)
	})
	do("undorm", func() string {
		p, err := (undo.Planner{Store: s}).Undo(undo.Query{Select: store.Filter{Session: "removal"}})
		return fmt.Sprint(len(p.Steps), err)
	})
	do("blame", func() string { b, err := s.Blame("app.log", 0); return fmt.Sprint(len(b), err) })
	k := keep.New(s, nil)
	do("du", func() string { u, err := k.DU(ctx, 10, 10); return fmt.Sprint(u.Disk, err) })
	do("prune", func() string { u, err := k.Prune(ctx, 5); return fmt.Sprint(u, err) })
	do("prune2", func() string { u, err := k.Prune(ctx, 5); return fmt.Sprint(u, err) })
	do("fsck", func() string { u, err := s.Fsck(ctx, false, nil); return fmt.Sprint(u, err) })
}
