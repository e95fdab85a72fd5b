package portable

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"cachebro/store"
	"cachebro/store/wire"

	"github.com/fxamacker/cbor/v2"
	"github.com/klauspost/compress/zstd"
)

// The format of a history as a stream, number 1. Export writes it and Import reads it.
//
//	"cachebro-history 1\n", then one zstd frame of records. A record is
//	  kind (1 byte), uvarint n, key of n bytes, uvarint m, value of m bytes
//
//	kind  key               value
//	h     (empty)           streamHead, first of all
//	S P T U R g n k J j     a record of the store, without its prefix (see the
//	                        table in package store); of k only the sets that
//	                        the options of Export name
//	b     SHA-256           a content, unencoded
//	v     seq (8 bytes)     Version; ascending, each after its content
//	e     (empty)           streamEnd, last of all
//
// The stream has no index keys, because they can be derived from the versions. streamEnd holds the
// SHA-256 of all records before it. A truncated or altered stream is detected before any of it is
// used.
const (
	streamMagic = "cachebro-history 1\n"

	streamHeadKind = 'h'
	streamContent  = 'b'
	streamEndKind  = 'e'

	// streamKey and streamValue are the greatest lengths of keys and values that a reader accepts,
	// because it allocates that much memory. Values are contents (store.Options.MaxBlob) and
	// records.
	streamKey   = 16 << 10
	streamValue = 1 << 30
	// streamWindow is the distance over which the compressor finds repetitions, and the memory that
	// the decompressor needs. The contents of a file's versions follow each other in the stream.
	streamWindow = 8 << 20
)

// streamHead is the first record of a stream. Number 5 is reserved: older programs wrote a field with
// it.
type streamHead struct {
	Program string `cbor:"1,keyasint,omitempty"` // version of the program that wrote the stream
	Root    string `cbor:"2,keyasint,omitempty"` // the project's root
	Made    int64  `cbor:"3,keyasint,omitempty"` // ns since the epoch
	Gaps    int64  `cbor:"4,keyasint,omitempty"` // gaps ever recorded
	Seq     uint64 `cbor:"6,keyasint,omitempty"` // newest version
	Link    []byte `cbor:"7,keyasint,omitempty"` // for a part (part.go): the caller's data, which links it to the others
}

// Totals counts what a stream contains.
type Totals struct {
	wire.Totals
	// Files is the number of existing files. Only Import counts them.
	Files uint64
	// Program, Root and Made (ns since the epoch) describe the stream's origin.
	Program string
	Root    string
	Made    int64
}

type streamEnd struct {
	Totals wire.Totals `cbor:"1,keyasint"`
	Sum    []byte      `cbor:"2,keyasint"`
}

func encode(v any) []byte {
	b, err := cbor.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err)) // plain structs
	}
	return b
}

func decode(b []byte, v any) error { return store.DecMode.Unmarshal(b, v) }

// streamWriter writes records.
type streamWriter struct {
	z    *zstd.Encoder
	sum  hash.Hash
	head []byte
}

// newStreamWriter begins a stream with a magic line. window is the compressor's window.
func newStreamWriter(w io.Writer, magic string, window int) (*streamWriter, error) {
	if _, err := io.WriteString(w, magic); err != nil {
		return nil, err
	}
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderCRC(true), zstd.WithWindowSize(window), zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
	return &streamWriter{z: z, sum: sha256.New()}, err
}

func (w *streamWriter) put(kind byte, key, val []byte) error {
	if len(key) > streamKey || len(val) > streamValue {
		return fmt.Errorf("%w: a record of %d bytes", store.ErrTooLarge, len(key)+len(val))
	}
	w.head = append(w.head[:0], kind)
	w.head = binary.AppendUvarint(w.head, uint64(len(key)))
	w.head = append(w.head, key...)
	w.head = binary.AppendUvarint(w.head, uint64(len(val)))
	for _, b := range [...][]byte{w.head, val} {
		w.sum.Write(b)
		if _, err := w.z.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// end writes the end record.
func (w *streamWriter) end(c Totals) error {
	err := w.put(streamEndKind, nil, encode(&streamEnd{Totals: c.Totals, Sum: w.sum.Sum(nil)}))
	return errors.Join(err, w.z.Close())
}

// ErrStream means that the data is not a complete history.
var ErrStream = errors.New("the file is not a complete history")

func badStream(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrStream}, a...)...)
}

