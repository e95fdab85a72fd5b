package spool

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
)

// verdict is the result of examining the bytes at a position of a segment.
type verdict int

const (
	whole   verdict = iota // a valid record
	partial                // the bytes end before the record ends
	ended                  // the end mark
	broken                 // no record begins with these bytes
)

// examine examines the record at the front of b and returns its whole length.
func examine(b []byte) (int, verdict) {
	if len(b) < headerLen {
		return 0, partial
	}
	n, sum := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	if n == endLength && sum == endSum {
		return headerLen, ended
	}
	if n < seqLen || n > maxPayload {
		return 0, broken
	}
	end := headerLen + int(n)
	if len(b) < end {
		return 0, partial
	}
	if crc32.Checksum(b[headerLen:end], castagnoli) != sum {
		return 0, broken
	}
	return end, whole
}

func seqOf(b []byte) uint64 { return binary.LittleEndian.Uint64(b[headerLen:]) }

// resync finds the next valid record after damage. It returns the first offset in b of a record
// with a Seq above last. Bytes that only look like a record would have neither the right checksum
// nor an ascending Seq.
func resync(b []byte, last uint64) (int, bool) {
	for i := 1; i+headerLen+seqLen <= len(b); i++ {
		if n := binary.LittleEndian.Uint32(b[i:]); n < seqLen || n > maxPayload {
			continue
		}
		if _, v := examine(b[i:]); v == whole && seqOf(b[i:]) > last {
			return i, true
		}
	}
	return 0, false
}

// cutTail truncates the segment after its last valid record. It returns that offset and the
// record's Seq (0 if there is none). The truncated bytes were never a whole record, because a kill
// or a power loss interrupted the write.
func cutTail(path string) (end int64, seq uint64, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, fmt.Errorf("read last segment: %w", err)
	}
	at := 0
	for at < len(b) {
		n, v := examine(b[at:])
		if v == whole {
			seq = seqOf(b[at:])
			at += n
			end = int64(at)
			continue
		}
		if v == ended {
			return int64(at), seq, nil
		}
		skip, ok := resync(b[at:], seq)
		if !ok {
			break
		}
		at += skip
	}
	if end < int64(len(b)) {
		if err := os.Truncate(path, end); err != nil {
			return 0, 0, fmt.Errorf("cut torn tail: %w", err)
		}
	}
	return end, seq, nil
}

// markEnd writes the end mark into a segment left by a dead Writer.
func markEnd(path string, end int64) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	putEnd(f, end)
}
