package fleet

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"cachebro/scripts/testkit/fleettest"
	"cachebro/scripts/testkit/remotetest"
	"cachebro/store"
)

// TestMachineDay measures how much space a machine's day takes in its bucket: 300 segments of one
// to six closes each, about 1,000 in all, with small changes of files of about 8 KB. Its figures
// are those in doc/fleet.md.
func TestMachineDay(t *testing.T) {
	srv := remotetest.New(t)
	p := at(t, srv, "app")
	rnd := rand.New(rand.NewPCG(3, 0))
	b := newBox(t, p, "host-17")
	files := map[store.Path][]string{}
	closes, closed := 0, int64(0)
	asked, took := srv.Asked(), srv.Took()
	for round := range 300 {
		session := fmt.Sprint("3f2a9c10-5a0c-4d6e-9e0b-", round/40)
		for range 1 + rnd.IntN(6) {
			path := store.Path(fmt.Sprintf("src/part%d/file%d.go", rnd.IntN(6), rnd.IntN(8)))
			if files[path] == nil {
				for range 200 {
					files[path] = append(files[path], fmt.Sprintf("	value%d := compute(%d, %q)\n", rnd.IntN(900), rnd.IntN(90), "some words"))
				}
			}
			for range 1 + rnd.IntN(4) {
				files[path][rnd.IntN(200)] = fmt.Sprintf("	changed%d := compute(%d, round)\n", rnd.IntN(9000), rnd.IntN(90))
			}
			text := strings.Join(files[path], "")
			closes++
			closed += int64(len(text))
			b.write(t, path, text, session, fmt.Sprint("toolu_", round))
		}
		b.send(t)
	}
	h := b.r.Head()
	requests, bytes := srv.Asked()-asked, srv.Took()-took
	kinds := map[string]int64{}
	for _, k := range srv.Objects() {
		_, rest, _ := strings.Cut(k, "app/")
		kind, _, _ := strings.Cut(rest, "/")
		kinds[kind] += int64(len(srv.Object(k)))
	}
	var machine int64
	if one, err := json.Marshal(h.Machine); err == nil {
		machine = int64(len(one)) + 1
	}
	t.Logf("%d closes, %d bytes: %d segments, %d requests (%.2f a segment), %d bytes sent", closes, closed, h.N, requests, float64(requests)/float64(h.N), bytes)
	t.Logf("in the bucket: contents %d, logs %d, lists %d, the head %d; a machine takes %d in the list of machines", kinds["contents"], kinds["logs"], kinds["lists"], kinds["heads"], machine)
	if perSegment := float64(requests) / float64(h.N); perSegment > 3.1 {
		t.Errorf("%.2f requests for a segment", perSegment)
	}

	d, err := Open(t.Context(), fleettest.Postgres(t), 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	asked = srv.Asked()
	if _, err := b.feed(t.Context(), t, d); err != nil {
		t.Fatal(err)
	}
	all := srv.Asked() - asked
	asked = srv.Asked()
	if _, err := b.feed(t.Context(), t, d); err != nil {
		t.Fatal(err)
	}
	t.Logf("index: %d requests for the day, %d where nothing is new", all, srv.Asked()-asked)
	if n := srv.Asked() - asked; n != 3 {
		t.Errorf("%d requests where nothing is new", n)
	}
}
