// Package machines gives commands access to the histories of other machines that work on the same
// project and send to the same bucket. It copies each history to a state directory, inside the
// project's state directory. Each copy is served by its own store daemon.
package machines

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/daemon"
	"cachebro/store/leaf/text"
	"cachebro/store/remote"
	"cachebro/store/wire"

	"github.com/spf13/pflag"
)

// Flag adds --machine.
func Flag(fs *pflag.FlagSet) *string {
	return fs.String("machine", "", "use the history of this machine (its `NAME` or id, see cachebro remote machines)")
}

// Split splits "NAME:PATH", which means PATH in the history of a machine. The whole argument is a
// path if a file of that name exists, or if there is a slash before the colon.
func Split(e *cli.Env, arg string) (machine, path string) {
	name, rest, ok := strings.Cut(arg, ":")
	if !ok || name == "" || rest == "" {
		return "", arg
	}
	if strings.ContainsAny(name, "/@#") || e.Exists(arg) {
		return "", arg
	}
	return name, rest
}

// identityEnv is the environment variable that names a file of age identities, for all commands
// that read from a bucket.
const identityEnv = "CACHEBRO_IDENTITY"

// IdentityHint is the hint for reading encrypted histories.
const IdentityHint = "give the file with the age identity that can read it: --identity FILE, or $" + identityEnv

// Hinted adds IdentityHint to the error of a history that cannot be decrypted.
func Hinted(err error) error {
	if errors.Is(err, remote.ErrLocked) {
		return cli.Hintf(IdentityHint, "%w", err)
	}
	return err
}

// IdentityFlag adds --identity.
func IdentityFlag(e *cli.Env, fs *pflag.FlagSet) *string {
	return fs.String("identity", e.Getenv(identityEnv), "decrypt with the age identities in this `FILE`")
}

// Unlock makes the bucket decrypt with the age identities in a file.
func Unlock(e *cli.Env, b *remote.Bucket, file string) error {
	abs, err := e.Abs(file)
	if err != nil {
		return err
	}
	return b.Unlock(abs)
}

// Open is e.Open if machine is "". Otherwise it locates path in the same way, but connects to the
// copy of that machine's history. It first fetches what the machine has sent since the last fetch.
// If the bucket cannot be reached, it prints how old the copy is. part is the part of the history
// that was written by the host called machine.
func Open(ctx context.Context, e *cli.Env, machine, path string) (t cli.Target, c *wire.Client, part Part, err error) {
	t, c, err = e.Open(ctx, path)
	if machine == "" || err != nil {
		return t, c, nil, err
	}
	defer c.Close()
	st, dir, err := elsewhere(ctx, e, t, c)
	if err != nil {
		return t, nil, nil, err
	}
	m, err := find(ctx, e, st.URL, dir, machine)
	if err != nil {
		return t, nil, nil, err
	}
	s, err := m.seen()
	if err != nil {
		return t, nil, nil, err
	}
	part = partOf(s.Writers, machine)
	c, err = m.connect(ctx, e)
	return t, c, part, err
}

// Part is the part of a history that one host wrote, as a sorted list of ranges of versions. Other
// hosts may have written the rest. nil means the whole history.
type Part []remote.Writer

// partOf returns the part that the host called name wrote. It returns nil, which means the whole
// history, if that host wrote everything or if no writer has that name, for example because name is
// a machine's id.
func partOf(all []remote.Writer, name string) Part {
	part := slices.DeleteFunc(slices.Clone(all), func(w remote.Writer) bool { return w.Name != name })
	if len(part) == 0 || len(part) == len(all) {
		return nil
	}
	return part
}

// Has reports whether a version belongs to the part.
func (p Part) Has(seq uint64) bool {
	return p == nil || slices.ContainsFunc(p, func(w remote.Writer) bool { return w.First <= seq && (w.Last == 0 || seq <= w.Last) })
}

// Between returns the exclusive bounds of the last range of the part. 0 means no bound.
func (p Part) Between() (after, before uint64) {
	if len(p) == 0 {
		return 0, 0
	}
	last := p[len(p)-1]
	if last.Last > 0 {
		before = last.Last + 1
	}
	return last.First - 1, before
}

