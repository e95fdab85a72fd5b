package changes

import (
	"fmt"
	"math/rand"
	"slices"
	"strconv"
	"testing"
	"time"
)

// ask calls Since and sorts the paths.
func ask(t *testing.T, j *Tracker, token string) (next string, paths []string, all bool) {
	t.Helper()
	next, paths, all = j.Since(token)
	slices.Sort(paths)
	return next, paths, all
}

func TestSince(t *testing.T) {
	j := New(0)
	if j.Active() {
		t.Fatal("active before anybody asked")
	}
	j.Note("before")
	t0, paths, all := ask(t, j, "")
	if !all || len(paths) > 0 {
		t.Fatalf("first question: %q, all %v", paths, all)
	}
	j.Note("b")
	j.Note("a")
	j.Note("a")
	if !j.Fresh("a") || j.Fresh("before") {
		t.Error("Fresh does not tell what was noted since the last question")
	}
	t1, paths, all := ask(t, j, t0)
	if all || !slices.Equal(paths, []string{"a", "b"}) {
		t.Fatalf("since the first question: %q, all %v", paths, all)
	}
	if j.Fresh("a") {
		t.Error("fresh after a question")
	}
	j.Note("a")
	if t2, paths, all := ask(t, j, t1); all || !slices.Equal(paths, []string{"a"}) {
		t.Fatalf("since the second: %q, all %v", paths, all)
	} else if _, paths, all = ask(t, j, t2); all || len(paths) > 0 {
		t.Fatalf("nothing happened: %q, all %v", paths, all)
	}
	// An older token can still be used, because git need not store every token into its index.
	if _, paths, all = ask(t, j, t0); all || !slices.Equal(paths, []string{"a", "b"}) {
		t.Fatalf("since the first, later: %q, all %v", paths, all)
	}
}

// TestDoubt: if a token may belong to another tracker, or a change since the token could be missed,
// the answer is that everything may have changed.
func TestDoubt(t *testing.T) {
	j := New(0)
	good, _, _ := j.Since("")
	other, _, _ := New(0).Since("")
	gen := j.Gen()
	for _, token := range []string{
		"", "0", "1700000000000000000", "cachebro:1:", "cachebro:1:" + j.epoch, "cachebro:1:" + j.epoch + ":x:0", good + ":0", good + "x", "x" + good,
		"cachebro:1:" + j.epoch + ":" + strconv.FormatUint(gen+100, 10) + ":0", "cachebro:1:" + j.epoch + ":-1:0", "cachebro:1:" + j.epoch + ":0:0",
		"cachebro:2:" + good[len("cachebro:1:"):], "cachebro:1:" + j.epoch + ":" + strconv.FormatUint(gen, 10) + ":-1", other,
	} {
		if _, _, all := j.Since(token); !all {
			t.Errorf("token %q is believed", token)
		}
	}
	if _, _, all := j.Since(good); all {
		t.Error("a good token is not believed")
	}
	j.Everything()
	if j.Active() {
		t.Error("active after everything changed")
	}
	next, _, all := j.Since(good)
	if !all {
		t.Error("a token from before everything changed is believed")
	}
	doubtful := j.Doubt()
	for _, token := range []string{next, doubtful} {
		if _, _, all := j.Since(token); !all {
			t.Errorf("token %q is believed after a doubt", token)
		}
	}
}

func TestAge(t *testing.T) {
	j := New(0)
	now := time.Duration(0)
	j.clock = func() time.Duration { return now }
	token, _, _ := j.Since("")
	now = time.Hour
	if _, _, all := j.Since(token); all {
		t.Error("a token of an hour is not believed")
	}
	now += time.Second
	if _, _, all := j.Since(token); !all {
		t.Error("an older one is")
	}
}

// TestLimit: memory is bounded. A caller with a recent token still gets paths. A caller with an old
// token learns that everything may have changed.
func TestLimit(t *testing.T) {
	j := New(100)
	old, _, _ := j.Since("")
	for i := range 60 {
		j.Note(fmt.Sprint("old", i))
	}
	late, _, _ := j.Since("")
	for i := range 60 {
		j.Note(fmt.Sprint("new", i))
	}
	if _, paths, all := j.Since(late); all || len(paths) != 60 {
		t.Errorf("late: %d paths, all %v", len(paths), all)
	}
	if _, _, all := j.Since(old); !all {
		t.Error("an old token is believed although its paths were dropped")
	}
	for i := range 10_000 {
		j.Note(fmt.Sprint("more", i%99))
		if i%99 == 98 {
			j.Since("")
		}
	}
	if len(j.entries) > 300 || len(j.index) > 100 {
		t.Errorf("%d entries, %d paths", len(j.entries), len(j.index))
	}
	for i := range 101 {
		j.Note(fmt.Sprint("burst", i))
	}
	if j.Active() || j.entries != nil {
		t.Error("goes on although too much changed without a question")
	}
}

// TestRandom compares the Tracker with a record of everything that was ever noted.
func TestRandom(t *testing.T) {
	for seed := range int64(20) {
		r := rand.New(rand.NewSource(seed))
		j := New(40)
		type asked struct {
			token string
			at    int
		}
		var noted []string
		tokens := []asked{}
		believed := 0
		for range 3000 {
			switch r.Intn(12) {
			case 0:
				at, token := -1, ""
				if len(tokens) > 0 {
					k := tokens[max(0, len(tokens)-1-r.Intn(6))]
					at, token = k.at, k.token
				}
				next, paths, all := ask(t, j, token)
				if !all {
					believed++
					want := slices.Clone(noted[at:])
					slices.Sort(want)
					if want = slices.Compact(want); !slices.Equal(paths, want) {
						t.Fatalf("seed %d: %q, want %q", seed, paths, want)
					}
				}
				tokens = append(tokens, asked{next, len(noted)})
			case 1:
				if r.Intn(40) == 0 {
					j.Everything()
				}
			default:
				p := fmt.Sprint(r.Intn(60))
				j.Note(p)
				noted = append(noted, p)
			}
		}
		if believed < 50 {
			t.Errorf("seed %d: only %d answers with paths", seed, believed)
		}
	}
}
