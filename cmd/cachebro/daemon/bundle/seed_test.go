package bundle

import (
	"cmp"
	"flag"
	"os"

	_ "pgregory.net/rapid" // for its flags
)

// The property test draws the same examples in every run. CACHEBRO_SEED or -rapid.seed chooses
// others (0: new ones each time).
func init() {
	if err := flag.Set("rapid.seed", cmp.Or(os.Getenv("CACHEBRO_SEED"), "1")); err != nil {
		panic(err)
	}
}
