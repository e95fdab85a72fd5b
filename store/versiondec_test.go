package store

import (
	"reflect"
	"testing"
)

// filled sets every field of a struct and of the structs in it.
func filled(v reflect.Value, n *int) {
	for i := range v.NumField() {
		f := v.Field(i)
		*n++
		switch f.Kind() {
		case reflect.Struct:
			filled(f, n)
		case reflect.String:
			f.SetString("text " + string(rune('a'+*n)))
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Array:
			f.Index(31).SetUint(uint64(*n))
		case reflect.Int64:
			f.SetInt(-int64(*n) << 20)
		default:
			f.SetUint(uint64(*n))
		}
	}
}

// If a field were added to Version but not to the hand-written decoder, every decoding would take
// the slow way.
func TestVersionIsReadByHand(t *testing.T) {
	var all Version
	n := 0
	filled(reflect.ValueOf(&all).Elem(), &n)
	all.Seq = 0 // stored in the key
	for _, v := range []Version{{}, {Path: "a", Op: OpWrite, Time: 1 << 60}, all} {
		var got Version
		if !readVersion(encode(&v), &got) {
			t.Fatalf("%+v is not read by hand", v)
		}
		if got != v {
			t.Errorf("\n%+v instead of\n%+v", got, v)
		}
	}
}

// The hand-written decoder reads the same as the library, from any bytes.
func FuzzReadVersion(f *testing.F) {
	var all Version
	n := 0
	filled(reflect.ValueOf(&all).Elem(), &n)
	f.Add(encode(&all))
	f.Add(encode(&Version{}))
	f.Add(encode(&Version{Path: "ä/\xff", Op: OpMoved, Blob: Hash{1}, Stat: Stat{Size: 1 << 40}, Actor: Actor{Session: "s"}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var got, want Version
		if !readVersion(b, &got) {
			return
		}
		if err := decode(b, &want); err != nil || got != want {
			t.Fatalf("%x: %+v by hand, %+v by the library, %v", b, got, want, err)
		}
	})
}

func BenchmarkDecodeVersion(b *testing.B) {
	v := Version{Path: "src/d12/f345.go", Op: OpWrite, Blob: Hash{1}, Time: 1 << 60, Prev: 70000,
		Stat:  Stat{Dev: 1, Ino: 1 << 20, Mode: 0o100644, Nlink: 1, Size: 2000, Mtime: 1 << 60, Ctime: 1 << 60},
		Actor: Actor{PID: 100, Start: 1, Comm: "go", Session: "edits", Prompt: "p1"}}
	enc := encode(&v)
	b.Run("library", func(b *testing.B) {
		for b.Loop() {
			var got Version
			if err := decode(enc, &got); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("hand", func(b *testing.B) {
		for b.Loop() {
			var got Version
			if !readVersion(enc, &got) {
				b.Fatal("not read")
			}
		}
	})
}
