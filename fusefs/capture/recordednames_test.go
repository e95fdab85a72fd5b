package capture

import (
	"fmt"
	"testing"

	"cachebro/fusefs"
)

// counted is a fusefs.File with only an id and a count of its names.
type counted struct {
	fusefs.File
	seen uint32
}

func (f *counted) ID() uint64        { return 7 }
func (f *counted) NamesSeen() uint32 { return f.seen }

// The names of a file are examined again only if the file has a name that was not recorded. When
// each new link examined all names, 5,000 links cost 9 s.
func TestRecordedNamesComplete(t *testing.T) {
	var table recordedNames
	f := &counted{seen: 1}
	var names []string
	link := func(record bool) {
		names = append(names, fmt.Sprint(len(names)))
		f.seen++
		if record {
			table.addNew(f, names[len(names)-1], manyNames)
		}
	}
	for range 3 {
		link(true)
	}
	if table.complete(f, f.NamesSeen()) {
		t.Fatal("all names are known before anybody looked at all of them")
	}
	table.noteComplete(f, f.NamesSeen(), names)
	link(true)
	if !table.complete(f, f.NamesSeen()) {
		t.Fatal("a recorded link made the other names unknown")
	}
	link(false) // the link was found by a lookup
	link(true)
	if table.complete(f, f.NamesSeen()) {
		t.Fatal("a name that was not recorded is taken for known")
	}
	table.noteComplete(f, f.NamesSeen(), names)
	if table.complete(f, f.NamesSeen()) {
		t.Fatal("a name that is not in the table is taken for known")
	}
	table.add(f, names[len(names)-2], manyNames)
	table.noteComplete(f, f.NamesSeen(), names)
	if !table.complete(f, f.NamesSeen()) {
		t.Fatal("all names were recorded and are not known")
	}
	table.clear()
	if table.complete(f, f.NamesSeen()) {
		t.Fatal("names are known after the table was cleared")
	}
}
