// Package fleet keeps what many machines did, in all their projects, in PostgreSQL, where it can be
// queried by SQL or by the functions here. It relates to the buckets of store/remote as an index
// relates to a store: it holds nothing that is not in them, no contents at all, and can be rebuilt.
// doc/fleet.md describes the tables; migrations/ creates them.
//
// Any number of processes may feed it. A process that feeds a machine holds a lease on it; the
// others skip that machine. A machine's row holds how far its history has been read. The rows of a
// segment and the step of that row to the next segment are one transaction, so that each segment
// counts once whether or not the lease held.
package fleet
