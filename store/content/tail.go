package content

import (
	"crypto/sha256"
	"encoding"
)

// tailBuffer is the number of appended bytes that a Tail holds. Later appends are encoded against
// them.
const tailBuffer = 64 << 10

// Tail describes the content of a file at its last close. With it, the cost of an append depends on
// the appended bytes and not on the size of the file. A Tail is immutable.
//
// If each append built on the previous one, the chain would grow with the number of appends. So
// append i builds on append i&(i-1). A chain is then as long as the number of set bits of i, and
// each appended byte is stored about log2(n)/2 times. Longer tails compress better, which makes up
// for most of that. After tailBuffer bytes the count starts anew.
type Tail struct {
	hash  Hash
	size  int64
	sum   []byte // marshalled SHA-256 state after size bytes; nil: unknown
	i     uint64 // number of appends
	marks []mark // the root, then one for each set bit of i, highest bit first
	acc   []byte // the bytes appended since the root
}

// mark is a content that may be the base of later tails.
type mark struct {
	bit  uint64
	hash Hash
	size int64
}

// newTail starts a chain at a content whose bytes are known.
func newTail(h Hash, size int64, sum []byte) *Tail {
	return &Tail{hash: h, size: size, sum: sum, marks: []mark{{0, h, size}}}
}

// Hash returns the hash of the content.
func (n *Tail) Hash() Hash { return n.hash }

// Buffered returns how many bytes the Tail holds in memory.
func (n *Tail) Buffered() int { return len(n.acc) }

// appended returns the tail after more was appended, the mark that is its base, and the bytes since
// that mark. It does not change the receiver, because the batch may fail.
func (n *Tail) appended(h Hash, more, sum []byte) (*Tail, mark, []byte) {
	next := &Tail{hash: h, size: n.size + int64(len(more)), sum: sum, i: n.i + 1}
	root := n.marks[0]
	// Tails may share the array. The array only grows beyond the part that older tails use, and
	// bytes of a failed batch are overwritten.
	next.acc = append(n.acc, more...)
	bit := next.i & -next.i
	for _, m := range n.marks {
		if m.bit == 0 || m.bit > bit {
			next.marks = append(next.marks, m)
		}
	}
	from := next.marks[len(next.marks)-1]
	bytes := next.acc[from.size-root.size:]
	if len(next.acc) > tailBuffer {
		// Start a new root whose base is the old one. It stores all bytes appended since.
		from, bytes = root, next.acc
		return newTail(h, next.size, sum), from, bytes
	}
	next.marks = append(next.marks, mark{bit, h, next.size})
	return next, from, bytes
}

// hashFrom continues a marshalled SHA-256 state, or starts one if sum is nil. It returns the hash
// and the new state.
func hashFrom(sum, more []byte) (Hash, []byte) {
	d := sha256.New()
	if sum != nil {
		if err := d.(encoding.BinaryUnmarshaler).UnmarshalBinary(sum); err != nil {
			panic(err) // impossible: this function marshalled the state itself
		}
	}
	d.Write(more)
	var h Hash
	d.Sum(h[:0])
	state, err := d.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		panic(err)
	}
	return h, state
}
