package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"

	"cachebro/store/leaf/event"
)

// The payload after Seq is a list of fields. A field is uvarint(number<<1 | type) and a value. For
// type 0 the value is a uvarint (signed values zigzag-coded), for type 1 a uvarint length and
// bytes. Zero fields are left out and unknown ones are skipped, so an older reader understands a
// newer writer. The numbers are stored: never reuse one.
const (
	fKind = iota + 1
	fTime
	fOp
	fClass
	fPath
	fPath2
	fTarget
	fNode
	fStat // bytes: ten varints, then attributes, which older readers ignore
	fPID
	fStart
	fUID
	fFlags
	fTailFrom
	fHash
	fFor
	fFile
	fOff
	fLen
	fSum
	fPPID
	fPStart
	fComm
	fArgs
	fSession // bytes, repeated: key NUL value
	fReason
	fPaths // bytes, repeated
	fMore
	fMountpoint
	fSource
	fVersion
	fDir
	fGroup
	fWas
	fBefore
	fLine
)

// fieldsOf returns where the fields of r are, by their numbers. A signed number is zigzag-coded.
func fieldsOf(r *Record) [fLine + 1]any {
	return [...]any{
		fKind: (*uint8)(&r.Kind), fTime: &r.Time, fOp: (*uint8)(&r.Op), fClass: (*uint8)(&r.Class),
		fPath: &r.Path, fPath2: &r.Path2, fTarget: &r.Target, fNode: &r.Node, fStat: &r.Stat,
		fPID: &r.PID, fStart: &r.Start, fUID: &r.UID, fFlags: r, fTailFrom: &r.TailFrom,
		fHash: &r.Hash, fFor: &r.For, fFile: &r.File, fOff: &r.Off, fLen: &r.Len, fSum: &r.Sum,
		fPPID: &r.PPID, fPStart: &r.PStart, fComm: &r.Comm, fArgs: &r.Args, fSession: &r.Session,
		fReason: &r.Reason, fPaths: &r.Paths, fMore: &r.More, fMountpoint: &r.Mountpoint,
		fSource: &r.Source, fVersion: &r.Version, fDir: &r.Dir, fGroup: &r.Group,
		fWas: (*uint8)(&r.Was), fBefore: &r.Before, fLine: &r.Line,
	}
}

// flagsOf returns where the flags of r are. The first one is the lowest bit.
func flagsOf(r *Record) [4]*bool {
	return [...]*bool{&r.HasContent, &r.TooLarge, &r.LastName, &r.Idle}
}

const (
	headerLen = 8
	seqLen    = 8
	// maxPayload is the longest payload that a reader accepts. The longest record written is a
	// KindReads of 256 paths of 4 KiB.
	maxPayload = 4 << 20

	endLength = 0xffffffff
	endSum    = 0x5e61f17e
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errMalformed means that the checksum is right but the fields cannot be parsed.
var errMalformed = errors.New("malformed spool record")

func putUint(b []byte, field int, v uint64) []byte {
	if v == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64(field)<<1)
	return binary.AppendUvarint(b, v)
}

func putString[T string | []byte](b []byte, field int, s T) []byte {
	if len(s) == 0 {
		return b
	}
	return forceString(b, field, s)
}

