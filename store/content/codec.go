package content

import (
	"bytes"
	"fmt"
	"sync"

	"cachebro/store/db"

	"github.com/klauspost/compress/zstd"
)

const (
	// dictMargin is the number of bytes of the base before and after a changed span that serve as
	// dictionary. Moved or repeated text is usually nearby.
	dictMargin = 16 << 10
	// dictWhole is the size up to which the whole base serves as dictionary.
	dictWhole = 64 << 10
	// maxDict bounds the dictionary; zstd's window is 8 MiB.
	maxDict = 4 << 20
	// fast is the size above which contents are compressed at zstd's fastest level. The default
	// level would save 3 % of first versions and take twice the time.
	fast = 256 << 10
	// smallEdit is the size up to which an edit is compressed at the fastest level. At the default
	// level, building the tables for the dictionary would take half of the daemon's work for a
	// save. The fastest level makes the result one percent larger.
	smallEdit = 4 << 10
)

// codecPool keeps zstd encoders and decoders for reuse. Each takes about a megabyte of memory, so
// the pool keeps only a few.
type codecPool struct {
	// mu guards the lists. No other lock is taken while it is held.
	mu sync.Mutex
	// Encoders by kind: bit 0 means the fastest level instead of the default one, bit 1 means that
	// there is a dictionary. Changing an encoder's kind would rebuild its tables.
	encs [4][]*zstd.Encoder
	decs []*zstd.Decoder
}

func (p *codecPool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.decs {
		d.Close()
	}
	p.decs, p.encs = nil, [4][]*zstd.Encoder{}
}

func (p *codecPool) encoder(kind int) (*zstd.Encoder, error) {
	p.mu.Lock()
	if n := len(p.encs[kind]); n > 0 {
		e := p.encs[kind][n-1]
		p.encs[kind] = p.encs[kind][:n-1]
		p.mu.Unlock()
		return e, nil
	}
	p.mu.Unlock()
	level := [...]zstd.EncoderLevel{zstd.SpeedDefault, zstd.SpeedFastest, zstd.SpeedDefault, zstd.SpeedFastest}[kind]
	o := []zstd.EOption{zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderCRC(false), zstd.WithEncoderLevel(level)}
	if kind == 0 {
		o = append(o, zstd.WithWindowSize(fast)) // contents at this level are no larger; the default window would hold 8 MiB forever
	}
	return zstd.NewWriter(nil, o...)
}

func (p *codecPool) putEncoder(kind int, e *zstd.Encoder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.encs[kind]) == 0 { // one is enough, because writeMu allows one writer
		p.encs[kind] = append(p.encs[kind], e)
	}
}

// compress compresses b with zstd. dict is a raw dictionary; nil: none.
func (p *codecPool) compress(b, dict []byte) ([]byte, error) {
	kind := 0
	if len(b) > fast || len(dict) > 0 && len(b) <= smallEdit {
		kind = 1
	}
	if len(dict) > 0 {
		kind |= 2
	}
	e, err := p.encoder(kind)
	if err != nil {
		return nil, err
	}
	defer p.putEncoder(kind, e)
	out := make([]byte, 0, len(b)/2+64)
	if len(dict) == 0 {
		return e.EncodeAll(b, out), nil
	}
	// Compress as a stream, because EncodeAll would build the dictionary's tables twice, in two
	// encoders.
	stream := bytes.NewBuffer(out)
	if err := e.ResetWithOptions(stream, zstd.WithEncoderDictRaw(1, dict)); err != nil {
		return nil, err
	}
	if _, err := e.Write(b); err != nil {
		return nil, err
	}
	err = e.Close()
	return stream.Bytes(), err
}

// expand decompresses the result of compress. size is the expected length.
func (p *codecPool) expand(b, dict []byte, size int64) ([]byte, error) {
	p.mu.Lock()
	var d *zstd.Decoder
	if n := len(p.decs); n > 0 {
		d, p.decs = p.decs[n-1], p.decs[:n-1]
	}
	p.mu.Unlock()
	if d == nil {
		var err error
		d, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
	}
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.decs) < 2 {
			p.decs = append(p.decs, d)
		} else {
			d.Close()
		}
	}()
	opt := zstd.WithDecoderDictDelete(1)
	if len(dict) > 0 {
		opt = zstd.WithDecoderDictRaw(1, dict)
	}
	if err := d.ResetWithOptions(nil, opt); err != nil {
		return nil, err
	}
	out, err := d.DecodeAll(b, make([]byte, 0, size))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", db.ErrDamaged, err)
	}
	if int64(len(out)) != size {
		return nil, fmt.Errorf("%w: %d bytes instead of %d", db.ErrDamaged, len(out), size)
	}
	return out, nil
}

