package procfs

import (
	"slices"
	"testing"
)

// A command's name may contain spaces, parentheses and text that looks like fields.
func TestParseStat(t *testing.T) {
	rest := "S 7 1 1 0 -1 4194308 0 0 0 0 0 0 0 0 20 0 1 0 98765 0 0"
	for _, name := range []string{"sh", "a b", "x) R 9 (y", "", "(("} {
		st, err := parseStat(1, []byte("4711 ("+name+") "+rest+"\n"))
		if want := (Stat{Comm: name, State: 'S', Parent: 7, Group: 1, Flags: 4194308, Start: 98765}); err != nil || st != want {
			t.Errorf("stat of %q: %+v, %v, want %+v", name, st, err, want)
		}
	}
	for _, bad := range []string{"", "4711", "4711 (sh", "4711 (sh) S 7", "4711 )sh( " + rest, "4711 (sh) S x 1 1 0 -1 4194308 0 0 0 0 0 0 0 0 20 0 1 0 98765 0 0"} {
		if st, err := parseStat(1, []byte(bad)); err == nil {
			t.Errorf("stat %q gives %+v", bad, st)
		}
	}
}

func TestFields(t *testing.T) {
	var got []string
	for name, value := range Fields([]byte("Name:\ta: b\nno field\nGroups:\t0 1 \nEmpty:\nlast:\t1")) {
		if got = append(got, name+"="+value); name == "Empty" {
			break
		}
	}
	if want := []string{"Name=a: b", "Groups=0 1", "Empty="}; !slices.Equal(got, want) {
		t.Errorf("fields %q, want %q", got, want)
	}
}
