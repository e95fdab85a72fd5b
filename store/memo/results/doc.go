// Package results keeps answers that are costly to make until what they were
// made from changes. In observe → version → index → serve it stands beside
// "serve": observation says which files an answer depends on and when one of
// them changes, so that an answer may be given again without being computed.
//
// A Cache wraps any function. Its key is a hash of the tool's name and its
// arguments as canonical JSON. An Entry carries the versions of what it was made
// from (Used). The caller says whether those still hold; if one does not, the entry
// counts as absent, however young it is. A time to live bounds what nobody can
// check. Errors are never kept. Identical calls that arrive while one is being
// computed wait for it, and then check for themselves whether it holds for them: it
// may have begun before a write that they must see.
//
// Entries lie in stores, asked in order and filled in order: Memory (an LRU),
// Kept (a part of the project's database, with a budget of its own) and Redis,
// one server or a cluster, for machines that work on the same code. A store that
// fails counts as empty; nobody waits for a write to Redis.
//
// # Format
//
// A stored entry is one line of JSON, {"v":1,"key":…,"at":…,"uses":[…]}, followed
// by the value's bytes. Kept compresses it with zstd and cuts it into parts of
// 400 KiB: "KEY" holds the number of parts, "KEY\x00N" the parts.
//
// # Locks
//
// Cache.mu guards the calls in flight, Memory.mu and Kept.mu their tables; all
// are leaves, none is held over disk, network or a callback.
package results
