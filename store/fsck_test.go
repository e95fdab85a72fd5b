package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	badger "github.com/dgraph-io/badger/v4"
)

// noise returns lines of text that does not compress.
func noise(rnd *rand.Rand, lines int) []byte {
	var b bytes.Buffer
	for range lines {
		fmt.Fprintf(&b, "%016x%016x%016x\n", rnd.Uint64(), rnd.Uint64(), rnd.Uint64())
	}
	return b.Bytes()
}

// checked fails the test if fsck finds a problem.
func checked(t *testing.T, s *Store) {
	t.Helper()
	c, err := s.Fsck(context.Background(), false)
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
			txn.Delete(keyPath("f2", s.Seq()-1)),                // a missing path key
			txn.Delete(keyIndex(ixSession, "S", 3)),             // a missing session key
			txn.Delete(keyCurrent("f3")),                        // the missing key of a newest version
			txn.Set(keyPath("stray", 12345), []byte{}),          // a key that belongs to nothing
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
	c, err := s.Fsck(context.Background(), true)
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

// One run of fsck finds and repairs each kind of damage, so a second run finds nothing.
func TestFsckFindsEachDamage(t *testing.T) {
	del := func(k []byte) func(*badger.Txn) error { return func(txn *badger.Txn) error { return txn.Delete(k) } }
	set := func(k, v []byte) func(*badger.Txn) error { return func(txn *badger.Txn) error { return txn.Set(k, v) } }
	for _, d := range []struct {
		name, words string
		lost        int
		do          func(*Store, Version) func(*badger.Txn) error
	}{
		{"a content is gone", "its content is missing", 1, func(_ *Store, v Version) func(*badger.Txn) error { return del(append([]byte{'b'}, v.Blob[:]...)) }},
		{"a log entry is gone", `"p" key refers to nothing`, 0, func(_ *Store, v Version) func(*badger.Txn) error { return del(keyVersion(v.Seq)) }},
		{"the newest log entry of a path is gone", `the newest version of "f2" is not recorded`, 0, func(s *Store, _ Version) func(*badger.Txn) error { return del(keyVersion(s.Seq() - 1)) }},
		{"the only log entry of a path is gone", `"c" key refers to nothing`, 0, func(*Store, Version) func(*badger.Txn) error { return del(keyVersion(1)) }},
		{"a log entry cannot be read", "decode", 0, func(_ *Store, v Version) func(*badger.Txn) error { return set(keyVersion(v.Seq), []byte{0xff}) }},
		{"the only log entry of a path cannot be read", "decode", 0, func(*Store, Version) func(*badger.Txn) error { return set(keyVersion(1), []byte{0xff}) }},
		{"a path key is gone", "an index key is missing", 0, func(_ *Store, v Version) func(*badger.Txn) error { return del(keyPath(v.Path, v.Seq)) }},
		{"a session key is gone", "an index key is missing", 0, func(_ *Store, v Version) func(*badger.Txn) error { return del(keyIndex(ixSession, "S", v.Seq)) }},
		{"an index key without a version", `"i" key refers to nothing`, 0, func(*Store, Version) func(*badger.Txn) error { return set(keyIndex(ixPlan, "x", 4000), nil) }},
		{"a path key of another path's version", `"p" key refers to nothing`, 0, func(_ *Store, v Version) func(*badger.Txn) error { return set(keyPath("other", v.Seq), nil) }},
		{"a session key of another session's version", `"i" key refers to nothing`, 0, func(_ *Store, v Version) func(*badger.Txn) error { return set(keyIndex(ixSession, "T", v.Seq), nil) }},
		{"the newest version is an older one", "is not recorded", 0, func(_ *Store, v Version) func(*badger.Txn) error {
			return set(keyCurrent(v.Path), encodeCurrent(&v, encode(&v)))
		}},
		{"the newest version says something else", "is not recorded", 0, func(s *Store, _ Version) func(*badger.Txn) error {
			cur, _, _ := s.Current("f3")
			cur.Stat.Size++
			return set(keyCurrent("f3"), encodeCurrent(&cur, encode(&cur)))
		}},
		{"a time block is gone", "time block 0 is wrong", 0, func(*Store, Version) func(*badger.Txn) error { return del(keyTimes(0)) }},
		{"wrong counters", "the counters say", 0, func(s *Store, _ Version) func(*badger.Txn) error {
			s.next.Versions++
			return func(*badger.Txn) error { return nil }
		}},
	} {
		t.Run(d.name, func(t *testing.T) {
			s := fresh(t)
			rnd := rand.New(rand.NewPCG(1, 1))
			apply(t, s, file(OpWrite, "once", "a file of one version\n"))
			for i := range 20 {
				c := file(OpWrite, Path(fmt.Sprintf("f%d", i%4)), string(noise(rnd, 50)))
				c.Actor.Session = "S"
				apply(t, s, c)
			}
			checked(t, s)
			vs, err := s.History("f1", false)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.db.Update(d.do(s, vs[1])); err != nil {
				t.Fatal(err)
			}
			s.contents.Forget()
			s.current.Clear()
			c, err := s.Fsck(t.Context(), true)
			if err != nil || len(c.Lost) != d.lost {
				t.Fatalf("fsck: %v, %d versions have lost their content", err, len(c.Lost))
			}
			if !strings.Contains(strings.Join(c.Problems, "\n"), d.words) {
				t.Errorf("found %q", c.Problems)
			}
			checked(t, s)
			apply(t, s, file(OpWrite, "f1", "more\n"), file(OpWrite, "once", "more\n"))
			checked(t, s)
		})
	}
}
