package daemon

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cachebro/store/leaf/event"
	"cachebro/store/wire"

	"github.com/klauspost/compress/zstd"
)

// A purged secret used to remain in the spool for some seconds, or permanently if the daemon ended
// sooner. Stored answers and the index contained it as well.
func TestPurgeReachesEverything(t *testing.T) {
	p := newProject(t)
	// Letters without repetitions would remain readable in compressed data.
	letters := []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
	random := rand.New(rand.NewSource(7))
	word := func() string {
		b := make([]byte, 24)
		for i := range b {
			b[i] = letters[random.Intn(len(letters))]
		}
		return string(b)
	}
	var secrets []string
	p.start()
	p.attach()
	c := p.dial("cli")
	eventually(t, "baseline", func() bool { return ask[wire.Status](p, c, wire.MStatus, wire.Empty{}).Baseline.Done })
	for _, name := range []string{"keys/a.txt", "keys/b.go"} {
		for range 3 {
			w := word()
			secrets = append(secrets, w)
			p.through(event.OpWrite, name, "token "+w+"\nand a line of words\n", nil)
		}
	}
	large := strings.Builder{}
	for range 4000 {
		large.WriteString(word() + "\n")
	}
	secrets = append(secrets, large.String()[50:74])
	p.through(event.OpWrite, "keys/large.txt", large.String(), nil)
	p.through(event.OpWrite, "other.txt", "nothing secret\n", nil)
	eventually(t, "everything is stored", func() bool { return ask[wire.Status](p, c, wire.MStatus, wire.Empty{}).Store.Lag == 0 })
	// An answer with the secret is stored, and the index has its words.
	eventually(t, "the index is ready", func() bool {
		a, err := wire.Call[wire.SearchAnswer](context.Background(), c, wire.MSearch, wire.SearchQuery{Mode: wire.SearchExact, Pattern: secrets[2]})
		return err == nil && len(a.Hits) > 0
	})
	holds := func() (where []string) {
		err := filepath.WalkDir(p.state, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return nil // it was removed during the walk
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return nil
			}
			for rest := b; ; { // the database's blocks are compressed
				i := bytes.Index(rest, []byte("\x28\xb5\x2f\xfd"))
				if i < 0 {
					break
				}
				rest = rest[i:]
				var h zstd.Header
				if h.Decode(rest) == nil && h.FrameContentSize < 64<<20 {
					if r, err := zstd.NewReader(bytes.NewReader(rest)); err == nil {
						text, _ := io.ReadAll(io.LimitReader(r, 64<<20)) // ends at the end of the frame, or fails if this is not a frame
						b = append(b, text...)
						r.Close()
					}
				}
				rest = rest[4:]
			}
			for _, s := range secrets {
				if bytes.Contains(b, []byte(s)) || bytes.Contains(b, bytes.ToLower([]byte(s))) {
					where = append(where, strings.TrimPrefix(path, p.state)+": "+s[:6])
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return where
	}
	// The facts about files are stored for bundles, and one of the bundles is stored, too.
	before, err := c.Call(context.Background(), wire.MContext, wire.ContextRequest{Ref: "keys/a.txt"}, nil, nil)
	if err != nil || !bytes.Contains(before, []byte(secrets[2])) {
		t.Fatalf("%s, %v", before, err)
	}
	if len(holds()) == 0 {
		t.Fatal("the secrets are nowhere before the purge: the test looks in the wrong place")
	}
	if err := os.RemoveAll(filepath.Join(p.root, "keys")); err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(wire.GitDir(p.state), "objects") // a purge does not look into them, and used not to say so
	if err := os.MkdirAll(kept, 0o700); err != nil {
		t.Fatal(err)
	}
	a := ask[wire.StoreAnswer](p, c, wire.MStore, wire.StoreRequest{Do: "purge", Path: []byte("keys")})
	for _, want := range []string{"purged keys", "rm -r " + filepath.Dir(kept) + "\n", "overwritten in the spool", "not reached: exports", "not reached: command lines"} {
		if !strings.Contains(a.Text, want) {
			t.Errorf("it does not say %q:\n%s", want, a.Text)
		}
	}
	// The library deletes the index's old files in the background.
	left := holds()
	for deadline := time.Now().Add(30 * time.Second); len(left) > 0 && time.Now().Before(deadline); left = holds() {
		time.Sleep(20 * time.Millisecond)
	}
	if len(left) > 0 {
		t.Errorf("left in %v", left)
	}
	// Everything that was not to be purged is still there.
	if body, err := c.Call(context.Background(), wire.MShow, wire.ShowQuery{Path: []byte("other.txt")}, nil, nil); err != nil || string(body) != "nothing secret\n" {
		t.Errorf("other.txt: %q, %v", body, err)
	}
}