// Newest completes a query that names no version. It chooses the path's last version before the end
// of the part. prev is the number of the path's version before the chosen one. It does nothing if
// the part reaches the end of the history.
func (p Part) Newest(ctx context.Context, c *wire.Client, q *wire.ShowQuery) (prev uint64, err error) {
	_, before := p.Between()
	if before == 0 || !cli.IsNewest(*q) {
		return 0, nil
	}
	a, err := wire.Call[wire.LogAnswer](ctx, c, wire.MLog, wire.LogQuery{Path: q.Path, Before: before, Limit: 1, Baselines: true})
	if err != nil {
		return 0, err
	}
	if len(a.Versions) == 0 {
		return 0, cli.Hintf("cachebro log --machine "+cli.Arg(p[0].Name), "%s never had %s", cli.Quote(p[0].Name), cli.Quote(string(q.Path)))
	}
	q.Seq = a.Versions[0].Seq
	return a.Versions[0].Prev, nil
}

// elsewhere returns the bucket state of a project's history, and the directory for copies of
// other machines' histories.
func elsewhere(ctx context.Context, e *cli.Env, t cli.Target, c *wire.Client) (st wire.RemoteState, dir string, err error) {
	st, err = wire.Call[wire.RemoteState](ctx, c, wire.MRemote, wire.RemoteRequest{})
	if err != nil {
		return st, "", err
	}
	if st.URL == "" {
		return st, "", cli.Hintf("cachebro remote add s3://BUCKET/PREFIX", "this project sends its history to no bucket, so no other machine is known")
	}
	state, err := e.Paths().State(t.Root)
	if err != nil {
		return st, "", err
	}
	if f := e.Getenv(identityEnv); f != "" {
		if abs, err := e.Abs(f); err != nil || strings.HasPrefix(abs, t.Root+"/") {
			return st, "", cli.Hintf("move it out of the project", "%s is in the project, where agents can read it", cli.Quote(f))
		}
	}
	return st, filepath.Join(state, "machines"), nil
}

// All names all machines, for OpenAll.
const All = "all"

// History is the history of a machine, which can be queried.
type History struct {
	ID, Name string
	After    uint64 // versions up to this one come from the machine that the history was forked from
	Writers  []remote.Writer
	Client   *wire.Client
}

// WriterOf returns the name of the host that wrote a version. It may differ from the machine's name,
// because another host may have continued the history.
func (a History) WriterOf(seq uint64) string {
	for _, w := range a.Writers {
		if w.Last > 0 && seq <= w.Last {
			return w.Called()
		}
	}
	return a.Name
}

// OpenAll is Open for this machine and all others. failed is true if some machines could not be
// queried. Their errors are printed to standard error.
func OpenAll(ctx context.Context, e *cli.Env, path string) (t cli.Target, all []History, failed bool, err error) {
	t, c, err := e.Open(ctx, path)
	if err != nil {
		return t, nil, false, err
	}
	defer func() {
		if err != nil {
			for _, a := range all {
				a.Client.Close()
			}
		}
	}()
	all = []History{{Client: c}}
	st, dir, err := elsewhere(ctx, e, t, c)
	if err != nil {
		return t, all, false, err
	}
	all[0].ID = st.Machine
	all[0].Name, err = os.Hostname()
	if err != nil {
		return t, all, false, err
	}
	b, there, err := listed(ctx, e, st.URL)
	if err != nil {
		return t, all, false, err
	}
	for _, m := range there {
		if m.ID == st.Machine {
			if h, err := b.Head(ctx, m.ID); err == nil {
				all[0].Writers = h.Writers()
				if h.Base != nil {
					all[0].After = h.Base.Seq
				}
			}
			continue
		}
		one := copyOf(dir, m.ID)
		err := one.update(ctx, e, b, m.ID)
		if errors.As(err, new(errSilent)) {
			continue // nothing to query yet
		}
		var s seen
		if err == nil {
			s, err = one.seen()
		}
		var c *wire.Client
		if err == nil {
			c, err = one.connect(ctx, e)
		}
		if err != nil {
			if ctx.Err() != nil {
				return t, all, false, err
			}
			fmt.Fprintf(e.Stderr, "cachebro: %s: %s\n", cli.Quote(m.Called()), cli.OneLine(err.Error()))
			failed = true
			continue
		}
		all = append(all, History{ID: m.ID, Name: m.Called(), After: s.Base, Writers: s.Writers, Client: c})
	}
	return t, all, failed, nil
}

type errSilent struct{ id string }

func (e errSilent) Error() string { return cli.Quote(e.id) + " has sent nothing yet" }

