package daemon

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"cachebro/store/wire"
)

// Reads are recorded after their answers, by many readers at once. A request for the working set
// finds all of them, even after the daemon was restarted.
func TestReadsAreInTheWorkingSetAtOnce(t *testing.T) {
	p := newProject(t)
	p.write("a.txt", "one\n")
	p.write("b.txt", "two\n")
	p.start()
	const readers, each = 8, 37 // more than the queue holds
	var wg sync.WaitGroup
	for range readers {
		c := p.dial("hook")
		wg.Go(func() {
			for i := range each {
				q := wire.ReadRequest{Reader: wire.Reader{Session: "s"}, Path: []byte([]string{"a.txt", "b.txt"}[i%2]), Tool: "read"}
				if _, err := c.Call(context.Background(), wire.MRead, q, nil, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	want := fmt.Sprint(readers * each)
	reads := func() string {
		n := 0
		for _, f := range ask[wire.WorkingSet](p, p.dial("cli"), wire.MWorkingSet, wire.WorkingSetQuery{Session: "s"}).Files {
			n += f.Reads
		}
		return fmt.Sprint(n)
	}
	if got := reads(); got != want {
		t.Errorf("%s reads are in the working set, want %s", got, want)
	}
	q := wire.ReadRequest{Reader: wire.Reader{Session: "s"}, Path: []byte("a.txt"), Tool: "read"}
	if _, err := p.dial("hook").Call(context.Background(), wire.MRead, q, nil, nil); err != nil {
		t.Fatal(err)
	}
	p.end()
	p.start()
	if got, want := reads(), fmt.Sprint(readers*each+1); got != want {
		t.Errorf("after a restart %s reads are in the working set, want %s", got, want)
	}
}