// readRecords verifies a stream and calls fn with its records.
func readRecords(r io.Reader, magic string, limit int64, fn func(kind byte, key, val []byte) error) (c Totals, err error) {
	in, err := newStreamReader(r, magic, limit)
	if err != nil {
		return c, err
	}
	defer in.close()
	for n := 0; ; n++ {
		kind, key, val, err := in.next()
		if err != nil {
			return c, err
		}
		isFirst := n == 0 && magic != contentsMagic
		mixed := magic != streamMagic && (kind == streamContent) != (magic == contentsMagic)
		switch {
		case kind == streamEndKind && !isFirst:
			return c, in.end(val, c)
		case (kind == streamHeadKind) != isFirst, mixed:
			return c, badStream("a record of kind %q is in the wrong place", kind)
		case kind == streamContent:
			if len(key) != len(store.Hash{}) || sha256.Sum256(val) != store.Hash(key) {
				return c, badStream("content %d does not match its hash", c.Contents+1)
			}
			c.Contents++
			c.Bytes += int64(len(val))
		case kind == store.RecordVersion:
			c.Versions++
		case kind != streamHeadKind:
			c.Records++
		}
		if err := fn(kind, key, val); err != nil {
			return c, err
		}
	}
}

// streamReader reads records and computes their sum.
type streamReader struct {
	src   *source
	z     *zstd.Decoder
	br    *bufio.Reader
	sum   hash.Hash
	limit int64 // size limit for a value
	val   bytes.Buffer
}

func newStreamReader(r io.Reader, magic string, limit int64) (*streamReader, error) {
	have := make([]byte, len(magic))
	n, err := io.ReadFull(r, have)
	switch {
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, err
	case string(have[:n]) == magic:
	case bytes.HasPrefix(have[:n], []byte(magic[:strings.LastIndexByte(magic, ' ')+1])):
		return nil, fmt.Errorf("%w: the format of the file is not %q", store.ErrNewer, strings.TrimSpace(magic))
	default:
		return nil, badStream("it does not begin with %q", strings.TrimSpace(magic))
	}
	src := &source{r: r}
	z, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(streamWindow))
	if err != nil {
		return nil, err
	}
	return &streamReader{src: src, z: z, br: bufio.NewReaderSize(z, 64<<10), sum: sha256.New(), limit: limit}, nil
}

func (r *streamReader) close() { r.z.Close() }

// next returns a record. The slices are valid until the next call. The sum does not cover the end
// record.
func (r *streamReader) next() (kind byte, key, val []byte, err error) {
	kind, err = r.br.ReadByte()
	if err != nil {
		return 0, nil, nil, r.failed(err)
	}
	head := []byte{kind}
	n, head, err := r.length(head, streamKey)
	if err != nil {
		return 0, nil, nil, err
	}
	key = make([]byte, n)
	if _, err := io.ReadFull(r.br, key); err != nil {
		return 0, nil, nil, r.failed(err)
	}
	head = append(head, key...)
	n, head, err = r.length(head, r.limit)
	if err != nil {
		return 0, nil, nil, err
	}
	r.val.Reset()
	if _, err := io.CopyN(&r.val, r.br, n); err != nil { // memory grows only as bytes arrive
		return 0, nil, nil, r.failed(err)
	}
	if kind != streamEndKind {
		r.sum.Write(head)
		r.sum.Write(r.val.Bytes())
	}
	return kind, key, r.val.Bytes(), nil
}

// length reads a uvarint and appends its bytes to head.
func (r *streamReader) length(head []byte, most int64) (int64, []byte, error) {
	n, err := binary.ReadUvarint(r.br)
	if err != nil {
		return 0, head, r.failed(err)
	}
	if n > uint64(most) {
		return 0, head, badStream("a record of %d bytes, which is more than the limit of %d", n, most)
	}
	return int64(n), binary.AppendUvarint(head, n), nil
}

// end compares the end record with the records read, and checks that it is the end of the data.
func (r *streamReader) end(val []byte, have Totals) error {
	var e streamEnd
	if err := decode(val, &e); err != nil {
		return badStream("its end cannot be read")
	}
	if !bytes.Equal(e.Sum, r.sum.Sum(nil)) {
		return badStream("its checksum does not match")
	}
	if e.Totals != have.Totals {
		return badStream("its totals do not match its records")
	}
	if _, err := r.br.ReadByte(); err != io.EOF {
		return badStream("something follows its end")
	}
	return nil
}

// failed wraps an error of the decoder. An error of the source is returned unchanged.
func (r *streamReader) failed(err error) error {
	switch {
	case r.src.err != nil:
		return r.src.err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return badStream("it ends too early")
	}
	return badStream("%v", err)
}

// source remembers the error with which reading failed, unless it was io.EOF.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}
