package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	badger "github.com/dgraph-io/badger/v4"
)

// noise is text that does not compress, in lines.
func noise(rnd *rand.Rand, lines int) []byte {
	var b bytes.Buffer
	for range lines {
		fmt.Fprintf(&b, "%016x%016x%016x\n", rnd.Uint64(), rnd.Uint64(), rnd.Uint64())
	}
	return b.Bytes()
}

// checked fails the test when fsck finds anything.
func checked(t *testing.T, s *Store) {
	t.Helper()
	c, err := s.Fsck(context.Background(), false, nil)
	if err != nil || !c.OK() {
		t.Fatalf("fsck: %v %v %q", err, c.Unread, c.Problems)
	}
}

func TestFsckRepairs(t *testing.T) {
	s := fresh(t)
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range 20 {
		c := file(OpWrite, Path(fmt.Sprintf("f%d", i%4)), string(noise(rnd, 50)))
		c.Actor.Session = "S"
		apply(t, s, c)
	}
	checked(t, s)
	vs, _ := s.History("f1", true)
	err := s.db.Update(func(txn *badger.Txn) error {
		item, err := txn.Get(append([]byte{'b'}, vs[1].Blob[:]...))
		if err != nil {
			return err
		}
		val, _ := item.ValueCopy(nil)
		val[len(val)-9] ^= 0x40
		for _, err := range []error{
			txn.Set(append([]byte{'b'}, vs[1].Blob[:]...), val), // a flipped bit
			txn.Delete(append([]byte{'b'}, vs[2].Blob[:]...)),   // a missing content
			txn.Delete(keyPath("f2", s.Seq()-1)),                // index keys
			txn.Delete(keyIndex(ixSession, "S", 3)),             //
			txn.Delete(keyCurrent("f3")),                        // the newest version
			txn.Set(keyPath("stray", 12345), []byte{}),          // a key of nothing
		} {
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.contents.Forget()
	s.current.Clear()
	if _, err := s.Content(vs[1].Blob); !errors.Is(err, ErrDamaged) {
		t.Fatalf("damaged content: %v", err)
	}
	c, err := s.Fsck(context.Background(), true, nil)
	if err != nil || c.OK() || len(c.Lost) != 2 {
		t.Fatalf("fsck: %v %+v", err, c)
	}
	t.Logf("%d problems: %q", len(c.Problems), c.Problems)
	checked(t, s)
	for _, p := range []Path{"f0", "f1", "f2", "f3"} {
		contentOf(t, s, p)
	}
	if vs, _, err := s.Log(Filter{Session: "S"}); err != nil || len(vs) != 20 {
		t.Fatalf("log by session after repair: %d %v", len(vs), err)
	}
	v, err := s.Version(vs[1].Seq)
	if err != nil || v.NoContent != "damaged" {
		t.Fatalf("%+v %v", v, err)
	}
}
