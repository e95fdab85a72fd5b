//go:build !linux

package apply

import (
	"errors"
	"os"

	"cachebro/store/leaf/event"
)

// takesPrepared returns false, because no mount on this system understands event.Prepared.
func takesPrepared(string) bool { return false }

func handOver(*os.File, []event.PreparedFile) error { return errors.ErrUnsupported }

func makeName(*places, *os.Root, string, uint32) error { return errors.ErrUnsupported }
