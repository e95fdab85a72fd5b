package plans

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/scripts/testkit/daemontest"
	"cachebro/store"
	"cachebro/store/leaf/text"
	"cachebro/store/onwire"
	"cachebro/store/undo/apply"
	"cachebro/store/wire"
)

func service(p *daemontest.Project, held *int) *Plans {
	return New(Options{Store: p.Store, Source: p.Source, Ingest: p.Ingest, Attribution: p.Attribution, Survey: p.Survey, Paths: p.Paths, Log: p.Log,
		Hold: func() func() { *held++; return func() { *held-- } }})
}

// A plan is made, its contents are fetched, and the log attributes the client's changes to the
// plan and to the session of the client's parent.
func TestPlanIsCarriedOut(t *testing.T) {
	p := daemontest.New(t)
	held := 0
	h := service(p, &held).Handlers()
	p.Write("a.txt", "before\n")
	p.LookAtAll()
	p.Write("a.txt", "after, and longer\n")
	dry, _ := daemontest.Ask[wire.Plan](t, h, wire.MPlan, wire.PlanRequest{Kind: "revert", Path: []byte("a.txt"), DryRun: true})
	if len(dry.Steps) != 1 || len(dry.Conflicts)+len(dry.Lost) != 0 {
		t.Fatalf("%+v", dry)
	}
	if open, _ := daemontest.Ask[wire.OpenPlans](t, h, wire.MPlanOpen, wire.Empty{}); len(open.Plans) != 0 {
		t.Errorf("a dry run is open: %+v", open)
	}
	plan, _ := daemontest.Ask[wire.Plan](t, h, wire.MPlan, wire.PlanRequest{Kind: "revert", Path: []byte("a.txt")})
	n := plan.Steps[0].N
	sizes, body := daemontest.Ask[wire.PlanContents](t, h, wire.MPlanFetch, wire.PlanFetch{ID: plan.ID, N: []int{n}})
	if string(body) != "before\n" || len(sizes.Sizes) != 1 {
		t.Errorf("%q %v", body, sizes.Sizes)
	}
	if _, _, err := daemontest.Try[wire.PlanContents](t, h, wire.MPlanFetch, wire.PlanFetch{ID: plan.ID, N: []int{n + 1}}); !errors.Is(err, wire.ErrNotFound) {
		t.Errorf("a step that is none: %v", err)
	}
	p.Write("a.txt", string(body))
	p.Attribution.Client(attribution.OwnerOf(os.Getppid()), "s", time.Now().UnixNano())
	daemontest.Ask[wire.Empty](t, h, wire.MPlanDone, wire.PlanDone{ID: plan.ID, Done: []int{n}, Finished: true})
	v, ok, err := p.Store.Current("a.txt")
	if err != nil || !ok || v.Plan != plan.ID {
		t.Errorf("%+v, %v, %v", v, ok, err)
	}
	if by := v.Actor; by.Session != "s" || by.PID != uint32(os.Getpid()) {
		t.Errorf("the author is %+v", by)
	}
	if b, err := os.ReadFile(filepath.Join(p.Root, "a.txt")); err != nil || string(b) != "before\n" {
		t.Errorf("%q, %v", b, err)
	}
	if _, _, err := daemontest.Try[wire.Plan](t, h, wire.MPlan, wire.PlanRequest{Kind: resumeKind, Plan: plan.ID}); !errors.Is(err, wire.ErrConflict) {
		t.Errorf("a plan that has ended is resumed: %v", err)
	}
	if held != 0 {
		t.Errorf("the index is held %d times", held)
	}
}

// A restore or revert of what is never recorded says so. It used to find nothing to do, with exit
// status 0, whatever had changed there.
func TestPlanForWhatIsNotRecorded(t *testing.T) {
	p := daemontest.New(t)
	held := 0
	h := service(p, &held).Handlers()
	p.Write(".cachebroignore", "out/\n")
	p.Write("out/a.txt", "before\n")
	p.Write(".git/config", "before\n")
	p.Write("a.txt", "a\n")
	p.LookAtAll()
	now := wire.ShowQuery{At: time.Now()}
	p.Write("out/a.txt", "after\n")
	p.Write(".git/config", "after\n")
	for _, path := range []string{"out", "out/a.txt", ".git", ".git/config"} {
		for _, q := range []wire.PlanRequest{{Kind: "restore", Paths: [][]byte{[]byte(path)}, At: now}, {Kind: "revert", Path: []byte(path)}} {
			if d, _, err := daemontest.Try[wire.Plan](t, h, wire.MPlan, q); !errors.Is(err, wire.ErrNotFound) || wire.Hint(err) == "" {
				t.Errorf("%s of %s: %+v, %v", q.Kind, path, d, err)
			}
		}
	}
	q := wire.PlanRequest{Kind: "restore", Paths: [][]byte{[]byte("a.txt")}, At: now}
	if d, _ := daemontest.Ask[wire.Plan](t, h, wire.MPlan, q); len(d.Steps) != 0 {
		t.Errorf("%+v", d)
	}
}

