package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
)

// Secure is asked, while a plan is made, to bring the present contents of files
// into the store (see Fill): the plan would delete or overwrite them, and the
// store lacks them. What it leaves out the plan leaves alone; it says why.
type Secure func([]Version) map[Path]string

// Found is the content of a version that was stored without.
type Found struct {
	Version Version
	Content []byte
}

// Fill gives versions that have no content theirs. One that is not the newest of
// its path any more is passed over. ErrTooLarge, ErrNoSpace: nothing is stored.
func (s *Store) Fill(ctx context.Context, fs []Found) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if s.db.Closed() {
		return ErrClosed
	}
	var need int64
	for _, f := range fs {
		need += int64(len(f.Content)) + 1024
	}
	if err := s.roomFor(need); err != nil {
		return err
	}
	b := s.newBatch()
	defer b.discard()
	for _, f := range fs {
		v, live, err := b.live(f.Version.Path)
		if err != nil {
			return err
		}
		if !live || v.Seq != f.Version.Seq || v.Blob != (Hash{}) || !isRegular(v.Stat) {
			continue
		}
		if v.Blob, err = b.put(f.Content, v); err != nil {
			return fmt.Errorf("content of %q: %w", string(v.Path), err)
		}
		v.NoContent, v.Taken = "", s.opt.Now().UnixNano()
		b.contents.Refer(v.Blob)
		if err := b.rewrite(v); err != nil {
			return err
		}
	}
	return b.commit()
}

// purgedContent is why a version has none after Purge.
const purgedContent = "purged"

// whyNotKept says why a content is not in the store and cannot be brought there;
// "": it can.
func (s *Store) whyNotKept(st state) string {
	switch {
	case st.link():
		return "where it points was not seen"
	case st.size > s.opt.MaxBlob:
		return fmt.Sprintf("larger than %d MiB", s.opt.MaxBlob>>20)
	case st.noContent == purgedContent:
		return st.noContent
	}
	return ""
}

// secure has the contents brought in that the goals would destroy, as far as the
// store lacks them.
func (s *Store) secure(p *Plan, goals []goal) error {
	if p.secure == nil {
		return nil
	}
	unkept := func(g goal) bool { return s.unkept(p, g.have) && s.whyNotKept(g.have) == "" }
	if !slices.ContainsFunc(goals, unkept) {
		return nil
	}
	o, err := s.outlookOf(goals)
	if err != nil {
		return err
	}
	var lacking []Version
	var whose []*goal
	for i := range goals {
		g := &goals[i]
		if !unkept(*g) || !o.destroys(g) {
			continue
		}
		v, found, err := s.Current(g.path)
		if err != nil {
			return err
		}
		if found && v.Seq == g.have.seq {
			lacking, whose = append(lacking, v), append(whose, g)
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	p.unsafe = p.secure(lacking)
	for i, g := range whose {
		v, found, err := s.Current(g.path)
		if err != nil {
			return err
		}
		if found && v.Seq == lacking[i].Seq {
			g.have = stateOf(v)
		}
	}
	return nil
}

// unkept: a file with a content that the store lacks, or a link of which it does
// not know where it points.
func (s *Store) unkept(p *Plan, st state) bool {
	return st.link() && st.target == "" || st.regular() && (st.blob == (Hash{}) && st.size > 0 || st.blob != (Hash{}) && !s.has(p, st.blob))
}

// outlook is what will be where once goals are reached.
type outlook struct {
	s     *Store
	paths map[Path]*goal
	all   []*goal
	homes map[Path]Path // what goes by a rename, and where
}

func (s *Store) outlookOf(goals []goal) (*outlook, error) {
	o := &outlook{s: s, paths: make(map[Path]*goal, len(goals)), all: make([]*goal, len(goals))}
	for i := range goals {
		o.paths[goals[i].path], o.all[i] = &goals[i], &goals[i]
	}
	var err error
	o.homes, err = s.homes(goals)
	return o, err
}

// destroys: g.path loses what is now its content, which is not moved elsewhere.
// Another name of the file would keep it, but nothing could make this one a name
// of it again.
func (o *outlook) destroys(g *goal) bool {
	return (g.have.regular() || g.have.link()) && !g.want.sameContent(g.have) && o.homes[g.path] == ""
}

// refusal says why a plan must leave a goal alone that would destroy a content
// for ever; "": it need not.
func (o *outlook) refusal(p *Plan, g *goal) string {
	if !o.s.unkept(p, g.have) {
		return ""
	}
	why := o.s.whyNotKept(g.have)
	if why == "" && p.secure == nil || !o.destroys(g) { // nil: it will be there when the plan is carried out
		return ""
	}
	if why == "" {
		why = cmp.Or(p.unsafe[g.path], g.have.noContent)
	}
	return "nothing could bring back what it is now" + strings.TrimSuffix(" ("+why+")", " ()") + ": move or delete it yourself"
}
