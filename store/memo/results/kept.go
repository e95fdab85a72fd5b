package results

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"cachebro/store/leaf/limits"

	"github.com/klauspost/compress/zstd"
)

// KV is the part of the project's database that Disk uses (store.KV).
type KV interface {
	Get(key string) ([]byte, bool, error)
	SetAll(vals map[string][]byte) error
	Scan(prefix string, fn func(key string, val []byte) error) error
}

// partBytes is the size of the parts in which an entry is stored, one per key.
const partBytes = 400 << 10

// headBytes is the size of a head: parts (4), total bytes (8), time in ns (8), expiry in ns (8).
const headBytes = 28

// Disk stores entries in the database of the versions. It has its own budget, so it takes no space
// from the versions. It drops the oldest entries first.
type Disk struct {
	kv     KV
	budget int64
	enc    *zstd.Encoder
	dec    *zstd.Decoder
	now    func() time.Time

	mu    sync.Mutex // guards the fields below
	heads map[string]head
	used  int64
	ready error // the error that prevented reading heads, or nil
	tried bool
}

// head describes an entry without its content.
type head struct {
	parts    int
	bytes    int64
	at, ends int64 // ns
}

var _ Store = (*Disk)(nil)

// NewDisk returns a Disk that stores at most budget bytes in kv (0: limits.Results).
func NewDisk(kv KV, budget int64) (*Disk, error) {
	if budget <= 0 {
		budget = limits.Results
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(1<<20))
	if err != nil {
		return nil, fmt.Errorf("results on disk: %w", err)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
	if err != nil {
		return nil, fmt.Errorf("results on disk: %w", err)
	}
	return &Disk{kv: kv, budget: budget, enc: enc, dec: dec, now: time.Now}, nil
}

// Name implements Store.
func (k *Disk) Name() string { return "disk" }

func partKey(key string, n int) string { return fmt.Sprintf("%s\x00%d", key, n) }

// load reads the heads on its first call.
func (k *Disk) load() error {
	k.mu.Lock()
	if k.tried {
		defer k.mu.Unlock()
		return k.ready
	}
	k.mu.Unlock()
	heads := map[string]head{}
	var orphans []string
	err := k.kv.Scan("", func(key string, val []byte) error {
		name, _, part := strings.Cut(key, "\x00")
		if h, ok := decodeHead(val); !part && ok {
			heads[key] = h
		} else if _, ok := heads[name]; !part || !ok { // sorted: a head comes before its parts
			orphans = append(orphans, key)
		}
		return nil
	})
	if err == nil {
		err = k.remove(orphans)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tried {
		return k.ready
	}
	k.tried, k.ready = true, err
	k.heads = heads
	for _, h := range heads {
		k.used += h.bytes
	}
	return err
}

func decodeHead(b []byte) (head, bool) {
	if len(b) != headBytes {
		return head{}, false
	}
	return head{int(binary.LittleEndian.Uint32(b)), int64(binary.LittleEndian.Uint64(b[4:])),
		int64(binary.LittleEndian.Uint64(b[12:])), int64(binary.LittleEndian.Uint64(b[20:]))}, true
}

func (h head) encode() []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(h.parts))
	for _, n := range []int64{h.bytes, h.at, h.ends} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return b
}

// Get implements Store.
func (k *Disk) Get(_ context.Context, key string) (Entry, bool, error) {
	if err := k.load(); err != nil {
		return Entry{}, false, err
	}
	k.mu.Lock()
	h, ok := k.heads[key]
	k.mu.Unlock()
	if !ok || h.ends < k.now().UnixNano() {
		return Entry{}, false, nil
	}
	var packed []byte
	for n := range h.parts {
		part, ok, err := k.kv.Get(partKey(key, n))
		if err != nil || !ok {
			return Entry{}, false, err
		}
		packed = append(packed, part...)
	}
	raw, err := k.dec.DecodeAll(packed, nil)
	if err != nil {
		return Entry{}, false, nil // replaced during the read, or damaged
	}
	e, err := decodeEntry(raw)
	return e, err == nil, nil
}

// Set implements Store.
func (k *Disk) Set(_ context.Context, key string, e Entry, ttl time.Duration) error {
	if err := k.load(); err != nil {
		return err
	}
	raw, err := encodeEntry(e)
	if err != nil {
		return err
	}
	packed := k.enc.EncodeAll(raw, nil)
	if int64(len(packed)) > k.budget/8 {
		return k.drop(key)
	}
	h := head{bytes: int64(len(packed)), at: e.At.UnixNano(), ends: k.now().Add(ttl).UnixNano()}
	for part := range slices.Chunk(packed, partBytes) {
		if err := k.kv.SetAll(map[string][]byte{partKey(key, h.parts): part}); err != nil {
			return err
		}
		h.parts++
	}
	if err := k.kv.SetAll(map[string][]byte{key: h.encode()}); err != nil {
		return err
	}
	k.mu.Lock()
	old := k.heads[key]
	k.heads[key] = h
	k.used += h.bytes - old.bytes
	drop := k.excessLocked(key)
	k.mu.Unlock()
	for n := h.parts; n < old.parts; n++ {
		drop = append(drop, partKey(key, n))
	}
	return k.remove(drop)
}

// excessLocked removes entries above the budget, but never spare, from the table. It returns their
// keys in the database. The caller holds k.mu.
func (k *Disk) excessLocked(spare string) (keys []string) {
	if k.used <= k.budget {
		return nil
	}
	byAge := func(a, b string) int { return cmp.Compare(k.heads[a].at, k.heads[b].at) }
	for _, name := range slices.SortedFunc(maps.Keys(k.heads), byAge) {
		if k.used <= k.budget*9/10 {
			break
		}
		if name != spare {
			keys = append(keys, k.takeLocked(name)...)
		}
	}
	return keys
}

// takeLocked removes an entry from the table and returns its keys in the database. The caller holds
// k.mu.
func (k *Disk) takeLocked(name string) []string {
	h, ok := k.heads[name]
	if !ok {
		return nil
	}
	delete(k.heads, name)
	k.used -= h.bytes
	keys := []string{name}
	for n := range h.parts {
		keys = append(keys, partKey(name, n))
	}
	return keys
}

// remove deletes keys of the database, in several small transactions.
func (k *Disk) remove(keys []string) error {
	for some := range slices.Chunk(keys, 100) {
		gone := make(map[string][]byte, len(some))
		for _, key := range some {
			gone[key] = nil
		}
		if err := k.kv.SetAll(gone); err != nil {
			return err
		}
	}
	return nil
}

func (k *Disk) drop(key string) error {
	k.mu.Lock()
	keys := k.takeLocked(key)
	k.mu.Unlock()
	return k.remove(keys)
}

// Clear implements Store.
func (k *Disk) Clear(context.Context) error {
	if err := k.load(); err != nil {
		return err
	}
	k.mu.Lock()
	var keys []string
	for name := range k.heads {
		keys = append(keys, k.takeLocked(name)...)
	}
	k.mu.Unlock()
	return k.remove(keys)
}

// Len returns the number of entries.
func (k *Disk) Len() (int, error) {
	if err := k.load(); err != nil {
		return 0, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.heads), nil
}

// Bytes returns the used part of the budget.
func (k *Disk) Bytes() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.used
}
