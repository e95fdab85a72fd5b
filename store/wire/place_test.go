package wire

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// The kernel reports changes of a path. Checking every few seconds would find them too late, and
// checking many times a second would keep an idle process awake.
func TestWait(t *testing.T) {
	if runtime.GOOS == "linux" {
		defer func(d time.Duration) { placeLookEvery = d }(placeLookEvery)
		placeLookEvery = time.Hour
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		do   func(top, dir, file string)
	}{
		{"file removed", func(_, _, file string) { must(os.Remove(file)) }},
		{"file renamed", func(_, _, file string) { must(os.Rename(file, file+"2")) }},
		{"file replaced", func(_, _, file string) {
			must(os.WriteFile(file+"2", nil, 0o600))
			must(os.Rename(file+"2", file))
		}},
		{"directory removed", func(_, dir, _ string) { must(os.RemoveAll(dir)) }},
		{"directory renamed", func(_, dir, _ string) { must(os.Rename(dir, dir+"2")) }},
		{"directory replaced", func(_, dir, file string) {
			must(os.Rename(dir, dir+"2"))
			must(os.Mkdir(dir, 0o700))
			must(os.WriteFile(file, nil, 0o600))
		}},
		{"directory above renamed", func(top, _, _ string) { must(os.Rename(top, top+"2")) }},
		{"all removed", func(top, _, _ string) { must(os.RemoveAll(top)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			top := filepath.Join(t.TempDir(), "top")
			dir := filepath.Join(top, "a", "b")
			file := filepath.Join(dir, "file")
			must(os.MkdirAll(dir, 0o700))
			must(os.WriteFile(file, nil, 0o600))
			held, err := os.Open(file) // held open like a lock, which keeps its directories from reporting their removal
			must(err)
			defer held.Close()
			there, err := SamePlace(file)
			must(err)
			looked := make(chan struct{}, 100)
			p := Place{file, func() error {
				err := there.Gone()
				select {
				case looked <- struct{}{}:
				default:
				}
				return err
			}}
			ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
			defer cancel()
			told := make(chan error, 1)
			go func() { told <- WaitGone(ctx, p) }()
			<-looked // it is watching
			c.do(top, dir, file)
			if err := <-told; err == nil {
				t.Error("not noticed")
			}
		})
	}
}