type copied struct {
	dir  string // the directory of the copy
	root string // an empty directory that serves as the root of the copy's project
}

// seen is what is known of a machine. It is stored in the file "seen" of the copy.
type seen struct {
	Machine remote.Machine `json:"machine"`
	Time    time.Time      `json:"time"`           // when the last part was sent
	Base    uint64         `json:"base,omitempty"` // versions up to this one come from the machine that the history was forked from
	// Writers are the hosts that wrote the history, the first one first.
	Writers []remote.Writer `json:"writers,omitempty"`
	remote.Known
}

// find returns the copy of a machine's history. It brings the copy up to date if the bucket
// answers.
func find(ctx context.Context, e *cli.Env, url, dir, name string) (copied, error) {
	b, all, err := listed(ctx, e, url)
	id := ""
	if err == nil {
		id, err = Choose(all, name)
		if err != nil {
			id, err = handedOver(ctx, b, name, err)
		}
	}
	if err == nil {
		m := copyOf(dir, id)
		err = m.update(ctx, e, b, id)
		if err == nil {
			err = m.printWriters(e)
		}
		return m, err
	}
	// Use an earlier copy if the bucket cannot be reached or no longer lists the machine.
	kept, kerr := known(dir)
	s, ok := oneOf(kept, name)
	if kerr != nil || !ok {
		return copied{}, err
	}
	fmt.Fprintf(e.Stderr, "cachebro: %s; so an older copy of the history of %s is used, which ends at %s\n", cli.OneLine(err.Error()), cli.Quote(s.Machine.Name), cli.Stamp(s.Time, e.Now()))
	return copyOf(dir, s.Machine.ID), nil
}

func listed(ctx context.Context, e *cli.Env, url string) (*remote.Bucket, []remote.Machine, error) {
	p, err := remote.ParsePlace(url, e.Getenv)
	if err != nil {
		return nil, nil, err
	}
	b, err := remote.Dial(p)
	if err != nil {
		return nil, nil, err
	}
	if f := e.Getenv(identityEnv); f != "" {
		if err := Unlock(e, b, f); err != nil {
			return nil, nil, err
		}
	}
	all, err := b.Machines(ctx)
	return b, all, err
}

// Choose returns the id of the machine called name.
func Choose(all []remote.Machine, name string) (id string, err error) {
	found := 0
	for _, m := range all {
		if matches(m, name) {
			id = m.ID
			found++
		}
	}
	switch {
	case found == 0:
		return "", cli.Hintf("cachebro remote machines", "there is no machine %s", cli.Quote(name))
	case found > 1:
		return "", cli.Hintf("cachebro remote machines shows their ids", "%d histories come from machines called %s", found, cli.Quote(name))
	}
	return id, nil
}

// handedOver finds a history by the name of a host that wrote it before another host continued it.
// why is the error to return if there is no such history, or more than one.
func handedOver(ctx context.Context, b *remote.Bucket, name string, why error) (id string, err error) {
	heads, bad, err := b.Heads(ctx)
	if err != nil {
		return "", err
	}
	for _, h := range heads {
		for _, f := range h.Former {
			if f.Machine.Name != name {
				continue
			}
			if id != "" && id != h.Machine.ID {
				return "", why
			}
			id = h.Machine.ID
		}
	}
	if id == "" && len(bad) > 0 {
		why = fmt.Errorf("%w; %w", why, errors.Join(bad...))
	}
	if id == "" {
		return "", why
	}
	return id, nil
}

// matches reports whether name is the machine's id, the beginning of it, or its host's name.
func matches(m remote.Machine, name string) bool {
	return m.ID == name || m.Name == name || len(name) >= 6 && strings.HasPrefix(m.ID, name)
}

// known returns the machines whose history was copied.
func known(dir string) (all []seen, err error) {
	names, err := os.ReadDir(dir)
	for _, n := range names {
		s, err := copyOf(dir, n.Name()).seen()
		if err != nil {
			return nil, err
		}
		if s.N > 0 {
			all = append(all, s)
		}
	}
	return all, err
}

func oneOf(all []seen, name string) (out seen, ok bool) {
	for _, s := range all {
		if matches(s.Machine, name) || partOf(s.Writers, name) != nil {
			if ok {
				return seen{}, false
			}
			out, ok = s, true
		}
	}
	return out, ok
}

func copyOf(dir, id string) copied {
	dir = filepath.Join(dir, id)
	return copied{dir: dir, root: filepath.Join(dir, "files")}
}

