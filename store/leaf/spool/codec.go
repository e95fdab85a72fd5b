package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sort"

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

const (
	flagHasContent = 1 << iota
	flagTooLarge
	flagLastName
	flagIdle
)

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

func putInt(b []byte, field int, v int64) []byte { return putUint(b, field, zigzag(v)) }

func putString(b []byte, field int, s string) []byte {
	if s == "" {
		return b
	}
	return forceString(b, field, s)
}

// forceString appends a string field even if the string is empty. It is for the elements of lists.
func forceString(b []byte, field int, s string) []byte {
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
	b = putUint(b, fKind, uint64(r.Kind))
	b = putInt(b, fTime, r.Time)
	b = putUint(b, fOp, uint64(r.Op))
	b = putUint(b, fClass, uint64(r.Class))
	b = putString(b, fPath, r.Path)
	b = putString(b, fPath2, r.Path2)
	b = putString(b, fTarget, r.Target)
	b = putUint(b, fNode, r.Node)
	if r.Stat != (event.Stat{}) {
		b = appendStat(b, &r.Stat)
	}
	b = putUint(b, fPID, uint64(r.PID))
	b = putUint(b, fStart, r.Start)
	b = putUint(b, fUID, uint64(r.UID))
	b = putUint(b, fFlags, flagsOf(r))
	b = putInt(b, fTailFrom, r.TailFrom)
	b = putString(b, fHash, string(r.Hash))
	b = putUint(b, fFor, r.For)
	b = putUint(b, fFile, uint64(r.File))
	b = putInt(b, fOff, r.Off)
	b = putInt(b, fLen, r.Len)
	b = putUint(b, fSum, uint64(r.Sum))
	b = putUint(b, fPPID, uint64(r.PPID))
	b = putUint(b, fPStart, r.PStart)
	b = putString(b, fComm, r.Comm)
	b = putString(b, fArgs, r.Args)
	if len(r.Session) > 0 {
		keys := make([]string, 0, len(r.Session))
		for k := range r.Session {
			keys = append(keys, k)
		}
		sort.Strings(keys) // so that equal records have equal bytes
		for _, k := range keys {
			b = forceString(b, fSession, k+"\x00"+r.Session[k])
		}
	}
	b = putString(b, fReason, r.Reason)
	for _, p := range r.Paths {
		b = forceString(b, fPaths, p)
	}
	b = putUint(b, fMore, uint64(r.More))
	b = putString(b, fMountpoint, r.Mountpoint)
	b = putString(b, fSource, r.Source)
	b = putString(b, fVersion, r.Version)
	b = putString(b, fDir, r.Dir)
	b = putUint(b, fGroup, uint64(r.Group))
	b = putUint(b, fWas, uint64(r.Was))
	b = putString(b, fBefore, string(r.Before))
	b = putInt(b, fLine, r.Line)
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

func flagsOf(r *Record) (f uint64) {
	if r.HasContent {
		f |= flagHasContent
	}
	if r.TooLarge {
		f |= flagTooLarge
	}
	if r.LastName {
		f |= flagLastName
	}
	if r.Idle {
		f |= flagIdle
	}
	return f
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
		if tag&1 == 0 {
			setUint(r, tag>>1, v)
			continue
		}
		if v > uint64(len(p)) {
			return errMalformed
		}
		if err := setBytes(r, tag>>1, p[:v]); err != nil {
			return err
		}
		p = p[v:]
	}
	return nil
}

func setUint(r *Record, field, v uint64) {
	switch field {
	case fKind:
		r.Kind = Kind(v)
	case fTime:
		r.Time = unzigzag(v)
	case fOp:
		r.Op = event.Op(v)
	case fClass:
		r.Class = event.Class(v)
	case fNode:
		r.Node = v
	case fPID:
		r.PID = uint32(v)
	case fStart:
		r.Start = v
	case fUID:
		r.UID = uint32(v)
	case fFlags:
		r.HasContent = v&flagHasContent != 0
		r.TooLarge = v&flagTooLarge != 0
		r.LastName = v&flagLastName != 0
		r.Idle = v&flagIdle != 0
	case fTailFrom:
		r.TailFrom = unzigzag(v)
	case fFor:
		r.For = v
	case fFile:
		r.File = uint32(v)
	case fOff:
		r.Off = unzigzag(v)
	case fLen:
		r.Len = unzigzag(v)
	case fSum:
		r.Sum = uint32(v)
	case fPPID:
		r.PPID = uint32(v)
	case fPStart:
		r.PStart = v
	case fGroup:
		r.Group = uint32(v)
	case fMore:
		r.More = uint32(v)
	case fLine:
		r.Line = unzigzag(v)
	case fWas:
		r.Was = Was(v)
	}
}

func setBytes(r *Record, field uint64, v []byte) error {
	switch field {
	case fPath:
		r.Path = string(v)
	case fPath2:
		r.Path2 = string(v)
	case fTarget:
		r.Target = string(v)
	case fStat:
		return decodeStat(v, &r.Stat)
	case fHash:
		r.Hash = append([]byte(nil), v...)
	case fComm:
		r.Comm = string(v)
	case fArgs:
		r.Args = string(v)
	case fSession:
		for i, c := range v {
			if c == 0 {
				if r.Session == nil {
					r.Session = make(map[string]string)
				}
				r.Session[string(v[:i])] = string(v[i+1:])
				return nil
			}
		}
		return fmt.Errorf("session variable without a value: %w", errMalformed)
	case fReason:
		r.Reason = string(v)
	case fPaths:
		r.Paths = append(r.Paths, string(v))
	case fMountpoint:
		r.Mountpoint = string(v)
	case fSource:
		r.Source = string(v)
	case fVersion:
		r.Version = string(v)
	case fDir:
		r.Dir = string(v)
	case fBefore:
		r.Before = append([]byte(nil), v...)
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
