package hooks

import (
	"strings"
	"testing"
	"time"

	"cachebro/store/wire"
)

// What doctor found out about a version counts for that version only.
func TestProbed(t *testing.T) {
	const client = "claude-code/2.1.197"
	unchanged := func(*wire.Request) (any, []byte, error) {
		return wire.ReadAnswer{Kind: wire.ReadUnchanged, TotalLines: 245},
			[]byte("cachebro: not repeated. Lines 1-245 of a.go are exactly as in your Read of 12:40 (245 lines). Read it again to get the text."), nil
	}
	long := strings.Replace(readEvent, `one\ntwo\n`, strings.Repeat(`one\ntwo\n`, 100), 1)
	for name, c := range map[string]struct {
		probe *Probe
		want  string // in what is printed; "" for silence
	}{
		"never tried":             {nil, `{"type":"file_unchanged"`},
		"honours all":             {&Probe{Client: client, Read: true, Unchanged: true, Shell: true}, `{"type":"file_unchanged"`},
		"not its own short form":  {&Probe{Client: client, Read: true}, `cachebro: not repeated.`},
		"ignores Read":            {&Probe{Client: client, Shell: true}, ""},
		"another version ignores": {&Probe{Client: "claude-code/2.1.196"}, `{"type":"file_unchanged"`},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t)
			p.serve(answers{wire.MRead: unchanged})
			if c.probe != nil {
				if err := SaveProbe(p.paths, *c.probe); err != nil {
					t.Fatal(err)
				}
			}
			r := p.run(long)
			if r.code != 0 || c.want == "" && r.stdout != "" || !strings.Contains(r.stdout, c.want) {
				t.Errorf("%+v, want %q", r, c.want)
			}
			asked := wire.MRead
			if c.want == "" {
				asked = wire.MShown // it counts as delivered as it is
			}
			if m := p.methods(); !strings.Contains(m, asked) {
				t.Errorf("asked %s", m)
			}
		})
	}
}

func TestProbesAreKept(t *testing.T) {
	paths := wire.Paths{StateHome: t.TempDir()}
	for i := range maxProbes + 4 {
		p := Probe{Client: clientName("claude-code_2-1-" + string(rune('0'+i%10)) + string(rune('0'+i/10))), Time: time.Now()}
		if err := SaveProbe(paths, p); err != nil {
			t.Fatal(err)
		}
	}
	newest := "claude-code/2.1.91"
	if err := SaveProbe(paths, Probe{Client: newest, Read: true}); err != nil {
		t.Fatal(err)
	}
	if p, ok := Probed(paths, newest); !ok || !p.Read || p.Ignores("Read") || !p.Ignores("Bash") || p.Ignores("Edit") {
		t.Errorf("%+v, %v", p, ok)
	}
	if n := len(probes(paths)); n != maxProbes {
		t.Errorf("%d kept", n)
	}
}
