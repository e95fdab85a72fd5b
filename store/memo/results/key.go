package results

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Key returns the key of a call: the tool's name, a colon and the first 16 hex digits of a hash.
// The hash is the SHA-256 of the canonical JSON of [tool, args]; full is the whole hash in hex. An
// entry also holds full, so that a collision of short hashes is a miss. Arguments have the same key
// if their JSON differs only in the order of keys, in spaces and in the spelling of exponents.
func Key(tool string, args any) (key, full string, err error) {
	raw, err := canonical([]any{tool, args})
	if err != nil {
		return "", "", fmt.Errorf("key of %s: %w", tool, err)
	}
	sum := sha256.Sum256(raw)
	full = hex.EncodeToString(sum[:])
	return tool + ":" + full[:16], full, nil
}

// canonical encodes v as JSON with sorted keys. It first decodes structs and raw messages into
// maps, because encoding sorts the keys of maps.
func canonical(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // otherwise 2^53+1 would become 2^53
	var plain any
	if err := dec.Decode(&plain); err != nil {
		return nil, err
	}
	return json.Marshal(plain)
}
