package sessions

import (
	"bytes"
	"fmt"
	"math/rand"
	"strings"
	"testing"
)

// A saved output is returned byte for byte until its session ends or the budget is exceeded. Then
// the oldest one is dropped first.
func TestKept(t *testing.T) {
	var k SavedOutputs
	text := []byte(strings.Repeat("--- PASS: TestA (0.00s)\n", 1000))
	if !k.keep("s1", "a", text) || !k.keep("s2", "b", []byte("other")) {
		t.Fatal("not kept")
	}
	if got, ok := k.get("a"); !ok || !bytes.Equal(got, text) {
		t.Fatalf("%d bytes, %v", len(got), ok)
	}
	if k.size > len(text)/10 {
		t.Errorf("%d bytes of memory for %d", k.size, len(text))
	}
	if !k.Held() {
		t.Error("nothing is to be waited for, with two outputs kept")
	}
	k.End("s1")
	if _, ok := k.get("a"); ok {
		t.Error("kept after its session")
	}
	if got, ok := k.get("b"); !ok || string(got) != "other" {
		t.Errorf("%q, %v: another session's", got, ok)
	}
	r := rand.New(rand.NewSource(1))
	noise := make([]byte, 3<<20)
	r.Read(noise)
	for i := range 8 {
		if !k.keep("s3", fmt.Sprint(i), noise) {
			t.Fatal("not kept")
		}
	}
	sum := 0
	for _, o := range k.all {
		sum += len(o.packed)
	}
	if k.size != sum || k.size > budget {
		t.Errorf("size %d, really %d, budget %d", k.size, sum, budget)
	}
	if _, ok := k.get("b"); ok {
		t.Error("the oldest stayed")
	}
	if got, ok := k.get("7"); !ok || !bytes.Equal(got, noise) {
		t.Error("the newest is gone")
	}
	k.End("s3")
	k.End("s2")
	if k.Held() {
		t.Error("an output is waited for after the last session")
	}
}
