// Package fleet stores the histories of many machines, without contents, in PostgreSQL. They can be
// queried by SQL or by the functions of this package. The database is an index of the buckets of
// store/remote and can be rebuilt from them. doc/fleet.md describes the tables; migrations/ creates
// them.
//
// Any number of processes may feed it. A process that feeds a machine holds a lease on it, and the
// others skip that machine. A machine's row records how far its history has been read. One
// transaction writes the rows of a segment and advances the machine's row. So each segment is added
// exactly once, even if the lease expires.
package fleet
