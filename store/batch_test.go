package store

import (
	"math/rand/v2"
	"testing"
)

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
		_, op, class, known := skim(val[8:])
		if known && (op != v.Op || class != v.Class) || !known && v.Op != 0 {
			t.Fatalf("%+v: operation %d, %v", v, op, known)
		}
		for n := range min(len(val), 40) { // damage must give an error, not a crash
			_, _ = currentDeleted(val[:n])
		}
	}
}
