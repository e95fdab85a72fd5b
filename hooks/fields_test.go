package hooks

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzFields: an object is read as encoding/json reads it. If it is written and read again, it is
// the same.
func FuzzFields(f *testing.F) {
	for _, s := range []string{
		`{}`, ` { "a" : "b" , "c":[1,{"d":null}],"e":true}`, `{"a":"\u001b[0m\n\t\"\\u0041 \ud83d\ude00 \ud83d x"}`, `{"a":1,"a":2}`, `{"\u0061":"x"}`,
		`{"a":-0.5e+9,"b":"` + "\xff\x01" + `"}`, `{"a":tru}`, `{"a":01}`, `{"a":"\x"}`, `[]`, `null`, `{"a":{}}x`, `{"a":[,]}`, "{\"a\":{\n\"b\":\"\\n\"}}", `{"a":"` + "\t" + `"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want map[string]json.RawMessage
		err := json.Unmarshal(raw, &want)
		got, ok := parseFields(raw)
		if ok != (err == nil && want != nil) {
			t.Fatalf("%q: ok %v, encoding/json says %v", raw, ok, err)
		}
		if !ok {
			return
		}
		if len(got) != len(want) {
			t.Fatalf("%q: %d members, want %d", raw, len(got), len(want))
		}
		for name, v := range want {
			if !bytes.Equal(got[name], v) {
				t.Fatalf("%q: %q is %q, want %q", raw, name, got[name], v)
			}
			var s string
			var b bool
			if json.Unmarshal(v, &s) != nil {
				s = ""
			}
			if json.Unmarshal(v, &b) != nil {
				b = false
			}
			if got.str(name) != s || got.truth(name) != b {
				t.Fatalf("%q: %q is %q, %v, want %q, %v", raw, name, got.str(name), got.truth(name), s, b)
			}
			var o map[string]json.RawMessage
			if json.Unmarshal(v, &o) != nil {
				o = nil
			}
			if len(got.object(name)) != len(o) {
				t.Fatalf("%q: %q has %d members, want %d", raw, name, len(got.object(name)), len(o))
			}
		}
		var again, first any
		if json.Unmarshal(got.encode(nil), &again) != nil || json.Unmarshal(raw, &first) != nil {
			t.Fatalf("%q is written as %q", raw, got.encode(nil))
		}
		a, _ := json.Marshal(again)
		b, _ := json.Marshal(first)
		if !bytes.Equal(a, b) || bytes.IndexByte(got.encode(nil), '\n') >= 0 {
			t.Fatalf("%q is written as %q", raw, got.encode(nil))
		}
	})
}
