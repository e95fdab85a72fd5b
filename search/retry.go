package search

import (
	"time"

	"github.com/blevesearch/bleve/v2/index/scorch"
)

// slowly names what bleve calls when it could not write or merge a segment. It
// tries again at once, and so for ever with all processors where the disk is
// full or the directory gone; the call is made in between.
const (
	slowly     = "cachebro"
	retryPause = time.Second
)

func init() {
	scorch.RegistryAsyncErrorCallbacks[slowly] = func(error, string) { time.Sleep(retryPause) }
}
