package content

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"cachebro/store/db"

	badger "github.com/dgraph-io/badger/v4"
	"github.com/klauspost/compress/zstd"
)

const (
	// frameSize is the number of bytes of contents that share a frame. Neighbours are versions of
	// one file and files of one kind, so a frame compresses well. Larger frames would make the
	// store smaller. But reading one content decodes its whole frame, which takes 0.5 to 1 ms at
	// this size.
	frameSize = 2 << 20
	// maxInFrame is the size limit for moving a delta into a frame. Versions of larger contents
	// take less space as a chain of deltas. Contents stored whole are moved if they are not larger
	// than frameSize, because siblings can share them even if they do not compress.
	maxInFrame = 128 << 10
	// frameCount bounds the number of contents in a frame.
	frameCount = 2000
)

// frameHead is the value of an F key. In its encoding, the byte inPackFile comes between raw and
// file.
type frameHead struct {
	pack  uint64 // number of the repack that made the frame, counted from 1
	raw   int64  // total size of its contents
	file  packName
	at, n int64 // position in the file
}

const inPackFile = 0

func (h frameHead) encode() []byte {
	b := binary.AppendUvarint(nil, h.pack)
	b = binary.AppendUvarint(b, uint64(h.raw))
	b = append(append(b, inPackFile), h.file[:]...)
	b = binary.AppendUvarint(b, uint64(h.at))
	return binary.AppendUvarint(b, uint64(h.n))
}

func parseFrame(b []byte) (h frameHead, err error) {
	bad := fmt.Errorf("%w: frame header", db.ErrDamaged)
	num := func() int64 {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > 1<<40 {
			b, err = nil, bad
			return 0
		}
		b = b[k:]
		return int64(n)
	}
	h.pack, h.raw = uint64(num()), num()
	if len(b) < 1+len(h.file) || b[0] != inPackFile || h.raw > 2*frameSize {
		return frameHead{}, bad
	}
	b = b[1+copy(h.file[:], b[1:]):]
	h.at, h.n = num(), num()
	if err != nil {
		return frameHead{}, bad
	}
	return h, nil
}

func keyFrame(id uint64) []byte { return binary.BigEndian.AppendUint64([]byte{kFrame}, id) }

// unpack returns a content from its frame.
func (s *Store) unpack(txn *badger.Txn, hd header) ([]byte, error) {
	b, err := s.frame(txn, hd.frame)
	if err != nil {
		return nil, err
	}
	if hd.at > int64(len(b)) || hd.size > int64(len(b))-hd.at {
		return nil, fmt.Errorf("%w: frame %d is shorter than a content in it", db.ErrDamaged, hd.frame)
	}
	// Return a copy, so that a cached content does not hold the whole frame in memory.
	return bytes.Clone(b[hd.at : hd.at+hd.size : hd.at+hd.size]), nil
}

// frame returns all contents of a frame, concatenated.
func (s *Store) frame(txn *badger.Txn, id uint64) ([]byte, error) {
	if b, ok := s.frames.Get(id); ok {
		return b, nil
	}
	item, err := txn.Get(keyFrame(id))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, fmt.Errorf("%w: frame %d is missing", db.ErrDamaged, id)
	}
	if err != nil {
		return nil, db.Damaged(err)
	}
	var out []byte
	err = item.Value(func(v []byte) error {
		h, err := parseFrame(v)
		if err != nil {
			return err
		}
		z, err := readPart(s.packPath(h.file), h.at, h.n)
		if err == nil {
			out, err = s.codecs.expand(z, nil, h.raw)
		}
		return err
	})
	if errors.Is(err, errUnread) {
		return nil, fmt.Errorf("frame %d: %w", id, err)
	}
	if err != nil {
		return nil, fmt.Errorf("frame %d: %w", id, db.Damaged(err))
	}
	s.frames.Put(id, out)
	return out, nil
}

// eachFrame calls fn with the heads of all frames, oldest first.
func (s *Store) eachFrame(fn func(id uint64, h frameHead) error) error {
	return s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kFrame}})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			key := it.Item().Key()
			if len(key) != 9 {
				continue
			}
			var h frameHead
			err := it.Item().Value(func(v []byte) (err error) { h, err = parseFrame(v); return })
			if err != nil {
				h = frameHead{} // fsck reports the damage
			}
			if err := fn(binary.BigEndian.Uint64(key[1:]), h); err != nil {
				return err
			}
		}
		return nil
	})
}

// framer compresses frames. It takes about 40 MB, so it exists only during a repack.
type framer struct{ better, best *zstd.Encoder }

func newFramer() (*framer, error) {
	level := func(l zstd.EncoderLevel) (*zstd.Encoder, error) {
		return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
			zstd.WithEncoderCRC(false), zstd.WithEncoderLevel(l), zstd.WithWindowSize(frameSize))
	}
	better, err := level(zstd.SpeedBetterCompression)
	if err != nil {
		return nil, err
	}
	best, err := level(zstd.SpeedBestCompression)
	return &framer{better, best}, err
}

// compress returns zstd of raw. It uses zstd's best level only for repetitive data, where that level
// saves 5 % and is fast. For other data it would take 200 ms per frame, ten times as long, and save
// nothing.
func (f *framer) compress(raw []byte) []byte {
	z := f.better.EncodeAll(raw, nil)
	if len(z) > len(raw)/4 {
		return z
	}
	if b := f.best.EncodeAll(raw, nil); len(b) < len(z) {
		return b
	}
	return z
}

func (f *framer) close() {
	f.better.Close()
	f.best.Close()
}
