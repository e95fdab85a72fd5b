//go:build linux || darwin

package fusefs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"cachebro/fusefs/sys"

	"golang.org/x/sys/unix"
)

// The ledger holds what a successor needs if this server is killed: the kernel's INIT, nodes with
// their names, open handles, and operations in progress. It is a file in memory (memfd), and the
// supervisor also holds a descriptor of it. The file is mapped, so that writing an entry needs no
// system call. Its pages are allocated (fallocate) before they are written, so that a lack of
// memory causes an error instead of a signal. After such an error the ledger is no longer used.
//
//	0        ledgerHead
//	4 KiB    one byte per piece of 64 KiB: the size class of its slots
//	32 KiB   256 attempts of 128 bytes
//	64 KiB   pieces
//
// The kind of a slot is written last and cleared first, so a partly written slot does not count. On
// a nil ledger, all methods do nothing.
type ledger struct {
	mem    []byte
	fd     int
	head   *ledgerHead
	broken atomic.Bool

	mu   sync.Mutex // guards free and the growth of the file
	free [len(slotSizes)][]uint32
}

const (
	ledgerMagic   = 0x6c65646765720001 // the last digits are the version
	ledgerMax     = 1 << 30
	pieceSize     = 64 << 10
	classesAt     = 4 << 10
	attemptsAt    = 32 << 10
	ledgerInitMax = 256
)

// slotSizes are multiples of 64, because a slot is identified by its offset divided by 64.
var slotSizes = [...]int{64, 320}

type ledgerHead struct {
	magic    uint64
	nextID   atomic.Uint64 // see table.nextID
	nextFH   atomic.Uint64 // see handles.next
	links    atomic.Uint64 // number of the newest name; newer names of a node are tried first
	state    atomic.Uint32 // ledgerState
	pieces   atomic.Uint32 // the number of pieces of the file, including the first
	serving  atomic.Uint32 // counts the servers that have used this ledger
	initLen  uint32
	replyLen uint32
	init     [ledgerInitMax]byte
	reply    [ledgerInitMax]byte
}

// States of a ledger.
const (
	ledgerServing = iota + 1
	ledgerEnded   // the server ended in an orderly way, so there is nothing to take over
	ledgerUnable  // the ledger is incomplete
)

// Kinds of slots.
const (
	slotFree uint32 = iota
	slotNode
	slotLink
	slotHandle
	slotLock
	slotDevice
)

// Flags of a nodeSlot.
const (
	nodeGone     uint32 = 1 << iota // see inode.gone
	nodeDetached                    // see table.detach
	nodeDirty
	nodeCreated // see writes.created
)

type nodeSlot struct {
	kind, flags atomic.Uint32
	id          uint64
	key
	nlookup uint64
	mode    uint32
	// These fields are used only for a resting file (see table.go): the slot of its name, the
	// number of its record, and its size. A successor does not use them.
	link, record, size uint32
}

type linkSlot struct {
	kind         atomic.Uint32
	size         uint32
	node, parent uint64
	seq          uint64
	name         [256]byte
}

const linkHead = int(unsafe.Offsetof(linkSlot{}.name))

type handleSlot struct {
	kind     atomic.Uint32
	flags    uint32
	fh, node uint64
	unique   uint64 // the id of the request that opened the file
	start    uint64
	pid, tid uint32
	uid, gid uint32
	reads    bool
}

// lockSlot stores one owner of locks on a file, and a handle through which that owner locked. If fh
// is 0, the owner is lockedFile.guard.
type lockSlot struct {
	kind        atomic.Uint32
	pid         uint32
	owner, node uint64
	fh, key     uint64
}

// deviceSlot stores the number given to a device; see devices.
type deviceSlot struct {
	kind        atomic.Uint32
	dev, number uint64
}

// newLedger initializes a ledger in an empty memfd.
func newLedger(f *os.File) (*ledger, error) {
	if err := sys.Allocate(int(f.Fd()), 0, 0, pieceSize); err != nil {
		return nil, fmt.Errorf("room for the ledger: %w", err)
	}
	l, err := mapLedger(f)
	if err != nil {
		return nil, err
	}
	l.head.magic = ledgerMagic
	l.head.pieces.Store(1)
	l.head.state.Store(ledgerServing)
	return l, nil
}

func mapLedger(f *os.File) (*ledger, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	mem, err := unix.Mmap(fd, 0, ledgerMax, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("map the ledger: %w", err)
	}
	return &ledger{mem: mem, fd: fd, head: (*ledgerHead)(unsafe.Pointer(&mem[0]))}, nil
}

var errLedger = errors.New("the ledger cannot be taken over")

