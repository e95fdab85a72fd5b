package find

import (
	"reflect"
	"testing"

	"cachebro/search"
	"cachebro/store"

	"github.com/fxamacker/cbor/v2"
)

func TestGrepAnswerAsBytes(t *testing.T) {
	r := search.Result{Lines: []search.Line{{Path: "x\xff\ny", No: 3, Text: []byte("a\x00\xfe"), At: 1, Before: 2, Size: 6}}, Files: 1, Truncated: true, Candidates: 7, Total: 9, NotSearched: `1 binary ("x")`, AtLeast: true}
	if n, l := reflect.TypeFor[search.Result]().NumField(), reflect.TypeFor[search.Line]().NumField(); n != 8 || l != 7 {
		t.Fatal("the answer has other fields now: keep them too, and give the key another version", n, l)
	}
	raw, err := cbor.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got search.Result
	if err := store.DecMode.Unmarshal(raw, &got); err != nil || !reflect.DeepEqual(got, r) {
		t.Fatal(got, err)
	}
	if err := store.DecMode.Unmarshal(raw[:len(raw)-3], &got); err == nil {
		t.Fatal("half an answer")
	}
}
