package store

import "cachebro/store/content"

// Place says where a content lies; false if it is not kept, or in doubt.
func (s *Store) Place(h Hash) (content.Place, bool) { return s.contents.Place(h) }
