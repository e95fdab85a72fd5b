package past

import (
	"os"

	"cachebro/fusefs"
	"cachebro/fusefs/mounts"
)

// Point returns the directory on which the past of a project (see the package comment) is mounted.
// It returns "" if the past is not mounted.
func Point(root string) string {
	all, err := mounts.Mounts()
	if err != nil {
		return ""
	}
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Type == Type && all[i].Source == root && (all[i].UID < 0 || all[i].UID == os.Getuid()) {
			return all[i].Point
		}
	}
	return ""
}

// Leave unmounts the past of a project even if it is in use. The past stores nothing, so nothing
// can be lost.
func Leave(root string) {
	if point := Point(root); point != "" {
		_ = fusefs.Detach(point)
		_ = os.Remove(point)
	}
}