// openLedger opens the ledger of a server that has ended.
func openLedger(f *os.File) (*ledger, error) {
	fi, err := f.Stat()
	if err != nil || fi.Size() < pieceSize {
		return nil, errors.Join(errLedger, err)
	}
	l, err := mapLedger(f)
	if err != nil {
		return nil, err
	}
	h := l.head
	if h.magic != ledgerMagic || h.state.Load() != ledgerServing || h.initLen == 0 || int64(h.pieces.Load())*pieceSize > fi.Size() {
		err := fmt.Errorf("%w: state %d, %d pieces in %d bytes", errLedger, h.state.Load(), h.pieces.Load(), fi.Size())
		l.unmap()
		return nil, err
	}
	return l, nil
}

func (l *ledger) unmap() {
	_ = unix.Munmap(l.mem)
	unix.Close(l.fd)
}

// close closes the descriptor. The ledger stays mapped, because an Observer may use files after the
// server has ended.
func (l *ledger) close() {
	if l != nil {
		l.mu.Lock()
		l.broken.Store(true)
		l.mu.Unlock()
		unix.Close(l.fd)
	}
}

// setState changes the state. ledgerUnable and ledgerEnded are final.
func (l *ledger) setState(s uint32) {
	if l != nil {
		l.head.state.CompareAndSwap(ledgerServing, s)
	}
}

// giveUp marks the ledger as incomplete after an entry did not fit.
func (l *ledger) giveUp() {
	l.broken.Store(true)
	l.setState(ledgerUnable)
}

// setInit stores the kernel's INIT and our reply to it.
func (l *ledger) setInit(in, out []byte) {
	if l == nil {
		return
	}
	if len(in) > ledgerInitMax || len(out) > ledgerInitMax || !resends(in) {
		l.giveUp()
		return
	}
	l.head.replyLen = uint32(copy(l.head.reply[:], out))
	l.head.initLen = uint32(copy(l.head.init[:], in))
}

// resends reports whether the kernel that sent this INIT can resend requests (Linux 6.9).
func resends(in []byte) bool {
	const flags, flags2 = 40 + 12, 40 + 16 // after the header: major, minor, max_readahead
	if len(in) < flags2+4 {
		return false
	}
	f := uint64(binary.NativeEndian.Uint32(in[flags:])) | uint64(binary.NativeEndian.Uint32(in[flags2:]))<<32
	return resending != 0 && f&resending == resending
}

func classFor(size int) int {
	if size <= slotSizes[0] {
		return 0
	}
	return 1
}

func (l *ledger) alloc(class int) uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.free[class]) == 0 && !l.growLocked(class) {
		return 0
	}
	list := l.free[class]
	ref := list[len(list)-1]
	l.free[class] = list[:len(list)-1]
	return ref
}

func (l *ledger) growLocked(class int) bool {
	n := l.head.pieces.Load()
	at := int64(n) * pieceSize
	if l.broken.Load() || at+pieceSize > ledgerMax || sys.Allocate(l.fd, 0, at, pieceSize) != nil {
		l.giveUp()
		return false
	}
	l.mem[classesAt+int(n)] = byte(class)
	l.head.pieces.Store(n + 1)
	size := slotSizes[class]
	for off := pieceSize - pieceSize%size - size; off >= 0; off -= size {
		l.free[class] = append(l.free[class], uint32((int(at)+off)>>6))
	}
	return true
}

func (l *ledger) at(ref uint32) unsafe.Pointer { return unsafe.Pointer(&l.mem[int(ref)<<6]) }

// drop frees a slot. Slot 0 means none.
func (l *ledger) drop(ref uint32) {
	if l == nil || ref == 0 {
		return
	}
	(*atomic.Uint32)(l.at(ref)).Store(slotFree)
	class := l.mem[classesAt+int(ref)<<6/pieceSize]
	l.mu.Lock()
	l.free[class] = append(l.free[class], ref)
	l.mu.Unlock()
}

// slots calls f for every used slot and puts the others on the free lists.
func (l *ledger) slots(f func(ref, kind uint32)) {
	for i := range l.free {
		l.free[i] = l.free[i][:0]
	}
	for p := 1; p < int(l.head.pieces.Load()); p++ {
		class := l.mem[classesAt+p]
		size := slotSizes[class]
		for off := 0; off+size <= pieceSize; off += size {
			ref := uint32((p*pieceSize + off) >> 6)
			if kind := (*atomic.Uint32)(l.at(ref)).Load(); kind != slotFree {
				f(ref, kind)
			} else {
				l.free[class] = append(l.free[class], ref)
			}
		}
	}
	for i := range l.free {
		slices.Reverse(l.free[i])
	}
}

// add adds a node that is new to the kernel. It adds the node's name first, unless the name still
// has a slot, as it has for a directory that stayed in the table.
func (l *ledger) add(n *inode) {
	if l == nil || l.broken.Load() {
		return
	}
	ref := l.alloc(0)
	if ref == 0 {
		return
	}
	n.slot.Store(ref)
	if n.link.parent != nil && n.link.slot == 0 {
		n.link.slot = l.link(n, n.link.parent, n.link.name)
	}
	s := (*nodeSlot)(l.at(ref))
	s.id, s.key = n.id, n.key
	s.nlookup, s.mode = n.nlookup, n.kind
	s.flags.Store(0)
	if n.gone {
		s.flags.Store(nodeGone)
	}
	s.kind.Store(slotNode)
}