// seen reads what is known of the machine. N is 0 if nothing was copied yet.
func (m copied) seen() (s seen, err error) {
	err = wire.ReadJSON(filepath.Join(m.dir, "seen"), &s)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	return s, err
}

// printWriters prints the hosts that wrote a history, if there are several.
func (m copied) printWriters(e *cli.Env) error {
	s, err := m.seen()
	if err != nil || len(s.Writers) < 2 {
		return err
	}
	var parts []string
	for _, w := range s.Writers {
		to := "on"
		if w.Last > 0 {
			to = fmt.Sprintf("to %d", w.Last)
		}
		parts = append(parts, fmt.Sprintf("%s from %d %s", cli.Quote(w.Called()), w.First, to))
	}
	_, err = fmt.Fprintf(e.Stderr, "cachebro: this history was continued on another machine; it was written by %s\n", strings.Join(parts, ", "))
	return err
}

func (m copied) keep(s seen) error { return wire.WriteJSON(filepath.Join(m.dir, "seen"), s) }

// update fetches what a machine has sent since the last update. If that fails, for example because
// the bucket contradicts the copy, it prints the error and leaves the copy unchanged.
func (m copied) update(ctx context.Context, e *cli.Env, b *remote.Bucket, id string) error {
	if err := os.MkdirAll(m.root, 0o700); err != nil {
		return err
	}
	unlock, err := cli.LockDir(m.dir) // one update at a time
	if err != nil {
		return err
	}
	defer unlock()
	s, err := m.seen()
	if err != nil {
		return err
	}
	h, err := b.Head(ctx, id)
	if errors.Is(err, remote.ErrMissing) && s.N == 0 {
		return cli.Hintf("cachebro remote machines", "%w", errSilent{id})
	}
	var writers []remote.Writer
	if err == nil {
		writers, err = b.Authors(ctx, h)
	}
	if err == nil && h.N == s.N && h.Log == s.Log {
		if slices.EqualFunc(writers, s.Writers, func(a, b remote.Writer) bool {
			return a.Name == b.Name && a.Root == b.Root && a.First == b.First && a.Last == b.Last
		}) {
			return nil
		}
		s.Machine, s.Writers = h.Machine, writers // another host continued the history, but nothing was sent since
		return m.keep(s)
	}
	if err == nil {
		was := s.N
		s, err = m.fetch(ctx, e, b, h, s)
		s.Writers = writers
		if err == nil || s.N > was { // at least a part was fetched
			if kerr := m.keep(s); kerr != nil {
				return kerr
			}
		}
	}
	if err == nil {
		return nil
	}
	err = Hinted(err)
	if s.N == 0 || ctx.Err() != nil {
		return err
	}
	fmt.Fprintf(e.Stderr, "cachebro: %s; so the older copy is used, which ends at %s\n", cli.OneLine(err.Error()), cli.Stamp(s.Time, e.Now()))
	return nil
}

// fetch adds the missing parts of the history to a copy, as far as they can be read. It first ends
// the copy's daemon.
func (m copied) fetch(ctx context.Context, e *cli.Env, b *remote.Bucket, h remote.Head, s seen) (now seen, err error) {
	e = e.WithState(m.dir)
	state, err := e.Paths().MakeState(m.root)
	if err != nil {
		return s, err
	}
	e.EndDaemon(ctx, m.root)
	done := e.Watch(ctx, func(context.Context) string {
		return fmt.Sprintf("fetching %s of %s", text.Count(int(h.N-s.N), "segment"), cli.Quote(h.Machine.Name))
	})
	defer done()
	reached, last, err := daemon.FollowHistory(ctx, state, cli.Version, b, h, s.Known)
	if reached.N == s.N {
		return s, err
	}
	now = seen{Machine: h.Machine, Time: last, Known: reached}
	if h.Base != nil {
		now.Base = h.Base.Seq
	}
	return now, err
}

// connect connects to the copy's daemon and starts it if needed.
func (m copied) connect(ctx context.Context, e *cli.Env) (*wire.Client, error) {
	return wire.DialOrStart(ctx, e.WithState(m.dir).Paths(), wire.Hello{Version: cli.Version, Client: "cli", Root: m.root}, wire.Timeouts{},
		wire.Start{Self: e.Exe, Args: []string{"daemon", "--root", m.root, "--mirror", m.dir}, Replace: true, Within: 20 * time.Second})
}
