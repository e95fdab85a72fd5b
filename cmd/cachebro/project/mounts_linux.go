package project

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Mounts reads this process's mount table.
func Mounts() ([]Mount, error) { return readMounts("/proc/self/mountinfo") }

func readMounts(file string) ([]Mount, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	return parseMounts(string(b)), nil
}

// parseMounts understands proc(5)'s mountinfo: "36 35 98:0 /root /point rw -
// type source options", with any number of optional fields before the dash.
func parseMounts(text string) []Mount {
	var all []Mount
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		dash := -1
		for i := 6; i < len(f); i++ {
			if f[i] == "-" {
				dash = i
				break
			}
		}
		if dash < 0 || len(f) < dash+3 {
			continue
		}
		m := Mount{Dev: f[2], Point: unescape(f[4]), Type: unescape(f[dash+1]), Source: unescape(f[dash+2]), UID: -1}
		m.ID, _ = strconv.Atoi(f[0])
		if len(f) > dash+3 {
			for o := range strings.SplitSeq(f[dash+3], ",") {
				if v, ok := strings.CutPrefix(o, "user_id="); ok {
					m.UID, _ = strconv.Atoi(v)
				}
			}
		}
		all = append(all, m)
	}
	return all
}

// unescape undoes \040 and the like.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
