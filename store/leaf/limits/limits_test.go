package limits

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestPage: doc/limits.md has each constant, with its value.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../../doc/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"Content": int64(Content), "IgnoredContent": int64(IgnoredContent), "GitAcross": int64(GitAcross),
		"History": int64(History), "OutsideFor": OutsideFor, "IgnoredHourly": int64(IgnoredHourly), "Git": int64(Git), "Results": int64(Results),
		"Spool": int64(Spool), "NetSpool": int64(NetSpool), "SpoolFree": int64(SpoolFree),
		"KeepVersions": int64(KeepVersions), "LogVersions": int64(LogVersions),
		"KeepAge": KeepAge, "GitFor": GitFor, "GitFresh": GitFresh, "DaemonIdle": DaemonIdle, "PastIdle": PastIdle,
	}
	rows := regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\| ([^|]+) \\|").FindAllStringSubmatch(string(page), -1)
	for _, row := range rows {
		got, err := value(row[2])
		if err != nil {
			t.Errorf("%s: %v", row[1], err)
		}
		if got != want[row[1]] {
			t.Errorf("%s is %v, the page says %s", row[1], want[row[1]], row[2])
		}
	}
	if len(rows) != len(want) {
		t.Errorf("the page has %d rows for %d constants", len(rows), len(want))
	}
}

// value reads "32 MiB", "500,000" or "1m30s".
func value(s string) (any, error) {
	if d, err := time.ParseDuration(s); err == nil {
		return d, nil
	}
	var n int64
	var unit string
	if _, err := fmt.Sscanf(strings.ReplaceAll(s, ",", ""), "%d %s", &n, &unit); err != nil && n == 0 {
		return nil, err
	}
	switch unit {
	case "MiB":
		n <<= 20
	case "GiB":
		n <<= 30
	}
	return n, nil
}
