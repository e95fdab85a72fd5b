// Package storage has the commands for the store as a whole (du, prune, fsck, purge, export,
// import), those for buckets (remote), and the process that serves a store (daemon).
package storage
