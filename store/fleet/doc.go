// Package fleet keeps what many machines did, in all their projects, in PostgreSQL: who
// wants to know asks there, by SQL or by the queries here. It is behind the buckets of
// store/remote as an index is behind a store: it holds nothing that is not there, contents
// not at all, and can be made anew. doc/fleet.md describes the tables; migrations/ makes
// them.
//
// Any number of processes may feed it. Whoever feeds a machine holds an advisory lock on
// it; the others pass it over. What is known of it is in its row, and a segment's rows and
// the step of that row from one segment to the next are one transaction, so that each
// segment counts once whether or not the lock held.
package fleet
