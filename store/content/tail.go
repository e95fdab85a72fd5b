package content

import (
	"crypto/sha256"
	"encoding"
)

// tailBuffer is how many appended bytes a Tail keeps for longer ones.
const tailBuffer = 64 << 10

// Tail remembers what a file held when it was last closed, so that an append costs
// the appended bytes and not the whole file. Immutable.
//
// A chain of tails would grow with the number of appends. So the tail of append i is
// relative not to append i-1 but to append i&(i-1). This keeps chains as short as the
// number of set bits, and each appended byte is stored about log2(n)/2 times (longer
// tails compress better, which recovers most of that). After tailBuffer bytes the
// count starts anew.
type Tail struct {
	hash  Hash
	size  int64
	sum   []byte // marshalled SHA-256 state after size bytes, nil unknown
	i     uint64 // number of the append
	marks []mark // of the set bits of i, highest bit first, behind the root
	acc   []byte // what was appended since the root
}

// mark is a content that later tails may build on; at is where acc stood.
type mark struct {
	bit  uint64
	hash Hash
	size int64
}

// newTail starts a chain at a content whose bytes are known.
func newTail(h Hash, size int64, sum []byte) *Tail {
	return &Tail{hash: h, size: size, sum: sum, marks: []mark{{0, h, size}}}
}

// Hash is that of the content.
func (n *Tail) Hash() Hash { return n.hash }

// Buffered is how many bytes it holds in memory.
func (n *Tail) Buffered() int { return len(n.acc) }

// Short is the same content without what it holds in memory.
func (n *Tail) Short() *Tail { return newTail(n.hash, n.size, n.sum) }

// appended returns the tail after more, and the mark that its tail builds on
// with the bytes since then. The receiver stays as it is: the batch may fail.
func (n *Tail) appended(h Hash, more, sum []byte) (*Tail, mark, []byte) {
	next := &Tail{hash: h, size: n.size + int64(len(more)), sum: sum, i: n.i + 1}
	root := n.marks[0]
	// Sharing the array is fine: it only ever grows behind what older tails
	// look at, and the bytes of a failed batch are written again.
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
		// The next root; built on this one, with all bytes since.
		from, bytes = root, next.acc
		return newTail(h, next.size, sum), from, bytes
	}
	next.marks = append(next.marks, mark{bit, h, next.size})
	return next, from, bytes
}

// hashFrom continues a marshalled SHA-256 state, or starts one when sum is nil.
// It returns the hash and the state afterwards.
func hashFrom(sum, more []byte) (Hash, []byte) {
	d := sha256.New()
	if sum != nil {
		if err := d.(encoding.BinaryUnmarshaler).UnmarshalBinary(sum); err != nil {
			panic(err) // made by the function below, in this process
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
