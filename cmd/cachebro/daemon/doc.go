// Package daemon is the process that owns a project's store. It turns what mountd spooled
// into versions, and answers every client.
//
// This package is the core: the daemon's life, its socket, and the dispatch of requests.
// The services answer them, each in a package below this one. A service is a struct with
// the few things that it needs and its own table of handlers. Every service asks survey
// what the files are now; sessions, find and tidy stand at the top.
//
// The daemon may be killed at any instant. What it has not yet ingested lies in the spool,
// what it has ingested lies in the store, and the position between the two (the checkpoint)
// is written together with the versions.
//
// State directory of a project (0700):
//
//	lock          flock and pid of the living daemon
//	daemon.log    what it logged; daemon.log.1 the 5 MB before
//	socket        where it listens
//	start.lock    flock of a client that is starting a daemon
//	spool/        written by mountd (package spool)
//	store/        Badger (package store)
//	index/        bleve (package search)
//
// # Ending
//
// With nothing to do for 90 s (Options.IdleExit) the daemon ends, mounted or not; awake
// lists what keeps it. mountd starts it again at the first record, and any client with its
// question. It also ends within 0.1 s of its state directory, socket or project going away
// (15 s where the kernel reports nothing), and 1 s after SIGTERM, whatever is running; 5 s
// later where something is still being sent to a bucket.
//
// # Locks
//
// Order, outermost first: applyMu of package ingest (held over store.Apply: the
// checkpoint and who may append are one thing), mount.mu of package survey, those of
// packages attribution and source, baseline.mu and verified.mu of package survey. No
// other pair nests, and none but applyMu is held over disk, socket or callback.
package daemon
