package content

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"cachebro/store/db"
	"cachebro/store/space"

	"golang.org/x/sys/unix"
)

// A pack file holds the frames of one part of a repack. It is written once, under a unique name,
// and never changes. Therefore the stores of sibling worktrees can share it by hard links, and
// deleting one store does not affect the others. Its index allows a sibling to read it without the
// database of the store that wrote it. Layout:
//
//	packMagic
//	frames          zstd of contents, one after the other
//	index           uvarint count of frames; of each: uvarint bytes, uvarint
//	                bytes of contents, uvarint count of contents, then as many
//	                tags (4 bytes) and sizes (uvarint)
//	trailer         8 bytes where the index begins, 4 bytes CRC-32C of it, packMagic
//
// A tag is the beginning of a content's hash. It finds places that may hold the content; the bytes
// are then compared.
const (
	packTemp  = "new-"
	packMagic = "cbpack1\n"
	// packTrailer is the size of the trailer in bytes, packIndexMost the size of the largest index.
	packTrailer   = 8 + 4 + len(packMagic)
	packIndexMost = 64 << 20
)

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// packName is random, so that two stores never choose the same name.
type packName [16]byte

func (n packName) file() string { return hex.EncodeToString(n[:]) + space.PackExt }

func parsePackName(file string) (n packName, ok bool) {
	base, found := strings.CutSuffix(file, space.PackExt)
	b, err := hex.DecodeString(base)
	if !found || err != nil || len(b) != len(n) {
		return n, false
	}
	return packName(b), true
}

func (s *Store) packsDir() string { return filepath.Join(s.dir, space.PacksDir) }

func (s *Store) packPath(n packName) string { return filepath.Join(s.packsDir(), n.file()) }

// packFrame is one frame in a pack file's index.
type packFrame struct {
	at, n, raw int64 // offset in the file, stored size, size of its contents
	tags       []uint32
	sizes      []int64
}

func tagOf(h Hash) uint32 { return binary.BigEndian.Uint32(h[:4]) }

// packWriter makes one pack file.
type packWriter struct {
	dir    string
	f      *os.File
	at     int64
	frames []packFrame
}

// newPack begins a pack file. Records refer to the file only after seal.
func (s *Store) newPack() (*packWriter, error) {
	if err := os.MkdirAll(s.packsDir(), 0o700); err != nil {
		return nil, fmt.Errorf("make a pack file: %w", db.FailedWrite(err))
	}
	f, err := os.CreateTemp(s.packsDir(), packTemp)
	if err != nil {
		return nil, fmt.Errorf("make a pack file: %w", db.FailedWrite(err))
	}
	w := &packWriter{dir: s.packsDir(), f: f}
	return w, w.write([]byte(packMagic))
}

func (w *packWriter) write(b []byte) error {
	n, err := w.f.Write(b)
	w.at += int64(n)
	if err != nil {
		return fmt.Errorf("write a pack file: %w", db.FailedWrite(err))
	}
	return nil
}

// add appends a frame and returns its offset.
func (w *packWriter) add(z []byte, raw int64, parts []parcel) (int64, error) {
	fr := packFrame{at: w.at, n: int64(len(z)), raw: raw}
	for _, p := range parts {
		fr.tags, fr.sizes = append(fr.tags, tagOf(p.hash)), append(fr.sizes, p.size)
	}
	w.frames = append(w.frames, fr)
	return fr.at, w.write(z)
}

// seal completes the file, makes it durable and gives it its final name.
func (w *packWriter) seal() (packName, error) {
	at := w.at
	ix := binary.AppendUvarint(nil, uint64(len(w.frames)))
	for _, fr := range w.frames {
		ix = binary.AppendUvarint(ix, uint64(fr.n))
		ix = binary.AppendUvarint(ix, uint64(fr.raw))
		ix = binary.AppendUvarint(ix, uint64(len(fr.tags)))
		for _, t := range fr.tags {
			ix = binary.BigEndian.AppendUint32(ix, t)
		}
		for _, n := range fr.sizes {
			ix = binary.AppendUvarint(ix, uint64(n))
		}
	}
	sum := crc32.Checksum(ix, crcTable)
	ix = binary.BigEndian.AppendUint64(ix, uint64(at))
	ix = binary.BigEndian.AppendUint32(ix, sum)
	var name packName
	rand.Read(name[:])
	err := w.write(append(ix, packMagic...))
	if err == nil {
		err = errors.Join(w.f.Chmod(0o400), w.f.Sync(), w.f.Close())
	}
	if err == nil {
		err = os.Rename(w.f.Name(), filepath.Join(w.dir, name.file()))
	}
	if err == nil {
		err = syncDir(w.dir)
	}
	if err != nil {
		w.abandon()
		return name, fmt.Errorf("end a pack file: %w", db.FailedWrite(err))
	}
	return name, nil
}