// forceString appends a string field even if the string is empty. It is for the elements of lists.
func forceString[T string | []byte](b []byte, field int, s T) []byte {
	b = binary.AppendUvarint(b, uint64(field)<<1|1)
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func zigzag(v int64) uint64   { return uint64(v)<<1 ^ uint64(v>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// appendRecord appends header and payload of r to b. seal fills in Seq and the checksum under the
// Writer's lock.
func appendRecord(b []byte, r *Record) []byte {
	start := len(b)
	b = append(b, make([]byte, headerLen+seqLen)...)
	for field, v := range fieldsOf(r) {
		switch v := v.(type) {
		case *uint8:
			b = putUint(b, field, uint64(*v))
		case *uint32:
			b = putUint(b, field, uint64(*v))
		case *uint64:
			b = putUint(b, field, *v)
		case *int64:
			b = putUint(b, field, zigzag(*v))
		case *string:
			b = putString(b, field, *v)
		case *[]byte:
			b = putString(b, field, *v)
		case *[]string:
			for _, s := range *v {
				b = forceString(b, field, s)
			}
		case *map[string]string:
			if len(*v) == 0 {
				continue // without the allocations of an iterator
			}
			for _, k := range slices.Sorted(maps.Keys(*v)) { // so that equal records have equal bytes
				b = forceString(b, field, k+"\x00"+(*v)[k])
			}
		case *event.Stat:
			if *v != (event.Stat{}) {
				b = appendStat(b, v)
			}
		case *Record:
			var flags uint64
			for i, set := range flagsOf(v) {
				if *set {
					flags |= 1 << i
				}
			}
			b = putUint(b, field, flags)
		}
	}
	binary.LittleEndian.PutUint32(b[start:], uint32(len(b)-start-headerLen))
	return b
}

// seal writes seq and the checksum into the record at the front of b and returns the bytes after
// the record.
func seal(b []byte, seq uint64) []byte {
	n := headerLen + int(binary.LittleEndian.Uint32(b))
	binary.LittleEndian.PutUint64(b[headerLen:], seq)
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[headerLen:n], castagnoli))
	return b[n:]
}

func appendStat(b []byte, s *event.Stat) []byte {
	var buf [10 * binary.MaxVarintLen64]byte
	v := buf[:0]
	for _, u := range [...]uint64{s.Dev, s.Ino, zigzag(s.Birth), uint64(s.Mode), uint64(s.Nlink),
		uint64(s.UID), uint64(s.GID), zigzag(s.Size), zigzag(s.Mtime), zigzag(s.Ctime)} {
		v = binary.AppendUvarint(v, u)
	}
	b = binary.AppendUvarint(b, fStat<<1|1)
	b = binary.AppendUvarint(b, uint64(len(v)+len(s.Attrs)))
	return append(append(b, v...), s.Attrs...)
}

// decode parses the payload (Seq and fields) into r, resetting r first.
func decode(p []byte, r *Record) error {
	*r = Record{}
	if len(p) < seqLen {
		return errMalformed
	}
	r.Seq = binary.LittleEndian.Uint64(p)
	p = p[seqLen:]
	fields := fieldsOf(r)
	for len(p) > 0 {
		tag, n := binary.Uvarint(p)
		if n <= 0 {
			return errMalformed
		}
		p = p[n:]
		v, n := binary.Uvarint(p)
		if n <= 0 {
			return errMalformed
		}
		p = p[n:]
		var field any
		if tag>>1 < uint64(len(fields)) {
			field = fields[tag>>1]
		}
		if tag&1 == 0 {
			setUint(field, v)
			continue
		}
		if v > uint64(len(p)) {
			return errMalformed
		}
		if err := setBytes(field, p[:v]); err != nil {
			return err
		}
		p = p[v:]
	}
	return nil
}

func setUint(field any, v uint64) {
	switch f := field.(type) {
	case *uint8:
		*f = uint8(v)
	case *uint32:
		*f = uint32(v)
	case *uint64:
		*f = v
	case *int64:
		*f = unzigzag(v)
	case *Record:
		for i, set := range flagsOf(f) {
			*set = v>>i&1 != 0
		}
	}
}

func setBytes(field any, v []byte) error {
	switch f := field.(type) {
	case *string:
		*f = string(v)
	case *[]byte:
		*f = append([]byte(nil), v...)
	case *[]string:
		*f = append(*f, string(v))
	case *map[string]string:
		key, value, ok := strings.Cut(string(v), "\x00")
		if !ok {
			return fmt.Errorf("session variable without a value: %w", errMalformed)
		}
		if *f == nil {
			*f = make(map[string]string)
		}
		(*f)[key] = value
	case *event.Stat:
		return decodeStat(v, f)
	}
	return nil
}

func decodeStat(p []byte, s *event.Stat) error {
	var v [10]uint64
	for i := range v {
		u, n := binary.Uvarint(p)
		if n <= 0 {
			return fmt.Errorf("stat: %w", errMalformed)
		}
		v[i], p = u, p[n:]
	}
	*s = event.Stat{Dev: v[0], Ino: v[1], Birth: unzigzag(v[2]), Mode: uint32(v[3]), Nlink: uint32(v[4]),
		UID: uint32(v[5]), GID: uint32(v[6]), Size: unzigzag(v[7]), Mtime: unzigzag(v[8]), Ctime: unzigzag(v[9]), Attrs: string(p)}
	return nil
}
