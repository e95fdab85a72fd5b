// Package results caches costly answers until their input changes. Callers know which files an
// answer depends on and when one of them changes.
//
// A Cache wraps any function. Its key is a hash of the tool's name and its arguments as canonical
// JSON. An Entry holds the versions of its input (Used). The caller decides whether these versions
// are still the current ones. If one is not, the entry is not used. A time to live limits the age
// of answers whose input cannot be checked. Errors are never stored. Identical calls that arrive
// during a computation wait for it. Each waiting call then checks the answer, because the
// computation may have begun before a write that the call must see.
//
// Stores hold the entries and are queried and filled in order:
//   - Memory holds the most recently used entries.
//   - Disk is a part of the project's database with its own budget.
//   - Redis is a server or a cluster, for machines that work on the same code.
//
// A store that fails counts as empty. Writes to Redis are asynchronous.
//
// # Format
//
// A stored entry is one line of JSON, {"v":1,"key":…,"at":…,"uses":[…]}, followed by the value's
// bytes. Disk compresses it with zstd and cuts it into parts of 400 KiB: "KEY" holds a head (the
// number of parts, the size and times), "KEY\x00N" the parts.
//
// # Locks
//
// Cache.mu guards the calls in flight, Disk.mu the table of heads, and Memory has a lock of its
// own. No other lock is taken while one of them is held, and none is held during disk or network
// access or a callback.
package results
