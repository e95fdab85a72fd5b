package tidy

import (
	"os"
	"path/filepath"
	"strings"
)

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
