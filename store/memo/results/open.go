package results

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Settings are the user's settings of the cache.
type Settings struct {
	Off    bool
	TTL    time.Duration // 0: defaultTTL
	Tools  map[string]bool
	Budget int64  // bytes on disk; 0: 64 MiB
	Redis  string // address; "": none
}

// ErrSettings means that the settings cannot be parsed.
var ErrSettings = errors.New("want on or off, or a list like ttl=10m,search=off,memo=on,disk=128")

// ParseSettings parses "off", or a list of ttl=DURATION, disk=MB and TOOL=on|off. "" means the
// defaults.
func ParseSettings(text, redis string) (Settings, error) {
	s := Settings{Tools: defaultTools(), Redis: redis}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		_, tool := s.Tools[name]
		switch {
		case name == "" || name == "on" && value == "":
		case name == "off" && value == "":
			s.Off = true
		case name == "ttl":
			d, err := time.ParseDuration(value)
			if err != nil || d <= 0 {
				return s, fmt.Errorf("ttl=%s: %w", value, ErrSettings)
			}
			s.TTL = d
		case name == "disk":
			mb, err := strconv.ParseInt(value, 10, 64)
			if err != nil || mb <= 0 {
				return s, fmt.Errorf("disk=%s: %w", value, ErrSettings)
			}
			s.Budget = mb << 20
		case tool && (value == "on" || value == "off"):
			s.Tools[name] = value == "on"
		default:
			return s, fmt.Errorf("%q: %w", part, ErrSettings)
		}
	}
	return s, nil
}