// addResting adds a node that has no inode and was looked up once. It adds the node's name first.
// It returns the node's slot, or 0 if there is no room.
func (l *ledger) addResting(id uint64, k key, kind uint32, parent *inode, name string) uint32 {
	if l.broken.Load() {
		return 0
	}
	at := l.name(id, parent.id, name)
	if at == 0 {
		return 0
	}
	ref := l.alloc(0)
	if ref == 0 {
		l.drop(at)
		return 0
	}
	s := (*nodeSlot)(l.at(ref))
	s.id, s.key = id, k
	s.nlookup, s.mode = 1, kind
	s.link = at
	s.flags.Store(0)
	s.kind.Store(slotNode)
	return ref
}

// lookups stores n.nlookup. The caller has locked the table's shard of n's key.
func (l *ledger) lookups(n *inode) {
	if l == nil {
		return
	}
	if ref := n.slot.Load(); ref != 0 {
		(*nodeSlot)(l.at(ref)).nlookup = n.nlookup
	}
}

// forget removes a node. Its names are removed later, under the tree's lock.
func (l *ledger) forget(n *inode) {
	if l != nil {
		l.drop(n.slot.Swap(0))
	}
}

func (l *ledger) flag(n *inode, flag uint32, on bool) {
	if l == nil {
		return
	}
	ref := n.slot.Load()
	if ref == 0 {
		return
	}
	if s := (*nodeSlot)(l.at(ref)); on {
		s.flags.Or(flag)
	} else {
		s.flags.And(^flag)
	}
}

// link adds a name of n and returns its slot, or 0 if n has no entry.
func (l *ledger) link(n, parent *inode, name string) uint32 {
	if l == nil || n.slot.Load() == 0 {
		return 0
	}
	return l.name(n.id, parent.id, name)
}

func (l *ledger) name(node, parent uint64, name string) uint32 {
	if len(name) > unix.NAME_MAX {
		return 0
	}
	ref := l.alloc(classFor(linkHead + len(name)))
	if ref == 0 {
		return 0
	}
	s := (*linkSlot)(l.at(ref))
	s.node, s.parent = node, parent
	s.seq, s.size = l.head.links.Add(1), uint32(len(name))
	copy(l.mem[int(ref)<<6+linkHead:], name)
	s.kind.Store(slotLink)
	return ref
}

func (l *ledger) linkName(ref uint32) string {
	at := int(ref)<<6 + linkHead
	return string(l.mem[at : at+int((*linkSlot)(l.at(ref)).size)])
}

func (l *ledger) device(dev, number uint64) {
	if l == nil || l.broken.Load() {
		return
	}
	if ref := l.alloc(0); ref != 0 {
		s := (*deviceSlot)(l.at(ref))
		s.dev, s.number = dev, number
		s.kind.Store(slotDevice)
	}
}

// handle adds an open handle. unique is the id of the request that opened it.
func (l *ledger) handle(h *handle, unique uint64) {
	if l == nil || l.broken.Load() {
		return
	}
	ref := l.alloc(0)
	if ref == 0 {
		return
	}
	s := (*handleSlot)(l.at(ref))
	s.flags = h.flags
	s.fh = h.fh
	s.node = h.node.id
	s.unique = unique &^ resendBit
	s.reads = h.readable
	s.pid = h.owner.PID
	s.tid = h.owner.TID
	s.uid = h.owner.UID
	s.gid = h.owner.GID
	s.start = 0
	if h.owner.Proc != nil {
		s.start = h.owner.Proc.Start
	}
	h.slot = ref
	s.kind.Store(slotHandle)
}

// lock adds an owner of locks on n, with the handle through which it locks, and returns the slot.
// key is the FDStore's number for the owner's descriptor.
func (l *ledger) lock(owner, key uint64, pid uint32, n *inode, fh uint64) uint32 {
	if l == nil || l.broken.Load() {
		return 0
	}
	ref := l.alloc(0)
	if ref == 0 {
		return 0
	}
	s := (*lockSlot)(l.at(ref))
	s.pid = pid
	s.owner = owner
	s.node = n.id
	s.fh = fh
	s.key = key
	s.kind.Store(slotLock)
	return ref
}

// asks reports whether to ask the kernel for a capability. A server that takes over must ask for
// the same capabilities as the first server, which may have been an earlier version of the program.
func (l *ledger) asks(capability uint64, takeOver bool) bool {
	const flags, flags2 = 16 + 12, 16 + 32 // offsets in the reply, after its header
	if !takeOver || l == nil {
		return true
	}
	capabilities := uint64(binary.NativeEndian.Uint32(l.head.reply[flags:])) | uint64(binary.NativeEndian.Uint32(l.head.reply[flags2:]))<<32
	return capabilities&capability != 0
}
