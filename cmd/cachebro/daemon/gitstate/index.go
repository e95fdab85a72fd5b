package gitstate

import (
	"bytes"
	"crypto/sha256"
	"hash"

	"cachebro/store/leaf/gitdir"
)

// staged returns a digest of the names, modes, stages and objects in git's index. A split
// index has no digest.
func staged(raw []byte) (sum [32]byte, ok bool) {
	var all hash.Hash
	rest, err := gitdir.ReadIndex(raw, func() func(gitdir.IndexEntry) error {
		all = sha256.New()
		return func(e gitdir.IndexEntry) error {
			all.Write(e.Mode)
			all.Write(e.Object)
			flags := [3]byte{byte(e.Flags >> 8)}
			copy(flags[1:], e.More)
			all.Write(flags[:])
			all.Write(e.Name)
			all.Write([]byte{0})
			return nil
		}
	})
	if err != nil || bytes.HasPrefix(rest, []byte("link")) {
		return sum, false
	}
	all.Sum(sum[:0])
	return sum, true
}
