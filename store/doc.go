// Package store keeps every version of every file, its author, and the activity of the sessions. It
// owns one Badger database, which only one process (the store daemon) opens. Package store/content
// stores the contents of the versions.
//
// # Key layout, schema 5
//
// Numbers are big-endian, so that keys sort by them. Records are CBOR with integer keys. A NUL
// separates a path from what follows it, because no path contains a NUL.
//
//	key                          value
//	m state                      State: newest seq, the ingest checkpoint, counters
//	m schema                     uvarint
//	m alone                      exists if something was purged; no pack file is adopted then
//	v seq                        Version: the log
//	c path                       seq, Version: the newest version of a path, deleted ones too
//	p path NUL seq               op, class: the history of a path
//	d seq                        group: all versions that one rename of a directory made for the paths in it
//	D seq n                      a list of the paths in the directory, piece n; groups may share it
//	z seq/256                    lowest and highest time of the versions in this block, and their author if they have only one
//	i kind id NUL seq            kind s session, p prompt, t tool call, u plan
//	l dev ino birth path         (empty): one of several names of an inode
//	L dev ino birth              how many names the inode has
//	b hash                       blob: header and payload, or header alone (see store/content)
//	B hash n                     payload of a large blob, piece n
//	F frame                      the pack file that holds a zstd frame, and the position in it (see store/content)
//	g time n                     Gap
//	n time n                     Notice
//	k bucket NUL key             small values of other packages (KV)
//	S session                    Session
//	P session NUL time prompt    Prompt
//	T tool call                  ToolCall
//	U session NUL time tool call (empty): the tool calls of a session in order
//	R session NUL path           WorkingFile: reads and edits of the working set
//	J plan                       the head of a plan in the journal
//	J plan NUL n                 steps of a plan, piece n
//	j plan NUL step              a step of the plan that was carried out
//
// The versions of a group have numbers and c keys, and share one i key of each kind. They have no v
// and p keys, because they are made from the group's record when they are read (see group.go).
//
// A batch is written by one transaction. If it is too big (the rename of a large directory), it
// takes several, and the last one writes m state. Open removes versions above the sequence number
// in m state. Therefore a batch and its checkpoint are stored together or not at all.
//
// # Locks
//
// Locks are taken in this order: tidyMu (one collection, fsck, purge or adoption at a time), the
// database's writer lock, its gate (see store/db), and the locks of the caches. The locks of the
// caches are never held during disk access. Readers take no lock. They read Badger's snapshots and
// see nothing above the published sequence number.
package store
