package storage

import (
	"strconv"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store"
	"cachebro/store/memo/results"
	"cachebro/store/wire"
)

// storeLimits reads the limits of this user's histories. For unset variables the defaults of
// store.Options apply.
//
//   - CACHEBRO_CAP is the size that all histories together should not exceed (500MiB, 4GiB).
//   - CACHEBRO_KEEP is the number of versions of each file that are never dropped for their age.
//   - CACHEBRO_KEEP_AGE is the age up to which all versions are kept (36h, 30d).
func storeLimits(e *cli.Env) (o store.Options, err error) {
	if s := e.Getenv("CACHEBRO_CAP"); s != "" {
		n, ok := parseBytes(s)
		if !ok || n < 1<<20 {
			return o, e.Usagef("CACHEBRO_CAP=%s: want a size of 1MiB or more, such as 500MiB or 4GiB", cli.Quote(s))
		}
		o.Cap = n
	}
	if s := e.Getenv("CACHEBRO_KEEP"); s != "" {
		o.Keep, err = strconv.Atoi(s)
		if err != nil || o.Keep < 1 {
			return o, e.Usagef("CACHEBRO_KEEP=%s: want how many versions to keep per file, 1 or more", cli.Quote(s))
		}
	}
	if s := e.Getenv("CACHEBRO_KEEP_AGE"); s != "" {
		age, ok := wire.ParseAge(s)
		if !ok || age <= 0 {
			return o, e.Usagef("CACHEBRO_KEEP_AGE=%s: want an age, such as 36h or 30d", cli.Quote(s))
		}
		o.KeepAge = age
	}
	return o, nil
}

// resultSettings reads the settings of cached results. CACHEBRO_RESULTS is "off" or a list such as
// ttl=10m,search=off,disk=128 (MB). CACHEBRO_REDIS is the address of a Redis server or cluster
// through which results are shared.
func resultSettings(e *cli.Env) (results.Settings, error) {
	s, err := results.ParseSettings(e.Getenv("CACHEBRO_RESULTS"), e.Getenv("CACHEBRO_REDIS"))
	if err != nil {
		return s, e.Usagef("CACHEBRO_RESULTS: %v", err)
	}
	return s, nil
}

// parseBytes parses sizes such as 1048576, 500MiB or 4G. All units are binary.
func parseBytes(s string) (int64, bool) {
	s = strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(strings.TrimSpace(s)), "b"), "i")
	shift := 0
	if i := strings.IndexAny(s, "kmgt"); i > 0 && i == len(s)-1 {
		shift = 10 * (strings.IndexByte("kmgt", s[i]) + 1)
		s = strings.TrimSpace(s[:i])
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > (1<<62)>>shift {
		return 0, false
	}
	return n << shift, true
}
