package store

// Stats sums the store up; cheap.
type Stats struct {
	Seq       uint64 // newest version
	Versions  uint64 // in the log
	Files     uint64 // paths that exist and are not directories
	Blobs     uint64 // contents
	BlobBytes int64  // as they are stored
	RawBytes  int64  // as they are
	Loose     int64  // as they are, of those that wait for a repack
	Gaps      int64  // ever
}

// Stats returns the counters.
func (s *Store) Stats() Stats {
	st := s.state.Load()
	return Stats{
		Seq: st.Seq, Versions: st.Versions, Files: st.Files, Blobs: st.Blobs,
		BlobBytes: st.BlobBytes, RawBytes: st.RawBytes, Loose: st.Loose, Gaps: st.GapCount,
	}
}

// DiskUsage is the allocated size of the store's directory in bytes without
// the ballast, and what is free on its file system. The size may be 2 s old.
func (s *Store) DiskUsage() (used, free int64, err error) {
	free, _, err = s.room.Free()
	return s.room.Usage(s.opt.Now(), false), free, err
}

// Cap is Options.Cap, or what it is when that is 0.
func (s *Store) Cap() int64 { return s.opt.Cap }
