package remote

import (
	"bytes"
	"errors"
	"math/rand"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cachebro/scripts/testkit/remotetest"
	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
	"cachebro/store/portable"

	"filippo.io/age"
)

// key makes a new key, and returns its recipient and the file with its identity.
func key(t testing.TB) (recipient, file string) {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "key.txt")
	if err := os.WriteFile(file, []byte("# made by a test\n"+id.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return id.Recipient().String(), file
}

// with reads a history with the key in a file; "" means without a key.
func with(t testing.TB, p Place, machine, file string) (*store.Store, Head, error) {
	t.Helper()
	b, err := Dial(p)
	if err != nil {
		t.Fatal(err)
	}
	if file != "" {
		if err := b.Unlock(file); err != nil {
			t.Fatal(err)
		}
	}
	h, err := b.Head(t.Context(), machine)
	if err != nil {
		return nil, h, err
	}
	dir := filepath.Join(t.TempDir(), "store")
	err = portable.Create(t.Context(), dir, storetest.Options(), func(s *store.Store) error { return b.Fill(t.Context(), h, s, here) })
	if err != nil {
		return nil, h, err
	}
	return storetest.Open(t, dir, storetest.Options()), h, nil
}

// The objects in the bucket show nothing of the project. Each key decrypts them; other keys do
// not. A machine that continues the history encrypts for the same keys.
func TestEncrypted(t *testing.T) {
	srv := remotetest.New(t)
	p := place(t, srv, "app")
	rnd := rand.New(rand.NewSource(31))
	a, fileA := key(t)
	b, fileB := key(t)
	_, wrong := key(t)
	s := storetest.Fresh(t)
	r := sender(t, s)
	if err := r.Add(t.Context(), p, "secret-host", []string{a, b}); err != nil {
		t.Fatal(err)
	}
	srv.Break(func(*http.Request) remotetest.Fault {
		if rnd.Intn(6) == 0 {
			return remotetest.Fault(rnd.Intn(int(remotetest.Faults)))
		}
		return remotetest.None
	})
	for round := range listAfter + 8 {
		life(t, s, rnd, round)
		if _, err := r.Send(t.Context()); err != nil && rnd.Intn(2) == 0 {
			r = sender(t, s)
		}
	}
	srv.Break(nil)
	sendAll(t, r)
	id := r.Head().Machine.ID
	sameAs := func(s *store.Store, id, file string) Head {
		t.Helper()
		got, h, err := with(t, p, id, file)
		if err != nil {
			t.Fatal(err)
		}
		sameHistory(t, s, got)
		if h.Machine.Name == "" || h.Machine.Root != "/p" {
			t.Errorf("the key opens the contents, but not the names: %+v", h.Machine)
		}
		return h
	}
	h := sameAs(s, id, fileA)
	sameAs(s, id, fileB)
	for file, says := range map[string]string{"": "needed", wrong: "given keys"} {
		if _, h, err := with(t, p, id, file); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), says) || h.Machine.Name != "" {
			t.Errorf("key %q: %v, %+v", file, err, h.Machine)
		}
	}

	heir, _, err := with(t, p, id, fileA)
	if err != nil {
		t.Fatal(err)
	}
	if err := SetOrigin(heir, p, h); err != nil {
		t.Fatal(err)
	}
	srv.Pass(Lease)
	rh := sender(t, heir)
	if err := rh.Add(t.Context(), p, "secret-heir", nil); err != nil {
		t.Fatal(err)
	}
	life(t, heir, rnd, 100)
	sendAll(t, rh)
	if rh.Head().Machine.ID != id {
		t.Error(rh.Note())
	}
	if h := sameAs(heir, id, fileB); h.Machine.Name != "secret-heir" {
		t.Errorf("%+v", h.Machine)
	}
	if _, err := r.Send(t.Context()); err != nil {
		t.Errorf("nothing new: %v", err)
	}
	life(t, s, rnd, 101)
	if _, err := sender(t, s).Send(t.Context()); !errors.Is(err, ErrTaken) {
		t.Errorf("the old one: %v", err)
	}
	if err := sender(t, s).Add(t.Context(), p, "secret-host", nil); err != nil {
		t.Fatal(err)
	}
	r = sender(t, s)
	sendAll(t, r)
	sameAs(s, r.Head().Machine.ID, fileB)

	// A machine without encryption is refused if the others encrypt.
	if err := sender(t, storetest.Fresh(t)).Add(t.Context(), p, "box", nil); !errors.Is(err, errBare) {
		t.Errorf("one without encryption: %v", err)
	}
	for _, k := range srv.Objects() {
		o := srv.Object(k)
		for _, clear := range []string{"secret", "\"/p\"", "claude", "round", "remember", "TOP-SECRET", "do it", "d0/f1", "cachebro-log", "cachebro-contents", a, b} {
			if bytes.Contains(o, []byte(clear)) || strings.Contains(k, clear) {
				t.Errorf("%s shows %q", k, clear)
			}
		}
		// Everything except lists of numbers is encrypted by age, not just compressed.
		if !bytes.HasPrefix(o, []byte(ageMagic)) && !bytes.HasPrefix(o, []byte("cachebro-remote 2 ")) {
			t.Errorf("%s begins with %.40q", k, o)
		}
	}
}