// abandon removes an unsealed file.
func (w *packWriter) abandon() {
	w.f.Close()
	os.Remove(w.f.Name())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// openPack opens a pack file and returns its size.
func openPack(file string) (*os.File, int64, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", file, fs.ErrInvalid)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, st.Size(), nil
}

// readIndex returns the frames of a pack file.
func readIndex(file string) ([]packFrame, error) {
	f, size, err := openPack(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	bad := func(what string) ([]packFrame, error) {
		return nil, fmt.Errorf("%w: pack file %s: %s", db.ErrDamaged, filepath.Base(file), what)
	}
	if size < int64(len(packMagic)+packTrailer) {
		return bad("too short")
	}
	end := make([]byte, packTrailer)
	if _, err := f.ReadAt(end, size-int64(packTrailer)); err != nil {
		return nil, err
	}
	at := int64(binary.BigEndian.Uint64(end))
	n := size - int64(packTrailer) - at
	if string(end[12:]) != packMagic || at < int64(len(packMagic)) || n < 1 || n > packIndexMost {
		return bad("no trailer")
	}
	ix := make([]byte, n)
	if _, err := f.ReadAt(ix, at); err != nil {
		return nil, err
	}
	if crc32.Checksum(ix, crcTable) != binary.BigEndian.Uint32(end[8:]) {
		return bad("the checksum of its index does not match")
	}
	frames, err := parseIndex(ix, at)
	if err != nil {
		return bad(err.Error())
	}
	return frames, nil
}

var errIndex = errors.New("its index cannot be read")

// parseIndex parses an index. end is the index's offset in the file, where the frames end.
func parseIndex(ix []byte, end int64) ([]packFrame, error) {
	r := bufio.NewReader(bytes.NewReader(ix))
	bad := false
	num := func(most int64) int64 {
		n, err := binary.ReadUvarint(r)
		if err != nil || n > uint64(most) {
			bad = true
			return 0
		}
		return int64(n)
	}
	var frames []packFrame
	at, count := int64(len(packMagic)), num(int64(len(ix)))
	for !bad && int64(len(frames)) < count {
		fr := packFrame{at: at, n: num(end - at), raw: num(2 * frameSize)}
		parts, sum := num(int64(len(ix))), int64(0)
		for range parts {
			var tag [4]byte
			if _, err := io.ReadFull(r, tag[:]); err != nil {
				return nil, errIndex
			}
			fr.tags = append(fr.tags, binary.BigEndian.Uint32(tag[:]))
		}
		for range parts {
			n := num(2 * frameSize)
			fr.sizes = append(fr.sizes, n)
			sum += n
		}
		bad = bad || sum != fr.raw
		frames, at = append(frames, fr), at+fr.n
	}
	if bad {
		return nil, errIndex
	}
	return frames, nil
}

// errUnread means that a pack file cannot be read now. This is not damage.
var errUnread = errors.New("the pack file cannot be read now")

func readPart(file string, at, n int64) ([]byte, error) {
	f, size, err := openPack(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %w", db.ErrDamaged, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errUnread, err)
	}
	defer f.Close()
	if at > size || n > size-at {
		return nil, fmt.Errorf("%w: pack file %s is too short", db.ErrDamaged, filepath.Base(file))
	}
	b := make([]byte, n)
	if _, err := f.ReadAt(b, at); err != nil {
		return nil, fmt.Errorf("%w: read pack file %s: %w", db.ErrDamaged, filepath.Base(file), err)
	}
	return b, nil
}
