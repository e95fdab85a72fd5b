// Package daemon is the process that owns a project's store. It turns what mountd spooled into
// versions, and answers every client.
//
// This package is the core: the daemon's life, its socket, and the dispatch of requests. The
// services answer the requests, each in its own subpackage. A service is a struct with the few
// things that it needs and its own table of handlers. Every service asks survey for the present
// state of files; sessions, find and tidy are at the top and use several other services.
//
// The daemon may be killed at any instant. The store contains what it has ingested, and the spool
// contains the rest. The checkpoint, which is the position in the spool up to which everything is
// ingested, is written together with the versions.
//
// State directory of a project (0700):
//
//	lock          flock and pid of the living daemon
//	daemon.log    its log; daemon.log.1 holds the 5 MB before that
//	socket        where it listens
//	start.lock    flock of a client that is starting a daemon
//	spool/        written by mountd (package spool)
//	store/        Badger (package store)
//	index/        bleve (package search)
//
// # Ending
//
// A daemon that has nothing to do for 90 s (Options.IdleExit) ends, whether or not the project is
// mounted; awake lists what prevents that. mountd starts it again with its next record, and a
// client with its next request. If the state directory, the socket or the project disappears, the
// daemon ends within 0.1 s, or 15 s if the kernel does not report that. After SIGTERM it ends
// within 1 s, or 5 s later if something is still being sent to a bucket.
//
// # Locks
//
// The order is, outermost first: updating of package survey (held over a search of the whole tree),
// applyMu of package ingest (held over store.Apply, because the checkpoint must match the appended
// versions), mount.mu of package survey, the mutexes of packages attribution and source,
// baseline.mu of package survey. Two mutexes that share a place in this order are never held
// together. Only updating and applyMu are held while a callback runs.
//
// The mutexes of packages lost and gitstate, of the comments and of the notes, and entering of
// package reads are held while the store is used; those of the tables of ignore rules and of linked
// worktrees (package source) while files are read. They make the requests to one service wait for
// each other, and none of the mutexes above is taken meanwhile. No mutex is held while a client's
// socket is read or written.
package daemon
