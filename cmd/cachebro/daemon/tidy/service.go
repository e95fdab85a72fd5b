// Package tidy maintains the store as a whole. It enforces the store's limits and the store's share
// of the space of all projects. It also checks, purges and exports the store.
package tidy

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"cachebro/cmd/cachebro/daemon/answers"
	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/knowledge"
	"cachebro/cmd/cachebro/daemon/reads"
	"cachebro/search"
	"cachebro/store"
	"cachebro/store/keep"
	"cachebro/store/onwire"
	"cachebro/store/readers"
	"cachebro/store/wire"
)

// Options configure New. All but Tidy are required.
type Options struct {
	Root      string // of the project; absolute
	State     string // its state directory
	Version   string // of this program
	Store     *store.Store
	Ingest    *ingest.Ingester
	Answers   *answers.Answers
	Sets      *reads.WorkingSets
	Knowledge *knowledge.Knowledge
	Index     *search.Index
	Shown     *readers.Tracker
	Paths     onwire.Paths
	Changed   func() // called if followers of the log have something to do; never blocks
	// Tidy makes the store in another state directory shrink to its share of the cap. It may take
	// minutes. If Tidy is nil, other stores do not shrink.
	Tidy func(ctx context.Context, state string) error
	Log  *slog.Logger
}

// Tidy maintains a store.
type Tidy struct {
	Options

	keep      *keep.Keeper
	collected time.Time              // when the limits of the store were last checked; only Collect uses it
	tidying   atomic.Bool            // a goroutine is tidying other projects
	asked     map[string]tidyRequest // by state directory; used while tidying is set
}

// New makes the service.
func New(o Options) *Tidy {
	td := &Tidy{Options: o}
	td.keep = keep.New(o.Store, td.pins(), td.canPack)
	return td
}

// canPack reports whether it is a good time for packing, which uses a processor and the disk for a
// while. The index has priority, and on battery packing can wait.
func (td *Tidy) canPack() bool { return !td.Index.Working() && !onBattery(powerSupplies) }

// Handlers returns the handlers of the requests about the store as a whole, by method.
func (td *Tidy) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{wire.MStore: onwire.Decoded(td.maintain), wire.MExport: td.export}
}

// powerSupplies is where Linux describes the machine's power supplies. Without it, the machine
// counts as running on mains.
const powerSupplies = "/sys/class/power_supply"

// onBattery reports whether the machine runs on battery. dir has a directory for each supply
// (Documentation/ABI/testing/sysfs-class-power).
func onBattery(dir string) bool {
	supplies, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	gives := false
	for _, e := range supplies {
		is := func(file, want string) bool {
			b, err := os.ReadFile(filepath.Join(dir, e.Name(), file))
			return err == nil && strings.TrimSpace(string(b)) == want
		}
		switch {
		case is("type", "Battery"):
			gives = gives || is("status", "Discharging") && !is("scope", "Device") // a mouse has a battery, too
		case is("online", "1"):
			return false
		}
	}
	return gives
}
