package remote

import (
	"errors"
	"fmt"
	"testing"

	"cachebro/scripts/testkit/remotetest"
	"cachebro/scripts/testkit/storetest"
)

// TestNoRoomForAnotherMachine: a list of machines that was too long to be accepted used to be
// written all the same, and then nobody could read anything.
func TestNoRoomForAnotherMachine(t *testing.T) {
	srv := remotetest.New(t)
	p := place(t, srv, "app")
	added(t, storetest.Fresh(t), p)
	b, err := Dial(p)
	if err != nil {
		t.Fatal(err)
	}
	all, etag, err := b.machines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	one := all.Machines[0]
	each := len(seal("machines", false, all)) - len(seal("machines", false, machines{Machines: []Machine{}})) + 1
	for range (maxMachines - 200) / each {
		one.ID = fmt.Sprintf("%032x", len(all.Machines))
		all.Machines = append(all.Machines, one)
	}
	if _, err := b.put(t.Context(), "machines", seal("machines", false, all), etag); err != nil {
		t.Fatal(err)
	}
	var last error
	for range 4 {
		last = sender(t, storetest.Fresh(t)).Add(t.Context(), p, "box", nil)
	}
	if !errors.Is(last, ErrFull) {
		t.Errorf("beside %d machines: %v", len(all.Machines), last)
	}
	now, err := b.Machines(t.Context())
	if err != nil || len(now) < len(all.Machines) {
		t.Errorf("%d machines of %d, %v", len(now), len(all.Machines), err)
	}
}