// An object that can be decrypted must still match the chain of hashes.
func TestEncryptedHostileBucket(t *testing.T) {
	srv := remotetest.New(t)
	p := place(t, srv, "app")
	rnd := rand.New(rand.NewSource(32))
	to, file := key(t)
	s := storetest.Fresh(t)
	r := sender(t, s)
	if err := r.Add(t.Context(), p, "box", []string{to}); err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		life(t, s, rnd, round)
		sendAll(t, r)
	}
	id := r.Head().Machine.ID
	for _, k := range srv.Objects() {
		if strings.HasSuffix(k, "/machines") {
			continue
		}
		was := srv.Object(k)
		flipped := bytes.Clone(was)
		flipped[len(flipped)-2] ^= 1
		forged, err := encrypted([]byte("something else"), []string{to})
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range [][]byte{flipped, was[:len(was)-1], forged} {
			srv.Set(k, o)
			if _, _, err := with(t, p, id, file); !errors.Is(err, ErrForged) {
				t.Errorf("%s, %d: %v", k, i, err)
			}
		}
		srv.Set(k, was)
	}
	var h Head
	if err := unseal("head", id, srv.Object("app/"+headKey(id)), &h); err != nil {
		t.Fatal(err)
	}
	for _, sealed := range []string{"x", "AAAA", h.Machine.Sealed[:len(h.Machine.Sealed)/2/4*4]} {
		forged := h
		forged.Machine.Sealed = sealed
		srv.Set("app/"+headKey(id), seal("head", true, forged))
		if _, _, err := with(t, p, id, file); !errors.Is(err, ErrForged) {
			t.Errorf("names %.20q: %v", sealed, err)
		}
	}
	srv.Set("app/"+headKey(id), seal("head", true, h))
	if got, _, err := with(t, p, id, file); err != nil {
		t.Error(err)
	} else {
		sameHistory(t, s, got)
	}
}

func TestRecipientsAndIdentities(t *testing.T) {
	to, file := key(t)
	if err := CheckRecipients([]string{to}); err != nil {
		t.Error(err)
	}
	secret, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "age1", to + "\n" + to, " " + to, "ssh-ed25519 AAAA", strings.TrimSpace(strings.SplitN(string(secret), "\n", 2)[1])} {
		if err := CheckRecipients([]string{to, bad}); err == nil || strings.Contains(err.Error(), "SECRET-KEY") {
			t.Errorf("%q is taken for a recipient", bad)
		}
	}
	b := &Bucket{}
	for _, text := range []string{"", "# nothing\n", to, "AGE-SECRET-KEY-1NOT-A-KEY-BUT-A-SECRET"} {
		name := filepath.Join(t.TempDir(), "k")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := b.Unlock(name); err == nil || strings.Contains(err.Error(), "SECRET-KEY") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := b.Unlock(file); err != nil {
		t.Error(err)
	}
}
