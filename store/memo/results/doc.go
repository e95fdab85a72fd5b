// Package results caches answers that are costly to compute until their input changes. It
// belongs to the "serve" stage of observe → version → index → serve. Observation determines
// which files an answer depends on and when one of them changes, so that an answer may be
// reused without being computed again.
//
// A Cache wraps any function. Its key is a hash of the tool's name and its arguments as
// canonical JSON. An Entry holds the versions of its input (Used). The caller decides whether
// those are still valid; if one is not, the entry counts as absent, however new it is. A time
// to live limits the age of answers whose input cannot be checked. Errors are never stored.
// Identical calls that arrive while one is being computed wait for it, and then check for
// themselves whether its answer is valid for them, because it may have begun before a write
// that they must see.
//
// Entries are held in stores, which are queried and filled in order: Memory (an LRU), Disk (a
// part of the project's database with its own budget) and Redis, one server or a cluster, for
// machines that work on the same code. A store that fails counts as empty. Writes to Redis
// are asynchronous.
//
// # Format
//
// A stored entry is one line of JSON, {"v":1,"key":…,"at":…,"uses":[…]}, followed
// by the value's bytes. Disk compresses it with zstd and cuts it into parts of
// 400 KiB: "KEY" holds the number of parts, "KEY\x00N" the parts.
//
// # Locks
//
// Cache.mu guards the calls in flight, Memory.mu and Disk.mu their tables. No other lock is
// taken while one of them is held, and none is held over disk, network or a callback.
package results
