package store

import (
	"cmp"
	"flag"
	"os"

	_ "pgregory.net/rapid" // its flags
)

// The property tests draw the same examples in every run. CACHEBRO_SEED or -rapid.seed selects
// others; 0 selects new ones each time.
func init() {
	if err := flag.Set("rapid.seed", cmp.Or(os.Getenv("CACHEBRO_SEED"), "1")); err != nil {
		panic(err)
	}
}