// plain encodes content without a base.
func (p *codecPool) plain(content []byte) (header, []byte, error) {
	h := header{enc: encRaw, size: int64(len(content))}
	if len(content) < 32 {
		return h, content, nil
	}
	z, err := p.compress(content, nil)
	if err != nil {
		return h, nil, err
	}
	if len(z) >= len(content) {
		return h, content, nil
	}
	h.enc = encZstd
	return h, z, nil
}

// delta encodes content against base, whose own header is baseHeader. The common beginning and end
// cost almost nothing, so a small edit of a large file takes microseconds. The rest is compressed
// with the base as dictionary.
func (p *codecPool) delta(content, base []byte, baseHash Hash, baseHeader header) (header, []byte, error) {
	pre := commonPrefix(content, base)
	suf := commonSuffix(content[pre:], base[pre:])
	h := header{
		enc: encGraft, size: int64(len(content)), base: baseHash,
		depth: baseHeader.depth + 1, links: baseHeader.links + 1,
		pre: int64(pre), suf: int64(suf),
	}
	middle := content[pre : len(content)-suf]
	if len(middle) < 16 {
		return h, middle, nil
	}
	from, to := 0, len(base)
	if len(base) > dictWhole {
		from, to = max(0, pre-dictMargin), min(len(base), len(base)-suf+dictMargin)
		to = min(to, from+maxDict)
	}
	z, err := p.compress(middle, base[from:to])
	if err != nil {
		return h, nil, err
	}
	if len(z) >= len(middle) {
		return h, middle, nil
	}
	h.enc = encDelta
	h.dictAt, h.dictLen = int64(from), int64(to-from)
	return h, z, nil
}

// tail encodes a content that consists of the base up to offset at, followed by more. It does not
// read the base.
func (p *codecPool) tail(more []byte, baseHash Hash, base header, at int64) (header, []byte, error) {
	h := header{
		enc: encGraft, size: at + int64(len(more)), base: baseHash,
		depth: base.depth, links: base.links + 1, pre: at,
	}
	if len(more) < 64 {
		return h, more, nil
	}
	z, err := p.compress(more, nil)
	if err != nil || len(z) >= len(more) {
		return h, more, err
	}
	h.enc = encDelta
	return h, z, nil
}

// decode returns the content of a blob. base is the content of h.base, if it has one.
func (p *codecPool) decode(h header, payload, base []byte) ([]byte, error) {
	switch h.enc {
	case encRaw:
		if int64(len(payload)) != h.size {
			return nil, fmt.Errorf("%w: %d bytes instead of %d", db.ErrDamaged, len(payload), h.size)
		}
		return payload, nil
	case encZstd:
		return p.expand(payload, nil, h.size)
	}
	n := int64(len(base))
	if h.pre > n || h.suf > n-h.pre || h.dictAt > n || h.dictLen > n-h.dictAt {
		return nil, fmt.Errorf("%w: the base is shorter than the delta says", db.ErrDamaged)
	}
	middle := payload
	if h.enc == encDelta {
		var err error
		middle, err = p.expand(payload, base[h.dictAt:h.dictAt+h.dictLen], h.size-h.pre-h.suf)
		if err != nil {
			return nil, err
		}
	}
	out := make([]byte, 0, h.size)
	out = append(out, base[:h.pre]...)
	out = append(out, middle...)
	return append(out, base[n-h.suf:]...), nil
}

func commonPrefix(a, b []byte) int {
	n, i := min(len(a), len(b)), 0
	for i+256 <= n && string(a[i:i+256]) == string(b[i:i+256]) {
		i += 256
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

func commonSuffix(a, b []byte) int {
	n, i := min(len(a), len(b)), 0
	for i+256 <= n && string(a[len(a)-i-256:len(a)-i]) == string(b[len(b)-i-256:len(b)-i]) {
		i += 256
	}
	for i < n && a[len(a)-1-i] == b[len(b)-1-i] {
		i++
	}
	return i
}
