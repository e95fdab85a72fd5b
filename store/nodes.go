package store

import "cachebro/store/content"

const (
	// maxNodes bounds the table. Other nodes are found through the newest version of their path
	// (see batch.node).
	maxNodes = 4096
	// tailBuffers bounds the bytes that all nodes together buffer.
	tailBuffers = 8 << 20
)

// nodeTable maps each inode of the current mount to its content at the last close. With it, the
// cost of an append depends on the appended bytes and not on the size of the file.
type nodeTable struct {
	young, old map[uint64]*node // two generations, as in cache.Cache
	buffered   int              // upper bound of the bytes in tails
}

type node struct {
	inode Inode
	tail  *content.Tail
}

func newNodeTable() nodeTable {
	return nodeTable{young: map[uint64]*node{}, old: map[uint64]*node{}}
}

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
	t.buffered += n.tail.Buffered() / 8 // the buffer doubles when it grows
	if len(t.young) > maxNodes/2 {
		t.old, t.young = t.young, map[uint64]*node{}
	}
	if t.buffered > tailBuffers {
		for _, gen := range [...]map[uint64]*node{t.young, t.old} {
			for id, n := range gen {
				gen[id] = &node{n.inode, n.tail.Short()}
			}
		}
		t.buffered = 0
	}
}

func (t *nodeTable) clear() { *t = newNodeTable() }
