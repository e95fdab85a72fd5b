package survey

import (
	"encoding/json"

	"cachebro/store/leaf/procfs"
	"cachebro/store/wire"
)

// scanned is the last scan that completed for a mountd. As long as that process serves the mount,
// it reports every later change, so no new scan is needed. The spool holds the changes that no
// daemon has ingested.
type scanned struct {
	Boot  string
	PID   int
	Start uint64
	Scan  wire.Baseline
	// Whole says that every change since the scan began was reported. Missed is mountd's count, at
	// the scan, of how often it may have missed changes. A greater count means that a new scan is
	// due.
	Whole  bool
	Missed uint64
}

const keepScanned = "scanned"

// keepScan stores that a scan has completed, if something is mounted. missed is the result of
// mount.scanBegins before the scan.
func (s *Survey) keepScan(b wire.Baseline, missed uint64) {
	pid, start, ok := s.mount.identity()
	if !ok {
		return
	}
	if text, err := json.Marshal(scanned{procfs.BootID(), pid, start, b, !s.mount.unwatched(), missed}); err == nil {
		s.keep(keepScanned, string(text))
	}
}

// scannedFor returns the scan that completed for the mountd with this pid, nil if none has.
func (s *Survey) scannedFor(pid int) *scanned {
	last, ok := s.lastScan()
	if !ok || last.PID != pid || last.Boot != procfs.BootID() {
		return nil
	}
	if st, err := procfs.ReadStat(pid); err != nil || st.Start != last.Start {
		return nil
	}
	return &last
}

func (s *Survey) lastScan() (last scanned, ok bool) {
	text, ok, err := s.Store.KV(keepWatch).Get(keepScanned)
	return last, err == nil && ok && json.Unmarshal(text, &last) == nil
}
