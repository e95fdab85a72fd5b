package daemon

import (
	"fmt"

	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// handlers returns the handlers of the daemon itself, by method.
func (d *Daemon) handlers() map[string]wire.Handler {
	return map[string]wire.Handler{wire.MStatus: onwire.Decoded(d.status), wire.MShutdown: d.shutdown}
}

// merge combines the tables of all services into one. It returns an error if two services have
// the same method.
func merge(tables ...map[string]wire.Handler) (map[string]wire.Handler, error) {
	all := map[string]wire.Handler{}
	for _, t := range tables {
		for method, h := range t {
			if all[method] != nil {
				return nil, fmt.Errorf("two services answer %q", method)
			}
			all[method] = h
		}
	}
	return all, nil
}

// holdForPlan stops the index and enlarges the store's cache until release is called. A plan of
// many files reads their contents several times.
func (d *Daemon) holdForPlan() (release func()) {
	index, cache := d.index.Suspend(), d.store.DB().ReadMany()
	return func() {
		index()
		cache()
	}
}
