package history_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/history"
	"cachebro/scripts/testkit/daemontest"
	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
	"cachebro/store/wire"
)

// Changes that no event reported are in the answers, because the files are checked before the
// answer.
func TestHistoryWithoutAMount(t *testing.T) {
	p := daemontest.New(t)
	h := (&history.History{Store: p.Store, Source: p.Source, Survey: p.Survey, Paths: p.Paths, Attribution: p.Attribution}).Handlers()
	p.Write("a.txt", "one\ntwo\n")
	p.LookAtAll()
	p.Write("a.txt", "one\ntwo and more\n")
	p.Write("b.txt", "new\n")
	log, _ := daemontest.Ask[wire.LogAnswer](t, h, wire.MLog, wire.LogQuery{Path: []byte("a.txt"), Baselines: true})
	if len(log.Versions) != 2 || log.Versions[0].Number != 2 || log.Versions[1].Number != 1 {
		t.Errorf("%+v", log.Versions)
	}
	all, _ := daemontest.Ask[wire.LogAnswer](t, h, wire.MLog, wire.LogQuery{})
	if len(all.Versions) != 2 {
		t.Errorf("%+v", all.Versions)
	}
	v, body := daemontest.Ask[wire.Version](t, h, wire.MShow, wire.ShowQuery{Path: []byte("a.txt"), Number: -1})
	if string(body) != "one\ntwo\n" || v.Number != 1 {
		t.Errorf("%+v: %q", v, body)
	}
	d, body := daemontest.Ask[wire.DiffAnswer](t, h, wire.MDiff, wire.DiffQuery{Path: []byte("a.txt")})
	if d.Added != 1 || d.Removed != 1 || !strings.Contains(string(body), "-two\n+two and more\n") {
		t.Errorf("%+v\n%s", d, body)
	}
	b, text := daemontest.Ask[wire.BlameAnswer](t, h, wire.MBlame, wire.ShowQuery{Path: []byte("a.txt")})
	if len(b.Lines) != 2 || b.Versions[b.Lines[0]].Number != 1 || b.Versions[b.Lines[1]].Number != 2 || string(text) != "one\ntwo and more\n" {
		t.Errorf("%+v\n%s", b, text)
	}
	for method, q := range map[string]any{
		wire.MShow: wire.ShowQuery{Path: []byte("../a")},
		wire.MDiff: wire.DiffQuery{Path: []byte("/etc/passwd")},
	} {
		if _, _, err := daemontest.Try[wire.Version](t, h, method, q); !errors.Is(err, wire.ErrOutside) {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// The command line of a program often becomes known only after the program's first change, because
// no write waits for it. The history must then show it.
func TestWordsThatCameLate(t *testing.T) {
	p := daemontest.New(t)
	h := (&history.History{Store: p.Store, Source: p.Source, Survey: p.Survey, Paths: p.Paths, Attribution: p.Attribution}).Handlers()
	p.Write("a.txt", "four\n")
	c := storetest.NewTree().Write("a.txt", "four\n")
	c.Actor = store.Actor{PID: 9055, Start: 77, Comm: "sh"}
	storetest.Apply(t, p.Store, c)
	late := func() (words []string) {
		t.Helper()
		log, _ := daemontest.Ask[wire.LogAnswer](t, h, wire.MLog, wire.LogQuery{Path: []byte("a.txt")})
		blame, _ := daemontest.Ask[wire.BlameAnswer](t, h, wire.MBlame, wire.ShowQuery{Path: []byte("a.txt")})
		v, _ := daemontest.Ask[wire.Version](t, h, wire.MShow, wire.ShowQuery{Path: []byte("a.txt"), Number: 1})
		return []string{log.Versions[len(log.Versions)-1].Actor.Args, blame.Versions[0].Actor.Args, v.Actor.Args}
	}
	if got := late(); !slices.Equal(got, []string{"", "", ""}) {
		t.Errorf("before: %q", got)
	}
	key, row := attribution.ProcessRow(attribution.Process{Key: attribution.Key{PID: 9055, Start: 77}, Comm: "sh", Args: []string{"sh", "-c", "echo four >a.txt"}})
	other, of := attribution.ProcessRow(attribution.Process{Key: attribution.Key{PID: 9055, Start: 77}, Comm: "cat", Args: []string{"cat", "a.txt"}, Seen: 1})
	if err := attribution.OpenProcesses(p.Store).Keep(map[string][]byte{key: row, other: of}); err != nil {
		t.Fatal(err)
	}
	if got, want := late(), "sh -c echo four >a.txt"; !slices.Equal(got, []string{want, want, want}) {
		t.Errorf("after: %q", got)
	}
}
