package store

import (
	"context"
	"fmt"
)

// Found is the content of a version that was stored without its content.
type Found struct {
	Version Version
	Content []byte
}

// Fill stores the contents of versions that have none. It skips versions that are not the newest of
// their path. After ErrTooLarge or ErrNoSpace nothing is stored.
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
		v.Blob, err = b.put(f.Content, v)
		if err != nil {
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
