package store

import (
	"bytes"
	"encoding/binary"
)

// Prefixes of keys. The package comment describes them.
const (
	kMeta     = 'm'
	kVersion  = 'v'
	kCurrent  = 'c'
	kPath     = 'p'
	kTimes    = 'z'
	kIndex    = 'i'
	kGroup    = 'd'
	kList     = 'D'
	kLink     = 'l'
	kCount    = 'L'
	kGap      = 'g'
	kNotice   = 'n'
	kKV       = 'k'
	kSession  = 'S'
	kPrompt   = 'P'
	kToolCall = 'T'
	kToolList = 'U'
	kWorking  = 'R'
	kPlan     = 'J'
	kPlanStep = 'j'
)

// Kinds of the i index.
const (
	ixSession = 's'
	ixPrompt  = 'p'
	ixTool    = 't'
	ixPlan    = 'u'
)

// BlockVersions is the number of versions in a Block, which share one z record.
const BlockVersions = 256

var (
	keyState  = []byte{kMeta, 's', 't', 'a', 't', 'e'}
	keySchema = []byte{kMeta, 's', 'c', 'h', 'e', 'm', 'a'}
)

func keyVersion(seq uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{kVersion}, seq)
}

func keyCurrent(p Path) []byte { return append([]byte{kCurrent}, p...) }

func keyPath(p Path, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(keyPathPrefix(p), seq)
}

func keyPathPrefix(p Path) []byte {
	k := make([]byte, 0, len(p)+10)
	k = append(k, kPath)
	k = append(k, p...)
	return append(k, 0)
}

// parsePathKey splits a p key into its path and number.
func parsePathKey(k []byte) (Path, uint64, bool) {
	if len(k) < 10 || k[0] != kPath || k[len(k)-9] != 0 {
		return "", 0, false
	}
	return Path(k[1 : len(k)-9]), binary.BigEndian.Uint64(k[len(k)-8:]), true
}

func keyTimes(seq uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{kTimes}, seq/BlockVersions)
}

func keyIndexPrefix(kind byte, id string) []byte {
	k := make([]byte, 0, len(id)+11)
	k = append(k, kIndex, kind)
	k = append(k, cleanID(id)...)
	return append(k, 0)
}

func keyIndex(kind byte, id string, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(keyIndexPrefix(kind, id), seq)
}

func keyLinkPrefix(in Inode) []byte { return keyInode(kLink, in) }

func keyLinkCount(in Inode) []byte { return keyInode(kCount, in) }

func keyInode(prefix byte, in Inode) []byte {
	k := make([]byte, 0, 25)
	k = append(k, prefix)
	k = binary.BigEndian.AppendUint64(k, in.Dev)
	k = binary.BigEndian.AppendUint64(k, in.Ino)
	return binary.BigEndian.AppendUint64(k, uint64(in.Birth))
}

func keyTimed(prefix byte, t int64, n uint64) []byte {
	k := binary.BigEndian.AppendUint64([]byte{prefix}, uint64(t))
	return binary.BigEndian.AppendUint64(k, n)
}

func keyNamed(prefix byte, parts ...string) []byte {
	k := []byte{prefix}
	for i, p := range parts {
		if i > 0 {
			k = append(k, 0)
		}
		k = append(k, cleanID(p)...)
	}
	return k
}

// cleanID replaces the NUL bytes in an id that a client sent, because NUL separates the parts
// of a key.
func cleanID(id string) []byte {
	return bytes.ReplaceAll([]byte(id), []byte{0}, []byte{0xff})
}

// below returns the prefix of all paths in a directory; "" is the root.
func below(dir Path) Path {
	if dir == "" {
		return ""
	}
	return dir + "/"
}
