package answers

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"slices"
	"strings"
	"sync"

	"cachebro/store"
	"cachebro/store/leaf/ignore"
)

// digest represents a set of files. It is the sum, modulo 2^256, of one hash per file, so the
// change of a file costs one subtraction and one addition per directory above it. Equal contents
// have equal digests on every machine.
type digest [4]uint64

func (d digest) String() string {
	var b [32]byte
	for i, w := range d {
		binary.BigEndian.PutUint64(b[8*i:], w)
	}
	return hex.EncodeToString(b[:])
}

func (d digest) plus(o digest, minus bool) digest {
	step, carry := bits.Add64, uint64(0)
	if minus {
		step = bits.Sub64
	}
	for i, w := range slices.Backward(o[:]) {
		d[i], carry = step(d[i], w, carry)
	}
	return d
}

// digests holds a digest for each tracked file and each directory. It reads the version log
// when a digest is requested.
type digests struct {
	store *store.Store

	mu    sync.Mutex // guards the fields below
	built bool
	seq   uint64 // the maps cover the log up to this version
	files map[store.Path]digest
	sums  map[store.Path]digest // by directory; "" is the root
	// secrets are the files whose names suggest that they hold credentials.
	secrets map[store.Path]struct{}
}

// digestOf returns the digest of the file or directory that is now at a path. seq is the newest
// version that the digest takes into account.
func (t *digests) digestOf(p store.Path) (d digest, seq uint64, err error) {
	if err := t.follow(); err != nil {
		return digest{}, 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// A path is a directory or a file, so one of the two digests is zero and the sum is the other.
	return t.sums[p].plus(t.files[p], false), t.seq, nil
}

// secretFiles returns the files for which the filter returns true and whose names suggest that they
// hold credentials.
func (t *digests) secretFiles(which func(store.Path) bool) (paths []store.Path, err error) {
	if err := t.follow(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for p := range t.secrets {
		if which(p) {
			paths = append(paths, p)
		}
	}
	return paths, nil
}

// follow applies the new versions of the log. It reads them without the lock: several
// goroutines may read the same versions, and the first to finish applies them.
func (t *digests) follow() error {
	t.mu.Lock()
	built, seq := t.built, t.seq
	t.mu.Unlock()
	if !built {
		first := &digests{seq: t.store.Seq(), files: map[store.Path]digest{}, sums: map[store.Path]digest{}, secrets: map[store.Path]struct{}{}}
		err := t.store.Live("", func(v store.Version) error {
			first.set(v)
			return nil
		})
		if err != nil {
			return err
		}
		t.mu.Lock()
		if !t.built {
			t.built, t.seq = true, first.seq
			t.files, t.sums = first.files, first.sums
			t.secrets = first.secrets
		}
		seq = t.seq
		t.mu.Unlock()
	}
	const page = 1000
	for t.store.Seq() > seq {
		vs, err := t.store.Since(seq, page)
		if err != nil || len(vs) == 0 {
			return err
		}
		t.mu.Lock()
		for _, v := range vs {
			if v.Seq > t.seq {
				t.set(v)
				t.seq = v.Seq
			}
		}
		seq = t.seq
		t.mu.Unlock()
	}
	return nil
}

// set records a version as the present state of its path. The caller holds mu, or has the only
// reference.
func (t *digests) set(v store.Version) {
	was, had := t.files[v.Path]
	is, has := hashOf(v)
	if had == has && (!has || was == is) {
		return
	}
	for dir := v.Path; dir != ""; {
		i := strings.LastIndexByte(string(dir), '/')
		dir = dir[:max(i, 0)]
		sum := t.sums[dir]
		if had {
			sum = sum.plus(was, true)
		}
		if has {
			sum = sum.plus(is, false)
		}
		if sum == (digest{}) {
			delete(t.sums, dir)
		} else {
			t.sums[dir] = sum
		}
	}
	switch {
	case !has:
		delete(t.files, v.Path)
		delete(t.secrets, v.Path)
		return
	case !had && ignore.Secret(string(v.Path)):
		t.secrets[v.Path] = struct{}{}
	}
	t.files[v.Path] = is
}

// hashOf hashes what a search can see of a path: its name and content. Only tracked regular files
// count, because a search sees nothing else, and not every machine has directories in its log.
func hashOf(v store.Version) (digest, bool) {
	if !v.TrackedFile() {
		return digest{}, false
	}
	h := sha256.New()
	var n [8]byte
	put := func(vs ...uint64) {
		for _, v := range vs {
			binary.BigEndian.PutUint64(n[:], v)
			h.Write(n[:])
		}
	}
	put(uint64(len(v.Path)))
	h.Write([]byte(v.Path))
	h.Write(v.Blob[:])
	if v.Blob == (store.Hash{}) && (v.NoContent != "" || v.Stat.Size > 0) { // the content is unknown, so hash everything else
		put(v.Stat.Dev, v.Stat.Ino, uint64(v.Stat.Size), uint64(v.Stat.Mtime), uint64(v.Stat.Ctime), v.Seq)
	}
	var d digest
	sum := h.Sum(nil)
	for i := range d {
		d[i] = binary.BigEndian.Uint64(sum[8*i:])
	}
	return d, true
}
