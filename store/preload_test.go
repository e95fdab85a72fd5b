package store

import (
	"fmt"
	"math/rand/v2"
	"path"
	"reflect"
	"slices"
	"testing"
)

// TestBatchesMakeTheSameVersions: what is read beforehand for a large batch, and
// what a walk is given up for, must not change what becomes of its changes.
func TestBatchesMakeTheSameVersions(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	x := newTree()
	x.actor = Actor{PID: 7, Comm: "test", Session: "s"}
	var cs []Change
	for d := range 30 {
		cs = append(cs, x.mkdir(Path(fmt.Sprintf("d%d", d)), dirMode))
	}
	some := func() Path { return Path(fmt.Sprintf("d%d/f%d", rng.IntN(30), rng.IntN(40))) }
	for len(cs) < 3000 {
		p := some()
		dir := Path(path.Dir(string(p)))
		switch n := rng.IntN(20); {
		case x.files[dir] == nil:
			cs = append(cs, x.mkdir(dir, dirMode))
		case n == 0: // rm -rf
			for _, k := range x.paths(func(k Path, _ *inodeModel) bool { return k != dir && inside(k, dir) }) {
				if rng.IntN(10) > 0 { // one went away unseen
					cs = append(cs, x.remove(k))
				} else {
					delete(x.files, k)
				}
			}
			cs = append(cs, x.remove(dir))
		case n < 6 && x.files[p] != nil:
			cs = append(cs, x.remove(p))
		case n < 8 && x.files[p] != nil:
			if to := some(); x.files[Path(path.Dir(string(to)))] != nil && x.files[to] == nil {
				cs = append(cs, x.rename(p, to))
			}
		default:
			cs = append(cs, x.write(p, fmt.Sprintf("text %d of %s\n", rng.IntN(50), p)))
		}
	}
	one, many := fresh(t), fresh(t)
	for i := range cs {
		c := cs[i]
		apply(t, one, c)
	}
	for rest := cs; len(rest) > 0; {
		n := min(len(rest), 1+rng.IntN(400))
		apply(t, many, slices.Clone(rest[:n])...)
		if rest = rest[n:]; rng.IntN(3) == 0 {
			many.current.Clear()
		}
	}
	want, err := one.Since(0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	got, err := many.Since(0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Fatalf("%d versions in batches, %d one by one", len(got), len(want))
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("version %d in batches:\n%+v\none by one:\n%+v", i, got[i], want[i])
		}
	}
	if a, b := one.Stats(), many.Stats(); a.Files != b.Files || a.Blobs != b.Blobs {
		t.Errorf("counted %+v in batches, %+v one by one", b, a)
	}
	checked(t, many)
}

func TestCurrentDeletedIsWhatDecodingSays(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 4_000 {
		v := Version{Op: Op(rng.IntN(int(OpSeen) + 2)), Class: Class(rng.IntN(3)), Time: rng.Int64(), Seq: uint64(i)}
		if n := rng.IntN(5); n > 0 {
			b := make([]byte, rng.IntN(1<<(4*n)))
			for i := range b {
				b[i] = byte(rng.IntN(255) + 1)
			}
			v.Path = Path(b)
		}
		if rng.IntN(2) == 0 {
			v.Stat, v.Actor, v.Blob = Stat{Mode: fileMode, Size: 7}, Actor{PID: 7, Comm: "x"}, Hash{1}
			v.From, v.To, v.Plan, v.Prev, v.Idle, v.Target, v.NoContent = "a", "b", "p", 3, true, "t", "gap"
		}
		val := encodeCurrent(&v, encode(&v))
		if got, err := currentDeleted(val); err != nil || got != v.Deleted() {
			t.Fatalf("%+v: deleted is %v, %v", v, got, err)
		}
		op, known := opIn(val[8:])
		if known && op != v.Op || !known && v.Op != 0 {
			t.Fatalf("%+v: operation %d, %v", v, op, known)
		}
		for n := range min(len(val), 40) { // damage ends in an error, not in a fault
			_, _ = currentDeleted(val[:n])
		}
	}
}
