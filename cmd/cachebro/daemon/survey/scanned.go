package survey

import (
	"encoding/json"

	"cachebro/store/leaf/procfs"
	"cachebro/store/wire"
)

// scanned is the last scan that completed for a mountd. As long as that same process serves
// the mount, it has seen all later changes, and the spool holds those that no daemon has
// ingested, so no new scan is needed.
type scanned struct {
	Boot  string
	PID   int
	Start uint64
	Scan  wire.Baseline
}

const keepScanned = "scanned"

// keepScan stores that a scan has completed, if something is mounted.
func (s *Survey) keepScan(b wire.Baseline) {
	pid, start, ok := s.mount.identity()
	if !ok {
		return
	}
	if text, err := json.Marshal(scanned{procfs.BootID(), pid, start, b}); err == nil {
		s.keep(keepScanned, string(text))
	}
}

// scannedFor returns the scan that completed for the mountd with this pid, if any.
func (s *Survey) scannedFor(pid int) (wire.Baseline, bool) {
	last, ok := s.lastScan()
	if !ok || last.PID != pid || last.Boot != procfs.BootID() {
		return wire.Baseline{}, false
	}
	st, err := procfs.ReadStat(pid)
	return last.Scan, err == nil && st.Start == last.Start
}

func (s *Survey) lastScan() (last scanned, ok bool) {
	text, ok, err := s.Store.KV(keepWatch).Get(keepScanned)
	return last, err == nil && ok && json.Unmarshal(text, &last) == nil
}
