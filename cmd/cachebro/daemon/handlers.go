package daemon

import (
	"fmt"

	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// handlers are those of the daemon itself.
func (d *Daemon) handlers() map[string]wire.Handler {
	return map[string]wire.Handler{wire.MStatus: onwire.Decoded(d.status), wire.MShutdown: d.shutdown}
}

// merge makes one table of all services'. A method that two of them answer is an error.
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