// The title of a revert outside of projects begins with an absolute path.
func TestTitleOfRevertOutside(t *testing.T) {
	p := daemontest.New(t)
	held := 0
	pl := service(p, &held)
	p.Write("a.txt", "before\n")
	p.LookAtAll()
	p.Write("a.txt", "after, and longer\n")
	pl.Paths = onwire.Paths{Root: wire.OutsideRoot, Mountpoint: p.Survey.Mountpoint}
	for _, q := range []wire.ShowQuery{{}, {Number: 1}} {
		d, _ := daemontest.Ask[wire.Plan](t, pl.Handlers(), wire.MPlan, wire.PlanRequest{Kind: "revert", Path: []byte("a.txt"), Version: q, DryRun: true})
		if d.Title != "/a.txt as in version 1" {
			t.Errorf("%q", d.Title)
		}
	}
}

// A plan whose client is alive is not offered to another client.
func TestPlanUnderWayIsNotResumed(t *testing.T) {
	p := daemontest.New(t)
	held := 0
	h := service(p, &held).Handlers()
	p.Write("a.txt", "before\n")
	p.LookAtAll()
	p.Write("a.txt", "after, and longer\n")
	plan, _ := daemontest.Ask[wire.Plan](t, h, wire.MPlan, wire.PlanRequest{Kind: "revert", Path: []byte("a.txt")})
	if open, _ := daemontest.Ask[wire.OpenPlans](t, h, wire.MPlanOpen, wire.Empty{}); len(open.Plans) != 0 {
		t.Errorf("%+v", open)
	}
	if _, _, err := daemontest.Try[wire.Plan](t, h, wire.MPlan, wire.PlanRequest{Kind: resumeKind, Plan: plan.ID}); !errors.Is(err, wire.ErrConflict) {
		t.Errorf("%v", err)
	}
	for name, q := range map[string]wire.PlanRequest{
		"of no kind":       {Kind: "other"},
		"of everything":    {Kind: "undo"},
		"of the whole":     {Kind: "revert"},
		"steps forward":    {Kind: "revert", Path: []byte("a.txt"), Steps: -1},
		"of no moment":     {Kind: "restore"},
		"outside the root": {Kind: "restore", Paths: [][]byte{[]byte("../x")}},
	} {
		if _, _, err := daemontest.Try[wire.Plan](t, h, wire.MPlan, q); !errors.Is(err, wire.ErrBadRequest) && !errors.Is(err, wire.ErrOutside) {
			t.Errorf("a plan %s: %v", name, err)
		}
	}
}

