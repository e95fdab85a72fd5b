package store

import (
	"crypto/sha256"
	"encoding"
)

const (
	// maxNodes bounds the table; a node that fell out is found again through
	// the newest version of its path (see tailBase).
	maxNodes = 4096
	// tailBuffer is how many appended bytes a node keeps for longer tails.
	tailBuffer = 64 << 10
	// tailBuffers bounds them for all nodes together.
	tailBuffers = 8 << 20
)

// nodeTable remembers, per inode of the present mount, which content it had
// when it was last closed, so that an append costs the appended bytes and not
// the whole file.
//
// A chain of tails would be as long as the number of appends. So the tail of
// append number i is not against number i-1 but against number i&(i-1), which
// keeps chains as short as the number of set bits, and each appended byte is
// stored about log2(n)/2 times (longer tails compress better, which takes most
// of that back). After tailBuffer bytes the count starts anew.
type nodeTable struct {
	young, old map[uint64]*node // two generations, as in genCache
	buffered   int              // bytes in acc, at most
}

type node struct {
	inode inode
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

func newNodeTable() nodeTable {
	return nodeTable{young: map[uint64]*node{}, old: map[uint64]*node{}}
}

// inode is what tells one file from another across mounts.
type inode struct {
	dev, ino uint64
	birth    int64
}

func inodeOf(st Stat) inode { return inode{st.Dev, st.Ino, st.Birth} }

func (t *nodeTable) get(id uint64) *node {
	if id == 0 {
		return nil
	}
	if n := t.young[id]; n != nil {
		return n
	}
	n := t.old[id]
	if n != nil {
		t.put(id, n)
	}
	return n
}

func (t *nodeTable) put(id uint64, n *node) {
	if id == 0 {
		return
	}
	t.young[id] = n
	t.buffered += len(n.acc) / 8 // it doubles when it grows
	if len(t.young) > maxNodes/2 {
		t.old, t.young = t.young, map[uint64]*node{}
	}
	if t.buffered > tailBuffers {
		for _, gen := range [...]map[uint64]*node{t.young, t.old} {
			for id, n := range gen {
				gen[id] = rootNode(n.inode, n.hash, n.size, n.sum)
			}
		}
		t.buffered = 0
	}
}

func (t *nodeTable) clear() { *t = newNodeTable() }

// rootNode starts a chain at a content whose bytes are known.
func rootNode(in inode, h Hash, size int64, sum []byte) *node {
	return &node{inode: in, hash: h, size: size, sum: sum, marks: []mark{{0, h, size}}}
}

// appended returns the node after more, and the mark that its tail builds on
// with the bytes since then. The receiver stays as it is: the batch may fail.
func (n *node) appended(h Hash, more, sum []byte) (*node, mark, []byte) {
	next := &node{inode: n.inode, hash: h, size: n.size + int64(len(more)), sum: sum, i: n.i + 1}
	root := n.marks[0]
	// Sharing the array is fine: it only ever grows behind what older nodes
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
		return rootNode(n.inode, h, next.size, sum), from, bytes
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