// A client was killed after all steps of a plan that exchanges two files, and had reported none of
// them. The names no longer show that the first step was done, but the log does. The resumed plan used
// to report that step as failed.
func TestResumedPlanKnowsItsMoves(t *testing.T) {
	p := daemontest.New(t)
	held := 0
	h := service(p, &held).Handlers()
	p.Write("a", "a\n")
	p.Write("b", "b\n")
	p.LookAtAll()
	root, err := p.Source.Lstat(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	const aside = ".cachebro-aside-1-1~"
	step := func(n int, from, to store.Path, content string) store.Step {
		return store.Step{N: n, Do: store.DoRename, Path: from, To: to, Expect: text.Hash([]byte(content)), ExpMode: syscall.S_IFREG | 0o644}
	}
	plan := store.Plan{Kind: store.PlanUndo, Tree: store.Tree{Ino: root.Ino, Birth: root.Birth},
		Steps: []store.Step{step(1, "a", aside, "a\n"), step(2, "b", "a", "b\n"), step(3, aside, "b", "a\n")}}
	if err := p.Store.Journal.Begin(t.Context(), &plan, nil); err != nil {
		t.Fatal(err)
	}
	for _, s := range plan.Steps {
		if err := os.Rename(filepath.Join(p.Root, string(s.Path)), filepath.Join(p.Root, string(s.To))); err != nil {
			t.Fatal(err)
		}
		st, err := p.Source.Lstat(t.Context(), s.To)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Ingest.Append(t.Context(), []store.Change{{Op: store.OpRename, Path: s.Path, Path2: s.To, Stat: st, Time: time.Now().UnixNano(), Plan: plan.ID}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	resumed, _ := daemontest.Ask[wire.Plan](t, h, wire.MPlan, wire.PlanRequest{Kind: resumeKind, Plan: plan.ID})
	res, err := apply.Plan(t.Context(), p.Root, resumed, apply.Work{After: func(int) error { return nil }})
	if err != nil || len(res.Failed) > 0 {
		t.Errorf("%+v, %v", res, err)
	}
	for name, want := range map[string]string{"a": "b\n", "b": "a\n"} {
		if b, err := os.ReadFile(filepath.Join(p.Root, name)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

// A dry run returns the content of a file now and after the plan. For a path without a step it
// returns an error.
func TestContentsOfAPlan(t *testing.T) {
	p := daemontest.New(t)
	held := 0
	h := service(p, &held).Handlers()
	p.Write("a.txt", "before\n")
	p.LookAtAll()
	p.Write("a.txt", "after, and longer\n")
	q := wire.PlanRequest{Kind: "revert", Path: []byte("a.txt"), DryRun: true, Contents: []byte("a.txt")}
	plan, body := daemontest.Ask[wire.Plan](t, h, wire.MPlan, q)
	c := plan.Contents
	if c == nil || !c.Was || !c.Will || !c.Lines || c.Why != "" || string(body[:c.Old]) != "after, and longer\n" || string(body[c.Old:]) != "before\n" {
		t.Errorf("%+v, %q", c, body)
	}
	q.Leave = []wire.LeftLines{{Path: []byte("a.txt"), Stay: []int{0}}}
	plan, body = daemontest.Ask[wire.Plan](t, h, wire.MPlan, q)
	if c := plan.Contents; c == nil || string(body[c.Old:]) != "after, and longer\nbefore\n" {
		t.Errorf("with a line that is left: %+v, %q", c, body)
	}
	q.Leave[0].Stay[0] = 1
	if _, _, err := daemontest.Try[wire.Plan](t, h, wire.MPlan, q); !errors.Is(err, wire.ErrBadRequest) {
		t.Errorf("with one that does not change: %v", err)
	}
	q.Contents, q.Leave = []byte("other.txt"), nil
	if _, _, err := daemontest.Try[wire.Plan](t, h, wire.MPlan, q); !errors.Is(err, wire.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

// If a plan would destroy a content that was not captured, the content is stored first. A file that
// was written after its newest version is reported instead.
func TestSecureKeepsWhatWouldBeLost(t *testing.T) {
	p := daemontest.New(t)
	p.Write("a.txt", "content\n")
	p.Write("b.txt", "content\n")
	version := func(name store.Path) store.Version {
		st, err := p.Source.Lstat(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		vs, err := p.Ingest.Append(t.Context(), []store.Change{{Op: store.OpCreate, Path: name, Stat: st, Time: st.Ctime}}, nil)
		if err != nil || len(vs) != 1 {
			t.Fatal(vs, err)
		}
		return vs[0]
	}
	a, b := version("a.txt"), version("b.txt")
	p.Write("b.txt", "another content\n")
	left := p.Ingest.Secure(t.Context(), []store.Version{a, b}, maxSecured)
	if len(left) != 1 || left["b.txt"] != "it is being written" {
		t.Errorf("%v", left)
	}
	v, _, err := p.Store.Current("a.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Store.Content(v.Blob); err != nil || string(got) != "content\n" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestContentsOfRecentPlans(t *testing.T) {
	var c contents
	large := store.Plan{ID: "large"}
	for n := range manySteps {
		large.Steps = append(large.Steps, store.Step{N: n, Do: store.DoWrite, Blob: store.Hash{byte(n)}})
	}
	c.put(&large, map[store.Hash][]byte{{1}: []byte("one")})
	if m, ok := c.get("large"); !ok || m[2] != (store.Hash{2}) {
		t.Errorf("%v", ok)
	}
	if b, ok := c.take(store.Hash{1}); !ok || !bytes.Equal(b, []byte("one")) {
		t.Errorf("%q, %v", b, ok)
	}
	if _, ok := c.take(store.Hash{1}); ok {
		t.Error("a content is handed out twice")
	}
	for i := range maxPlans {
		c.put(&store.Plan{ID: string(rune('a' + i))}, nil)
	}
	if _, ok := c.get("large"); ok {
		t.Error("the oldest plan is kept for ever")
	}
}
